"""``make up``, ``make down``, ``make destroy``: the ordered actions that make a lab, keep it and remove it."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from provisioning.checks import warnings_of
from provisioning.cluster import (
    CHANGE_END_S,
    Cluster,
    Container,
    all_containers,
    remove_containers,
    remove_networks,
    run_local,
)
from provisioning.engine import ensure_engine
from provisioning.errors import LabError
from provisioning.images import ensure_images
from provisioning.old_state import leave_rays_state, read_state, refuse_old_state, volumes, write_state
from provisioning.progress import Progress
from provisioning.ready import start_accounting_first, wait_ready
from provisioning.secretfiles import ensure_secrets
from provisioning.settings import Settings

#: How long a lab may take from start to ready, on a slow and busy machine.
READY_TIMEOUT_S = float(os.environ.get("LAB_TIMEOUT_S", "") or 180)
#: The mark of a `make destroy` that has not come to its end, below compose/generated/PROJECT/.
DESTROYING = "destroying"


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
        if (settings.generated / DESTROYING).exists():
            progress.say("note", "make destroy did not come to its end: it does now")
            destroy(settings)
        running = refuse_other_owner(cluster)
        refuse_old_state(cluster)
        ensure_images(settings.slurm, lambda text: progress.say("images", text))
        _end_rotation(cluster, progress)
        state = read_state(settings)
        complete = running and state.get("ready") == "true"
        if complete and cluster.stale_files():
            progress.say("note", "the YAML differs from what runs: make plan shows how, make apply closes it")
        if not complete:
            _prepare(cluster, progress, running=running)
        containers = cluster.containers()
        missing = [name for name in cluster.services() if name not in containers or containers[name].state != "running"]
        surplus = [name for name in containers if name not in cluster.services()]
        if missing or surplus:
            progress.say("containers", f"starting {len(missing)}" if missing else f"removing {', '.join(surplus)}")
            if not complete:
                start_accounting_first(cluster, progress, READY_TIMEOUT_S)
            cluster.remove(surplus)
            cluster.compose("up", "--detach", "--no-build")
            progress.say("containers", "started")
        wait_ready(cluster, progress, timeout_s=READY_TIMEOUT_S, accounting=not complete)
        if not complete:
            write_state(settings, cluster.lab, ready=True)
        progress.say("ready", f"lab {cluster.lab.name}, Slurm {settings.slurm}; dashboard http://{cluster.dashboard}; "
                              "make shell, make status, make smoke")  # fmt: skip
    return 0


def _prepare(cluster: Cluster, progress: Progress, *, running: bool) -> None:
    """Secrets and files of a start; ``running``: an earlier one was broken off when some containers ran already."""
    settings = cluster.settings
    if running and cluster.stale_files():
        progress.say("note", "a start was broken off, and the YAML has changed since: it begins anew")
        _remove(settings, all_containers(settings.project))
        running = False
    if not running:
        refuse_taken_port(cluster)
        if note := leave_rays_state(settings, read_state(settings)):
            progress.say("note", note)
    ensure_secrets(settings.generated / "secrets")
    cluster.write_files()
    write_state(settings, cluster.lab, ready=False)


def _end_rotation(cluster: Cluster, progress: Progress) -> None:
    """Of an earlier `make rotate-secrets` that was broken off."""
    from provisioning.rotate import FOLDER, rotate

    if (cluster.settings.generated / FOLDER).is_dir():
        progress.say("note", "make rotate-secrets did not come to its end: it does now")
        rotate(cluster, progress, force=False)


def down(settings: Settings) -> int:
    """Remove the containers; volumes, and so the queue, accounting and homes, stay."""
    containers = all_containers(settings.project)
    refuse_other_checkout(settings, containers)
    _remove(settings, containers)
    print(f"{settings.project} is down; its state is kept (make up goes on, make destroy removes it)")
    return 0


def destroy(settings: Settings) -> int:
    """Remove containers, volumes, rendered files and secrets. What is broken off here the next `make up` ends."""
    containers = all_containers(settings.project)
    refuse_other_checkout(settings, containers)
    if settings.generated.is_dir():
        (settings.generated / DESTROYING).touch()
    _remove(settings, containers)
    left = volumes(settings)
    if left:
        removed = run_local(["docker", "volume", "rm", "--force", *left], timeout_s=120, end_s=CHANGE_END_S)
        if removed.exit_code:
            raise LabError(f"volumes are left: {removed.last_lines}", "end what uses them, then make destroy again")
    # first the name: what is left of it under another is no lab
    going = settings.generated.with_name(f".{settings.project}.gone")
    shutil.rmtree(going, ignore_errors=True)
    if settings.generated.is_dir():
        settings.generated.rename(going)
        shutil.rmtree(going, ignore_errors=True)
    print(f"{settings.project} is gone, with its jobs, homes and secrets")
    return 0


def _remove(settings: Settings, containers: Iterable[Container]) -> None:
    """Containers and networks, by the project's labels alone: needs neither the YAML nor the rendered files."""
    remove_containers((one.name for one in containers), grace_s=10)
    for network, users in remove_networks(settings.project).items():
        why = f"{', '.join(users)} uses it" if users else "the engine says that something uses it, and nothing does"
        print(f"note: the network {network} stays: {why}; make destroy after "
              f"{'that' if users else 'the next start of the engine'} removes it")  # fmt: skip
