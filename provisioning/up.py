"""``make up``, ``make down``, ``make destroy``: the ordered actions that make a lab, keep it and remove it."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from provisioning.checks import warnings_of
from provisioning.cluster import Cluster, Container, list_containers, remove_containers, run_local
from provisioning.engine import ensure_engine
from provisioning.errors import LabError
from provisioning.images import ensure_images
from provisioning.lab import Lab
from provisioning.progress import Progress
from provisioning.ready import start_accounting_first, wait_ready
from provisioning.secretfiles import ensure_secrets
from provisioning.settings import SLURM_LINES, Settings

#: How long a lab may take from start to ready, on a slow and busy machine.
READY_TIMEOUT_S = float(os.environ.get("LAB_TIMEOUT_S", "") or 180)
#: What the last complete start was made of, below compose/generated/PROJECT/.
STATE_FILE = "state.json"
#: Labels of volumes carry the project; Compose writes them.
VOLUME_FILTER = "label=com.docker.compose.project="


def _read_state(settings: Settings) -> dict[str, str]:
    path = settings.generated / STATE_FILE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise LabError(f"{path} is damaged: {error}", "remove the file, then make up") from error
    return {str(key): str(value) for key, value in state.items()}


def _write_state(settings: Settings, lab: Lab, *, ready: bool) -> None:
    state = {"lab": lab.name, "slurm": settings.slurm, "cluster": lab.slurm.cluster_name, "ready": str(ready).lower()}
    (settings.generated / STATE_FILE).write_text(json.dumps(state) + "\n", encoding="utf-8")


def volumes(settings: Settings) -> list[str]:
    """Names of the project's volumes."""
    listed = run_local(["docker", "volume", "ls", "--quiet", "--filter", f"{VOLUME_FILTER}{settings.project}"])
    if listed.exit_code:
        raise LabError(f"the engine does not list its volumes: {listed.last_lines}", "make up starts the engine")
    return listed.stdout.split()


def refuse_other_checkout(settings: Settings, containers: Iterable[Container]) -> None:
    """Raise LabError if a container belongs to another checkout that still exists."""
    for container in containers:
        checkout = container.labels.get("lab.checkout", "")
        if checkout and checkout != str(settings.root) and Path(checkout).exists():
            raise LabError(f"the project {settings.project} belongs to the checkout {checkout}",
                           f"choose another name: PROJECT={settings.project}-2 DASHBOARD_PORT=8266")  # fmt: skip


def refuse_other_owner(cluster: Cluster) -> bool:
    """Raise LabError if the project name is in use by another lab; return whether containers of this one run."""
    settings, running = cluster.settings, False
    containers = cluster.containers().values()
    refuse_other_checkout(settings, containers)
    for container in containers:
        labels = container.labels
        for what, wanted in (("lab.name", cluster.lab.name), ("lab.slurm", settings.slurm)):
            if labels.get(what, wanted) != wanted:
                kind = what.removeprefix("lab.")
                raise LabError(
                    f"the project {settings.project} already runs {kind} {labels[what]}, not {wanted}",
                    "make down first, or choose another name: PROJECT=second DASHBOARD_PORT=8266",
                )
        running = running or container.state == "running"
    return running


def refuse_old_state(cluster: Cluster) -> None:
    """Raise LabError for volumes of a newer Slurm, of another lab, or without their secrets."""
    settings, state = cluster.settings, _read_state(cluster.settings)
    if not volumes(settings):
        return
    remedy = f"make destroy PROJECT={settings.project} removes them, with all jobs and homes in them"
    if not (settings.generated / "secrets").is_dir():
        raise LabError(f"volumes of an earlier lab {settings.project} exist, but its secrets are gone", remedy)
    was = state.get("slurm", settings.slurm)
    if was in SLURM_LINES and SLURM_LINES.index(was) > SLURM_LINES.index(settings.slurm):
        raise LabError(
            f"the volumes of {settings.project} were written by Slurm {was}; {settings.slurm} cannot read them",
            f"SLURM={was} make up, or {remedy}",
        )
    for key, now in (("lab", cluster.lab.name), ("cluster", cluster.lab.slurm.cluster_name)):
        if state.get(key, now) != now:
            raise LabError(f"the volumes of {settings.project} belong to the {key} {state[key]}, not {now}",
                           f"choose another name: PROJECT={cluster.lab.name}, or {remedy}")  # fmt: skip


def refuse_taken_port(cluster: Cluster) -> None:
    """Raise LabError if another program listens where the dashboard is to be published."""
    address, _, port = cluster.dashboard.rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, int(port)))
        except (OSError, OverflowError, ValueError) as error:
            raise LabError(f"port {cluster.dashboard} of the dashboard cannot be used: {error}",
                           "choose another: DASHBOARD_PORT=8266 make up") from error  # fmt: skip


def up(settings: Settings) -> int:
    """Bring the lab up, or find that it is up. Raises LabError with the part that is not ready."""
    cluster = Cluster.open(settings)
    with Progress() as progress:
        for warning in warnings_of(cluster.lab):
            progress.say("warning", warning)
        ensure_engine(lambda text: progress.say("engine", text))
        running = refuse_other_owner(cluster)
        refuse_old_state(cluster)
        ensure_images(settings.slurm, lambda text: progress.say("images", text))
        complete = running and _read_state(settings).get("ready") == "true"
        if complete and cluster.stale_files():
            progress.say("note", "the YAML differs from what runs: make plan shows how, make apply closes it")
        if not complete:
            if not running:
                refuse_taken_port(cluster)
            ensure_secrets(settings.generated / "secrets")
            cluster.write_files()
            _write_state(settings, cluster.lab, ready=False)
        containers = cluster.containers()
        missing = [name for name in cluster.services() if name not in containers or containers[name].state != "running"]
        if missing:
            progress.say("containers", f"starting {len(missing)}")
            if not complete:
                start_accounting_first(cluster, progress, READY_TIMEOUT_S)
            cluster.compose("up", "--detach", "--no-build", "--remove-orphans")
            progress.say("containers", "started")
        wait_ready(cluster, progress, timeout_s=READY_TIMEOUT_S, accounting=not complete)
        if not complete:
            _write_state(settings, cluster.lab, ready=True)
        progress.say("ready", f"lab {cluster.lab.name}, Slurm {settings.slurm}; dashboard http://{cluster.dashboard}; "
                              "make shell, make status, make smoke")  # fmt: skip
    return 0


def down(settings: Settings) -> int:
    """Remove the containers; volumes, and so the queue, accounting and homes, stay."""
    _compose_down(settings)
    print(f"{settings.project} is down; its state is kept (make up goes on, make destroy removes it)")
    return 0


def destroy(settings: Settings) -> int:
    """Remove containers, volumes, rendered files and secrets."""
    _compose_down(settings, "--volumes")
    left = volumes(settings)
    if left:
        removed = run_local(["docker", "volume", "rm", "--force", *left], timeout_s=120)
        if removed.exit_code:
            raise LabError(f"volumes are left: {removed.last_lines}", "end what uses them, then make destroy again")
    shutil.rmtree(settings.generated, ignore_errors=True)
    print(f"{settings.project} is gone, with its jobs, homes and secrets")
    return 0


def _compose_down(settings: Settings, *options: str) -> None:
    """Works from the project's labels alone, so that it needs neither the YAML nor the rendered files."""
    containers = list_containers(settings.project).values()
    refuse_other_checkout(settings, containers)
    remove_containers((one.name for one in containers), grace_s=10)
    command = ["docker", "compose", "--ansi", "never", "-p", settings.project, "down", "--remove-orphans"]
    done = run_local([*command, *options], timeout_s=180)
    if done.exit_code:
        raise LabError(f"docker compose down: {done.last_lines}", "make down again, then docker ps")
