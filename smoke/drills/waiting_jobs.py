"""Four jobs that wait, each for another reason, on an empty cluster."""

from __future__ import annotations

from provisioning.cluster import Cluster
from provisioning.waiting import wait_for
from smoke.drill import COMMENT, Drill, operator, submit, waiting_jobs
from smoke.scenarios import machine


def plant(cluster: Cluster) -> None:
    """A job of tomorrow, one that its user holds, one that the operator holds, one whose parent failed."""
    lab = cluster.lab
    user = lab.users[0].name
    options = [*machine.options(lab, user, 0, 5), "--mem=100M"]
    failed = submit(cluster, user, "--job-name=parent", *options, wrap="exit 3")
    wait_for("the parent has failed",
             lambda: operator(cluster, "squeue", "-h", "--states=all", "-j", failed, "-o", "%T").strip(),
             "FAILED".__eq__, timeout_s=30, look_at=f"scontrol show job {failed}")  # fmt: skip
    submit(cluster, user, "--job-name=tomorrow", "--begin=now+1day", *options)
    submit(cluster, user, "--job-name=mine", "--hold", *options)
    submit(cluster, user, "--job-name=child", f"--dependency=afterok:{failed}", *options)
    held = submit(cluster, user, "--job-name=theirs", "--begin=now+1day", *options)
    operator(cluster, "scontrol", "hold", held)
    operator(cluster, "scontrol", "update", f"JobId={held}", "StartTime=now")


def trouble(cluster: Cluster) -> str:
    """How many of the four still wait."""
    left = waiting_jobs(cluster)
    return f"{len(left)} of the jobs with comment {COMMENT} still wait: {', '.join(sorted(left))}" if left else ""


def mend(cluster: Cluster) -> None:
    """Nothing but the jobs, which the drill's end cancels."""


DRILL = Drill(
    name="waiting-jobs",
    title="Four jobs wait on an empty cluster",
    story="""A user complains: nothing runs on this cluster, and still four jobs wait. Bring each to its end, or cancel
    it if it can never run.""",
    hints=(
        """squeue -o '%i %j %r' shows the reason of each: BeginTime, JobHeldUser, JobHeldAdmin,
        DependencyNeverSatisfied.""",
        "BeginTime: scontrol update JobId=N StartTime=now. JobHeldUser: its user's scontrol release N.",
        "JobHeldAdmin: only an operator (make shell AS=root) can release it.",
        """DependencyNeverSatisfied: the job it waits for has failed (scontrol show job, Dependency=); it can be
        cancelled, or freed with scontrol update JobId=N Dependency= .""",
    ),
    plant=plant,
    trouble=trouble,
    mend=mend,
)
