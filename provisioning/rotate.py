"""``make rotate-secrets``: a new Slurm key, database password and Ray token, on a running lab or one that is down.

Every daemon reads its secret when it starts, and the database sets its user's password then, see slurm.conf(5),
AuthType. So: the nodes are drained, new secrets are laid aside, all containers stop (slurmctld first, the database
last), the new ones take the place of the old, all start. The folder they are laid aside in is also the mark of a
rotation that has not come to its end: the next call finds it and goes on with the same secrets.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from provisioning import ray_api
from provisioning.cluster import Cluster, Container
from provisioning.errors import LabError
from provisioning.plan_config import held_back, parse_rows
from provisioning.progress import Progress
from provisioning.redact import ROTATING
from provisioning.secretfiles import MAKERS, ensure_secrets, write_secret
from provisioning.settings import Settings
from provisioning.waiting import wait_for

#: Where the new secrets lie until every container has them, below compose/generated/PROJECT/.
FOLDER = ROTATING
#: Why nodes are held back meanwhile; those with this reason are resumed at the end, others are left alone.
REASON = "make rotate-secrets"
READY_S = 180.0


def _running_jobs(cluster: Cluster, states: str = "R,S,CF") -> list[str]:
    rows = cluster.exec("slurmctld", ["squeue", "-h", "-t", states, "-o", "%A (%u, %T)"], timeout_s=20).stdout
    return rows.splitlines()


def _node_rows(cluster: Cluster) -> dict[str, dict[str, str]]:
    return parse_rows(cluster.exec("slurmctld", ["scontrol", "-o", "show", "node"], timeout_s=20).stdout, "NodeName")


def _update(cluster: Cluster, nodes: Sequence[str], *words: str) -> None:
    if nodes:
        cluster.exec("slurmctld", ["scontrol", "update", f"NodeName={','.join(nodes)}", *words], timeout_s=30)


def resume(cluster: Cluster) -> None:
    """Back into service what a rotation held back; drains by hand stay."""
    ours = [name for name, row in _node_rows(cluster).items() if row.get("Reason", "").startswith(REASON)]
    _update(cluster, ours, "State=RESUME")


def quiet_down(cluster: Cluster, *, force: bool) -> None:
    """No job starts any more, and none runs: their processes would end with their containers, unknown to slurmctld.

    Raises LabError if jobs run in Slurm or Ray and are not to be ended; then all is as before.
    """
    usable = [name for name, row in _node_rows(cluster).items() if not held_back({name: row})]
    _update(cluster, usable, "State=DRAIN", f"Reason={REASON}")
    try:
        work = [f"job {row}" for row in _running_jobs(cluster)]
        if not force:
            _refuse(work + _running_ray_jobs(cluster))
        if work:
            _end_jobs(cluster, usable)
        wait_for("jobs that are to end", lambda: _running_jobs(cluster, "R,S,CF,CG"), lambda rows: not rows,
                 timeout_s=60, show=", ".join, look_at="squeue; make logs NODE=slurmctld")  # fmt: skip
    except BaseException:  # Ctrl-C too
        resume(cluster)
        raise


def _running_ray_jobs(cluster: Cluster) -> list[str]:
    return [f"Ray job {row.get('submission_id') or row.get('job_id')}"
            for row in ray_api.get(cluster, "/api/jobs/") if row.get("status") == "RUNNING"]  # fmt: skip


def _refuse(work: Sequence[str]) -> None:
    if work:
        raise LabError(
            f"work runs that new secrets would end: {', '.join(work)}",
            "make rotate-secrets when it has ended, or make rotate-secrets FORCE=1 (batch jobs are requeued)",
        )


def _end_jobs(cluster: Cluster, usable: Sequence[str]) -> None:
    """Batch jobs go back into the queue, others end."""
    _update(cluster, usable, "State=DOWN", f"Reason={REASON}")
    # what is left runs on nodes that somebody drained by hand, whose reason is not to be lost
    for row in _running_jobs(cluster):
        job = row.split()[0]
        if cluster.exec("slurmctld", ["scontrol", "requeue", job], check=False).exit_code:
            cluster.exec("slurmctld", ["scancel", job], check=False)


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
    """Who stops together: accounting and its database last, so that nothing is lost on its way to them."""
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
    if running and not half_done:
        try:
            quiet_down(cluster, force=force)
        except LabError as error:
            if not force:
                raise
            progress.say("note", f"going on although it is not known what runs: {error.what}")
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
        wait_for("slurmctld", lambda: resume(cluster), lambda _: True, timeout_s=READY_S,
                 look_at="make logs NODE=slurmctld")  # fmt: skip
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
