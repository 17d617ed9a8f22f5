"""``make rotate-secrets``: a new Slurm key, database password and Ray token, on a running lab or one that is down.

Every daemon reads its secret when it starts, and the database sets its user's password then, see slurm.conf(5),
AuthType. So: new secrets are laid aside, all containers stop (slurmctld first, so that nothing starts meanwhile), the
new ones take the place of the old, all start. The folder they are laid aside in is also the mark of a rotation that has
not come to its end: the next call finds it and goes on with the same secrets.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from provisioning import ray_api
from provisioning.cluster import Cluster, Container
from provisioning.errors import LabError
from provisioning.progress import Progress
from provisioning.secretfiles import MAKERS, ensure_secrets, write_secret
from provisioning.settings import Settings

#: Where the new secrets lie until every container has them, below compose/generated/PROJECT/.
FOLDER = "rotating"
READY_S = 180.0


def refuse_running_work(cluster: Cluster) -> None:
    """Raise LabError if jobs run in Slurm or Ray: their processes end with their containers."""
    rows = cluster.exec("slurmctld", ["squeue", "-h", "-t", "R,CG,S", "-o", "%A (%u, %T)"], timeout_s=20).stdout
    work = [f"job {row}" for row in rows.splitlines()]
    work += [f"Ray job {row.get('submission_id') or row.get('job_id')}" for row in ray_api.get(cluster, "/api/jobs/")
             if row.get("status") == "RUNNING"]  # fmt: skip
    if work:
        raise LabError(
            f"work runs that new secrets would end: {', '.join(work)}",
            "make rotate-secrets when it has ended, or make rotate-secrets FORCE=1 (batch jobs are requeued)",
        )


def lay_aside(cluster: Cluster) -> bool:
    """Make the new secrets, all or none of them; False if an earlier rotation has made them."""
    folder = cluster.settings.generated / FOLDER
    if folder.is_dir():
        return False
    partial = folder.with_name(f"{FOLDER}.new")
    shutil.rmtree(partial, ignore_errors=True)
    ensure_secrets(partial)
    partial.rename(folder)
    return True


def put_in_place(cluster: Cluster) -> None:
    """The new secrets instead of the old; the same again does no harm."""
    aside, folder = cluster.settings.generated / FOLDER, cluster.settings.generated / "secrets"
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in MAKERS:
        write_secret(folder / name, (aside / name).read_bytes())


def stopping_order(cluster: Cluster, containers: Mapping[str, Container]) -> list[list[str]]:
    """Who stops together: the controller first, so that no job starts any more; then those who tell it how jobs ended
    or run themselves; accounting and its database last, so that nothing is lost on its way to them."""
    groups = [["slurmctld"], ["login", *cluster.nodes(), "ray-head", *cluster.ray_workers()], ["slurmdbd"], ["db"]]
    return [there for group in groups if (there := [name for name in group if name in containers])]


def rotate(cluster: Cluster, progress: Progress, *, force: bool) -> None:
    """Give the lab new secrets, or end a rotation that was left half done. Raises LabError if it cannot."""
    from provisioning.ready import wait_ready
    from provisioning.up import refuse_other_owner

    if not (cluster.settings.generated / "secrets").is_dir():
        raise LabError(f"the lab {cluster.settings.project} has no secrets yet", "make up makes them")
    running = refuse_other_owner(cluster)
    containers = cluster.containers()
    half_done = (cluster.settings.generated / FOLDER).is_dir()
    if running and not force and not half_done:
        refuse_running_work(cluster)
    made = lay_aside(cluster)
    progress.say("secrets", "new ones made" if made else "going on with those of the rotation before")
    for group in stopping_order(cluster, containers):
        progress.say("stopping", ", ".join(group))
        cluster.compose("stop", "--timeout", "20", *group)
    put_in_place(cluster)
    progress.say("secrets", "in place")
    if containers:
        cluster.compose("start")
        progress.say("containers", "started")
        wait_ready(cluster, progress, timeout_s=READY_S, accounting=False)
    shutil.rmtree(cluster.settings.generated / FOLDER)
    progress.say("ready", "all have the new secrets; make token prints Ray's" if containers
                 else "the next make up hands the new secrets out")  # fmt: skip


def rotate_command(settings: Settings, *, force: bool) -> int:
    """``make rotate-secrets``; what fails can be called again."""
    cluster = Cluster.open(settings)
    with Progress() as progress:
        try:
            rotate(cluster, progress, force=force)
        except LabError as error:
            if not (settings.generated / FOLDER).is_dir():
                raise
            raise LabError(f"the rotation is half done: {error.what}", "make rotate-secrets again goes on from here; "
                           f"{error.hint or 'make doctor says what is wrong'}") from error  # fmt: skip
    return 0
