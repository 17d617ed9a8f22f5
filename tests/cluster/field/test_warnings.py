"""Signals before the end, grace, and going back into the queue; last, since slurmctld looks every half minute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from provisioning.cluster import Cluster
from provisioning.lab import Lab
from provisioning.waiting import wait_for
from smoke.slurm import Slurm
from tests.cluster.field.conftest import Early
from tests.cluster.people import Person


@contextmanager
def requeue_exit(cluster: Cluster, operator: Slurm, code: str) -> Iterator[None]:
    """Another RequeueExit while the lab runs."""

    def become(changed: Cluster, shown: str) -> None:
        changed.write_files()
        operator.login.run("scontrol", "reconfigure")
        wait_for("RequeueExit", lambda: operator.login.run("scontrol", "show", "config").stdout,
                 lambda text: any(line.split() == ["RequeueExit", "=", shown] for line in text.splitlines()),
                 timeout_s=30, show=lambda text: text[-200:])  # fmt: skip

    lab = cluster.lab
    try:
        become(Cluster(cluster.settings, replace(lab, slurm=replace(lab.slurm, requeue_exit=code))), code)
        yield
    finally:
        become(cluster, "(null)")


def test_an_exit_code_requeues_only_if_the_cluster_says_so(cluster: Cluster, alice: Person, operator: Slurm) -> None:
    """Case 16: exit 99 is FAILED 99:0; with RequeueExit=99 the job goes back into the queue, and 98 does not."""
    ends = {"99": ("", "exit 99"), "98": ("", "exit 98")}
    jobs = alice.batch(ends)
    assert {code: alice.wait_recorded(job)["ExitCode"] for code, job in jobs.items()} == {"99": "99:0", "98": "98:0"}
    assert {job.state for job in map(alice.job, jobs.values())} == {"FAILED"}
    with requeue_exit(cluster, operator, "99"):
        jobs = alice.batch(ends)
        alice.wait_seen({jobs["99"]: "PENDING BeginTime", jobs["98"]: "FAILED"})
        assert {code: alice.job(job).fields["Restarts"] for code, job in jobs.items()} == {"99": "1", "98": "0"}
        alice.leave()


def test_sacct_x_shows_the_newest_run_and_d_all(alice: Person) -> None:
    """Case 17: what a client that polls a preempted and requeued job sees."""
    job = alice.batch({"victim": "--qos=low -w c1 --gres=gpu:8"})["victim"]
    alice.wait_seen({job: "RUNNING"})
    urgent = alice.batch({"urgent": "--qos=high -w c1 --gres=gpu:8"})["urgent"]
    alice.wait_seen({urgent: "RUNNING", job: "PENDING"})
    alice.wait_preempted(job)
    alice.cancel(urgent)
    alice.wait_recorded(urgent)
    alice.start_requeued(job)
    alice.wait_seen({job: "RUNNING"})
    alice.wait_recorded(job, ("RUNNING",))

    def states(options: str) -> list[str]:
        return alice.sh(f"sacct -nP -o State {options} -j {job}").split()

    assert states("-X") == ["RUNNING"]
    assert states("-X -D") == ["PREEMPTED", "RUNNING"]
    assert alice.job(job).fields["Restarts"] == "1"


def test_a_job_is_warned_before_its_end(early: Early) -> None:
    """Case 13: with B: the batch shell's trap runs at once if its child is in the background."""
    wait_for("the trap", lambda: early.lines("batch"), lambda lines: "over" in lines, timeout_s=60)
    assert early.lines("batch") == ["batch USR1", "over"]
    assert early.alice.wait_recorded(early.jobs["batch"])["State"] == "COMPLETED"


def test_a_child_in_the_foreground_defers_the_trap(early: Early) -> None:
    """Case 13: the signal comes while the child runs; bash heeds it afterwards."""
    wait_for("the end", lambda: early.lines("deferred"), lambda lines: "over" in lines, timeout_s=60)
    assert early.lines("deferred") == ["foreground over", "batch USR1", "over"]


def test_without_b_only_steps_are_warned(early: Early) -> None:
    """Case 13: the batch shell has the same trap, and is not asked."""
    wait_for("the end", lambda: early.lines("step"), lambda lines: "over" in lines, timeout_s=60)
    assert early.lines("step") == ["step USR1", "over"]


def test_grace_is_for_steps_and_the_batch_shell_hears_of_it_last(early: Early, more: Lab) -> None:
    """Case 14: a preempted step gets SIGCONT and SIGTERM at once, the batch shell SIGTERM at the end of GraceTime."""
    grace_s = next(one for one in more.qos if one.name == "graced").grace_time or 0
    alice = early.alice
    alice.wait_seen({early.jobs["urgent"]: "RUNNING"}, timeout_s=60)
    urgent = alice.wait_recorded(early.jobs["urgent"], ("RUNNING",))
    run = alice.wait_preempted(early.jobs["graced"])
    noted: dict[str, int] = {}
    for line in early.lines("graced")[1:]:
        who, signal, at = line.split()
        noted.setdefault(f"{who} {signal}", int(at))  # the first of each
    assert set(noted) >= {"step CONT", "step TERM", "batch TERM"}
    assert noted["step TERM"] - int(urgent["Submit"]) <= 10
    assert noted["batch TERM"] - noted["step TERM"] >= grace_s - 1  # whole seconds
    assert int(run["End"]) - noted["step TERM"] >= grace_s - 1
    assert int(urgent["Start"]) >= noted["batch TERM"]
