"""The basics, each seen on the running lab (claims S2 to S6 and S10; S1 and S9 are in the smoke run)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from provisioning.cluster import Cluster
from provisioning.waiting import wait_for
from smoke.slurm import Slurm
from tests.cluster.people import Person

pytestmark = pytest.mark.usefixtures("overdue")


@contextmanager
def drained(operator: Slurm, node: str) -> Iterator[None]:
    """A node that takes no jobs."""
    operator.login.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    try:
        yield
    finally:
        operator.login.run("scontrol", "update", f"NodeName={node}", "State=RESUME")


def test_waiting_for_resources_and_waiting_behind_another(alice: Person, bob: Person) -> None:
    """S2: PD with Resources, PD with Priority, in squeue as the course types it."""
    full = alice.batch({"full": "-p gpu --nodes=4 --gres=gpu:8"})["full"]
    alice.wait_seen({full: "RUNNING"})
    first = alice.batch({"first": "-p gpu --qos=high --gres=gpu:1"})["first"]
    behind = bob.batch({"behind": "-p gpu --gres=gpu:1"})["behind"]
    alice.wait_seen({first: "PENDING Resources", behind: "PENDING Priority"})
    text = alice.login.run("squeue", "-p", "gpu", "-o", "%.10i %.9P %.8j %.8u %.2t %.10M %.6D %R").stdout
    header, *lines = (line.split(maxsplit=7) for line in text.splitlines())
    assert header == ["JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODES", "NODELIST(REASON)"]
    rows = {line[0]: line[1:5] + line[6:] for line in lines}
    assert rows[full] == ["gpu", "full", "alice", "R", "4", "c[1-4]"]
    assert rows[first] == ["gpu", "first", "alice", "PD", "1", "(Resources)"]
    assert rows[behind] == ["gpu", "behind", "bob", "PD", "1", "(Priority)"]


def test_each_end_has_its_state_in_accounting(alice: Person) -> None:
    """S3: COMPLETED 0:0, FAILED n:0, CANCELLED by whom, and PREEMPTED; TIMEOUT is below."""
    jobs = alice.batch({
        "completed": ("", "sleep 1"),
        "failed": ("", "exit 3"),
        "killed": ("", "kill -9 $$"),
        "cancelled": "",
        "preempted": "--qos=low -w c1 --gres=gpu:8",
        "unwanted": "--begin=now+1hour",
    })  # fmt: skip
    alice.wait_seen({jobs["cancelled"]: "RUNNING", jobs["preempted"]: "RUNNING"})
    alice.cancel(jobs["cancelled"], jobs["unwanted"])
    urgent = alice.batch({"urgent": "--qos=high -w c1 --gres=gpu:8"})["urgent"]
    alice.wait_seen({urgent: "RUNNING", jobs["preempted"]: "PENDING"})
    first_run = alice.wait_preempted(jobs["preempted"])
    found = {name: alice.wait_recorded(job) for name, job in jobs.items() if name != "preempted"}
    uid = alice.sh("id -u").strip()
    assert {name: (row["State"], row["ExitCode"]) for name, row in found.items()} == {
        "completed": ("COMPLETED", "0:0"),
        "failed": ("FAILED", "3:0"),
        "killed": ("FAILED", "0:9"),
        "cancelled": (f"CANCELLED by {uid}", "0:0"),
        "unwanted": (f"CANCELLED by {uid}", "0:0"),
    }
    assert int(found["completed"]["ElapsedRaw"]) in (1, 2, 3)
    assert found["completed"]["JobName"] == "completed"
    assert (found["unwanted"]["ElapsedRaw"], found["unwanted"]["NodeList"]) == ("0", "None assigned")
    # preempted with REQUEUE: the run is over, the job is not
    assert (first_run["NodeList"], first_run["ExitCode"]) == ("c1", "0:0")
    states = [row["State"] for row in alice.sacct(jobs["preempted"])]
    assert states in (["PREEMPTED", "PENDING"], ["PREEMPTED", "REQUEUED"])
    assert alice.job(jobs["preempted"]).fields["Restarts"] == "1"


def test_a_partition_refuses_what_its_rules_forbid(alice: Person, bob: Person, operator: Slurm) -> None:
    """S4: above MaxTime, or from an account that is not allowed: refused at submit, in Slurm's own words."""
    said = alice.refusals({"31 min": "-p gpu-debug --time=31", "a week and more": "-p gpu-batch --time=7-00:01:00"})
    limit = "Requested time limit is invalid (missing or exceeds some limit)"
    assert all(limit in text for text in said.values()), said
    alice.batch({"30 min": "-p gpu-debug --time=30 --begin=now+1hour"})
    create = ("PartitionName=tied", "Nodes=c1", "AllowAccounts=teaching", "MaxTime=10")
    operator.login.run("scontrol", "create", *create)
    try:
        said = alice.refusals({"default account": "-p tied", "named account": "-p tied -A research"})
        assert all("Invalid account or account/partition combination" in text for text in said.values()), said
        alice.wait_seen({alice.batch({"allowed": ("-p tied -A teaching", "true")})["allowed"]: "COMPLETED"})
        bob.wait_seen({bob.batch({"default account": ("-p tied", "true")})["default account"]: "COMPLETED"})
    finally:
        alice.leave()
        bob.leave()
        operator.login.run("scontrol", "delete", "PartitionName=tied")


def test_a_gpu_model_that_there_is_and_one_that_there_is_not(alice: Person) -> None:
    """S5: --gres=gpu:a100:4 gives four a100; gpu:h100 and nine of eight are refused at submit."""
    four = alice.batch({"a100": "--gres=gpu:a100:4"})["a100"]
    job = alice.wait_state(four, ("RUNNING",))
    assert (job.tres["gres/gpu:a100"], job.tres["gres/gpu"]) == ("4", "4")
    [held] = job.grants.values()
    assert len(held) == 4
    said = alice.refusals({"h100": "--gres=gpu:h100:1", "nine": "--nodes=1 --gres=gpu:a100:9", "tpu": "--gres=tpu:1"})
    assert all("Requested node configuration is not available" in said[name] for name in ("h100", "nine")), said
    assert "Invalid generic resource (gres) specification" in said["tpu"]


def test_a_gang_starts_as_a_whole_or_not_at_all(alice: Person, operator: Slurm, scratch: str) -> None:
    """S6: with one of four nodes missing nothing starts, although three are free; then all four tasks start at once."""
    gang = ("--nodes=4 --ntasks-per-node=1", f"srun bash -c 'date +%s.%N > {scratch}/$SLURMD_NODENAME'; sleep 600")
    with drained(operator, "c4"):
        job = alice.batch({"gang": gang})["gang"]
        wait_for("the scheduler has looked at it", lambda: alice.job(job).reason,
                 lambda reason: "DOWN" in reason or reason == "Resources", timeout_s=30)  # fmt: skip
        waiting = alice.job(job)
        assert (waiting.state, waiting.nodes, waiting.tres) == ("PENDING", [], {})
        assert alice.sh(f"ls {scratch}") == ""
        three = alice.batch({"three": "--nodes=3"})["three"]
        alice.wait_seen({three: "RUNNING", job: "PENDING"})
    wait_for("four tasks", lambda: alice.sh(f"ls {scratch}").split(), lambda names: len(names) == 4, timeout_s=40)
    assert alice.job(job).nodes == ["c1", "c2", "c3", "c4"]
    starts = [float(text) for text in alice.sh(f"cat {scratch}/*").split()]
    assert max(starts) - min(starts) < 3
    alice.cancel(job)
    alice.wait_recorded(job)
    assert alice.records(job)[".0"]["NTasks"] == "4"


def test_a_job_over_its_time_is_killed(cluster: Cluster, alice: Person, overdue: dict[str, str]) -> None:
    """S10: TIMEOUT; SIGTERM first, and for who does not heed it SIGKILL after KillWait."""
    kill_wait = cluster.lab.slurm.kill_wait
    alice.wait_seen(dict.fromkeys(overdue.values(), "TIMEOUT"), timeout_s=60)  # COMPLETING is over
    rows = {
        name: wait_for(
            f"the {name} job's batch step is recorded",
            lambda job=job: alice.records(job),
            lambda found: found[".batch"]["ExitCode"] != "0:0",
            timeout_s=30,
        )
        for name, job in overdue.items()
    }
    for found in rows.values():
        assert (found[""]["State"], found[""]["TimelimitRaw"]) == ("TIMEOUT", "1")
    assert rows["obedient"][".0"]["ExitCode"] == "0:15"
    assert "9" in rows["stubborn"][".batch"]["ExitCode"].split(":")  # 24.11 at times writes 9:0 for signal 9
    lived_on_s = {name: int(found[".batch"]["End"]) - int(found[""]["End"]) for name, found in rows.items()}
    assert lived_on_s["obedient"] < kill_wait
    assert kill_wait - 1 <= lived_on_s["stubborn"] <= kill_wait + 5  # whole seconds
    log = alice.login.read(f"overdue-{overdue['obedient']}.out")
    assert "DUE TO TIME LIMIT" in log
