"""What an earlier start of a project has left, and whether this one can go on from it.

Slurm reads the state of the three releases before it (Slurm's upgrade guide), never that of a later one. Ray reads
the state of no other Ray or Python. What cannot be read is refused before anything is touched, or, of Ray, left behind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from provisioning import versions
from provisioning.cluster import CHANGE_END_S, PROJECT_LABEL, Cluster, run_local
from provisioning.errors import LabError
from provisioning.files import write_whole
from provisioning.lab import Lab
from provisioning.settings import Settings

#: What the last start was made of, below compose/generated/PROJECT/.
STATE_FILE = "state.json"
#: Number of the way in which volumes and secrets are laid out; another one is not understood.
LAYOUT = "1"
RAY_VOLUMES = ("ray", "ray-session")


def read_state(settings: Settings) -> dict[str, str]:
    """What the last start wrote; empty if there was none. Raises LabError if it cannot be read."""
    path = settings.generated / STATE_FILE
    try:
        return {str(key): str(value) for key, value in json.loads(path.read_text(encoding="utf-8")).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError) as error:
        raise LabError(f"{path} is damaged: {error}", "remove the file, then make up") from error


def write_state(settings: Settings, lab: Lab, *, ready: bool) -> None:
    """``ready`` says that the start came to its end."""
    state = {"lab": lab.name, "slurm": settings.slurm, "cluster": lab.slurm.cluster_name, "ray": versions.RAY,
             "layout": LAYOUT, "ready": str(ready).lower()}  # fmt: skip
    write_whole(settings.generated / STATE_FILE, json.dumps(state) + "\n")


def volumes(settings: Settings) -> list[str]:
    """Names of the project's volumes."""
    listed = run_local(["docker", "volume", "ls", "--quiet", "--filter", f"label={PROJECT_LABEL}={settings.project}"])
    if listed.exit_code:
        raise LabError(f"the engine does not list its volumes: {listed.last_lines}", "make up starts the engine")
    return listed.stdout.split()


def reads(now: str, was: str) -> bool:
    """Whether Slurm ``now`` can go on from what ``was`` wrote: itself, or one of the three releases before it."""
    known = versions.SLURM_RELEASES
    return was in known and 0 <= known.index(now) - known.index(was) <= 3


def refuse_old_state(cluster: Cluster) -> None:
    """Raise LabError for volumes that this start cannot go on from: of a Slurm that this one cannot read, another
    lab, another layout, or without their secrets."""
    settings, state = cluster.settings, read_state(cluster.settings)
    if not volumes(settings):
        return
    remedy = f"make destroy PROJECT={settings.project} removes them, with all jobs and homes in them"
    if not (settings.generated / "secrets").is_dir():
        raise LabError(f"volumes of an earlier lab {settings.project} exist, but its secrets are gone", remedy)
    if (layout := state.get("layout", LAYOUT)) != LAYOUT:
        raise LabError(f"the volumes of {settings.project} have layout {layout}, this checkout knows {LAYOUT}",
                       f"take the checkout that made them, or {remedy}")  # fmt: skip
    was = state.get("slurm", settings.slurm)
    if not reads(settings.slurm, was):
        back = f"SLURM={was} make up, or " if was in versions.SUITES else ""
        raise LabError(
            f"the volumes of {settings.project} were written by Slurm {was}; {settings.slurm} cannot read them",
            back + remedy,
        )
    for key, now in (("lab", cluster.lab.name), ("cluster", cluster.lab.slurm.cluster_name)):
        if state.get(key, now) != now:
            raise LabError(f"the volumes of {settings.project} belong to the {key} {state[key]}, not {now}",
                           f"choose another name: PROJECT={cluster.lab.name}, or {remedy}")  # fmt: skip


def leave_rays_state(settings: Settings, state: Mapping[str, str]) -> str:
    """Remove what another Ray, or the other Slurm line with its other Python, has written; say so. Empty if nothing."""
    was = (state.get("ray", "an unknown version"), state.get("slurm", settings.slurm))
    gone = {f"{settings.project}_{name}" for name in RAY_VOLUMES} & {*volumes(settings)}
    if was == (versions.RAY, settings.slurm) or not gone:
        return ""
    removed = run_local(["docker", "volume", "rm", *sorted(gone)], timeout_s=60, end_s=CHANGE_END_S)
    if removed.exit_code:
        raise LabError(f"Ray's old state cannot be removed: {removed.last_lines}", "make down, then make up")
    return (f"Ray's state was written by Ray {was[0]} beside Slurm {was[1]}, which Ray {versions.RAY} beside Slurm "
            f"{settings.slurm} does not read: its jobs, actors and placement groups are left behind")  # fmt: skip
