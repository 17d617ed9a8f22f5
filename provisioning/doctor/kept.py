"""What is kept between starts: volumes and their secrets, the cluster's number, and a change of secrets half done."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from provisioning.doctor.finding import Finding
from provisioning.doctor.look import Look
from provisioning.errors import LabError

#: Compose names volumes PROJECT_NAME.
VOLUMES = ("db", "slurmctld", "home", "scratch", "ray")
CLUSTER_FILE = "/var/spool/slurmctld/clustername"


def volume_findings(project: str, have: Collection[str]) -> Iterator[Finding]:
    """A lab has all its volumes or none; what is left of a lab that lost some does not fit together."""
    lost = [name for name in VOLUMES if f"{project}_{name}" not in have]
    if lost and len(lost) < len(VOLUMES):
        yield Finding(
            "volumes",
            f"{', '.join(lost)} of the lab {project} are gone, the others are from before",
            f"make destroy PROJECT={project} removes the rest, with its jobs and homes; then make up",
        )


def volumes(look: Look) -> Iterator[Finding]:
    """Volumes belong to this lab, are all there, and their secrets are."""
    from provisioning.old_state import refuse_old_state
    from provisioning.old_state import volumes as volumes_of

    look.containers()
    yield from volume_findings(look.cluster.settings.project, volumes_of(look.cluster.settings))
    refuse_old_state(look.cluster)  # its error is the finding


def cluster_findings(kept: str, recorded: dict[str, str], volume: str, image: str) -> Iterator[Finding]:
    """``kept`` is slurmctld's ``name|number``; ``recorded`` are accounting's numbers by name."""
    name, _, number = kept.strip().partition("|")
    if not name or not number or not recorded:
        return
    wanted = recorded.get(name)
    if wanted == number:
        return
    said = f"has {name} with the number {wanted}" if wanted else f"knows only {', '.join(sorted(recorded))}"
    yield Finding("slurmctld", f"cluster id mismatch: its saved state is of {name}, number {number}; accounting "
                  f"{said}. One of the two volumes was lost, and slurmctld does not start like this",
                  "make destroy, then make up, starts afresh. To keep the queue: docker run --rm --volume "
                  f"{volume}:/state {image} rm /state/clustername, then make up")  # fmt: skip


def cluster_id(look: Look) -> Iterator[Finding]:
    """The number that slurmctld keeps is the one that accounting has for the cluster."""
    if "slurmctld" not in look.containers() or not look.running("db"):
        return
    query = "SELECT name, id FROM cluster_table WHERE deleted = 0"
    rows = look.answer("db", "mariadb", "--batch", "--skip-column-names", "slurm_acct_db", "--execute", query)
    recorded = dict(line.split("\t", 1) for line in rows.splitlines() if "\t" in line)
    try:
        # copied out, not read by a command: slurmctld does not run when the two differ
        kept = look.cluster.read_file("slurmctld", CLUSTER_FILE)
    except LabError:
        return  # it has not been saved yet
    project, line = look.cluster.settings.project, look.cluster.settings.slurm
    yield from cluster_findings(kept, recorded, f"{project}_slurmctld", f"slurm-ray-lab/slurm:{line}")


def rotation(look: Look) -> Iterator[Finding]:
    """No change of secrets was left half done."""
    from provisioning.rotate import FOLDER

    if (look.cluster.settings.generated / FOLDER).is_dir():
        yield Finding("secrets", "make rotate-secrets did not come to its end: old and new ones are in use",
                      "make rotate-secrets again finishes it")  # fmt: skip


def secrets(look: Look) -> Iterator[Finding]:
    """The secrets are all there, not empty, and closed to others."""
    from provisioning.secretfiles import MAKERS

    folder = look.cluster.settings.generated / "secrets"
    if not folder.is_dir():
        return  # never started, or found by the check of the volumes
    for name in MAKERS:
        content = look.secret(name)
        if not content:
            yield Finding("secrets", f"{name} is {'empty' if content == b'' else 'gone'}",
                          "make rotate-secrets makes new ones and hands them out")  # fmt: skip
        elif mode := (folder / name).stat().st_mode & 0o077:
            yield Finding("secrets", f"{name} can be read by others (mode {mode:03o} beyond the owner's)",
                          "make up closes it; make rotate-secrets if somebody may have read it")  # fmt: skip


def one_line(text: str) -> str:
    """A log's text for a message: no line breaks, no time stamps, not long."""
    return re.sub(r"\[\d{4}-\d\d-\d\dT[\d:.]+\]\s*", "", " ".join(text.split()))[:300]
