"""Arrays and dependencies: what an id means, what a throttle holds back, what never can start."""

from __future__ import annotations

from provisioning.waiting import wait_for
from tests.cluster.people import Person

NEVER = "PENDING DependencyNeverSatisfied"


def test_an_array_index_beyond_the_highest_is_refused(alice: Person) -> None:
    """Case 11: MaxArraySize is one more than the highest index."""
    said = alice.refusals({"1001": "--hold --array=1001", "0-1001": "--hold --array=0-1001"})
    assert all("Invalid job array specification" in text for text in said.values()), said
    alice.batch({"1000": "--hold --array=1000"})


def _requeue_from_within(alice: Person, scratch: str, what: str) -> dict[str, int]:
    """Restarts of each task after the one that carries the array's own id has asked for a requeue."""
    script = f"""
        touch {scratch}/$SLURM_ARRAY_TASK_ID
        if [ $SLURM_JOB_ID = $SLURM_ARRAY_JOB_ID ] && [ ${{SLURM_RESTART_COUNT:-0}} = 0 ]; then
            until [ -e {scratch}/1 ] && [ -e {scratch}/2 ] && [ -e {scratch}/3 ]; do sleep 0.1; done
            echo $SLURM_ARRAY_TASK_ID > {scratch}/asked
            scontrol requeue {what}
        fi
        sleep 600"""
    array = alice.batch({"array": ("--array=1-3", script)})["array"]
    asked = wait_for("a task asks", lambda: alice.login.read(f"{scratch}/asked").strip(), timeout_s=40)

    def restarts() -> dict[str, int]:
        return {job.fields["ArrayTaskId"]: int(job.fields["Restarts"]) for job in alice.jobs(array)}

    wanted = set("123") if what == "$SLURM_JOB_ID" else {asked}
    wait_for("the requeue", restarts, lambda found: all(found[task] == 1 for task in wanted), timeout_s=30)
    return {"asked": int(asked), **restarts()}


def test_the_job_id_of_one_array_task_means_the_whole_array(alice: Person, scratch: str) -> None:
    """Case 15: `scontrol requeue $SLURM_JOB_ID` from the task that carries the array's id requeues all."""
    found = _requeue_from_within(alice, scratch, "$SLURM_JOB_ID")
    assert {found[task] for task in "123"} == {1}


def test_array_id_and_task_id_mean_one_task(alice: Person, scratch: str) -> None:
    """Case 15: ${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID} is right."""
    found = _requeue_from_within(alice, scratch, "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}")
    assert {task: found[task] for task in "123"} == {task: int(task == str(found["asked"])) for task in "123"}


def test_a_throttled_array_runs_one_at_a_time(alice: Person) -> None:
    """Case 28: %1, cancelling one task, and a changed throttle."""
    array = alice.batch({"array": "--array=1-10%1"})["array"]
    tasks = [f"{array}_{index}" for index in range(1, 11)]
    waiting = dict.fromkeys(tasks[1:], "PENDING JobArrayTaskLimit")
    alice.wait_seen({tasks[0]: "RUNNING", **waiting})
    alice.cancel(tasks[4])
    del waiting[tasks[4]]  # nothing is kept of a task that never started
    running = {tasks[0]: "RUNNING", **waiting}
    wait_for("one task has gone", lambda: alice.seen(*tasks), lambda seen: seen == running, timeout_s=20)
    alice.login.run("scontrol", "update", f"JobId={array}", "ArrayTaskThrottle=3")
    alice.wait_seen(
        {tasks[0]: "RUNNING", tasks[1]: "RUNNING", tasks[2]: "RUNNING", tasks[3]: "PENDING JobArrayTaskLimit"}
    )
    states = alice.seen(*tasks)
    assert sorted(task for task, state in states.items() if state == "RUNNING") == sorted(tasks[:3])


def test_a_child_whose_parent_failed_never_starts(alice: Person) -> None:
    """Case 21: it stays PENDING, or is cancelled with --kill-on-invalid-dep=yes; afternotok and afterany start."""
    parent = alice.batch({"parent": ("", "sleep 1; exit 3")})["parent"]
    jobs = alice.batch({
        "ok": (f"--dependency=afterok:{parent}", "true"),
        "ok or go": (f"--dependency=afterok:{parent} --kill-on-invalid-dep=yes", "true"),
        "not ok": (f"--dependency=afternotok:{parent}", "true"),
        "any": (f"--dependency=afterany:{parent}", "true"),
    })  # fmt: skip
    alice.wait_seen({
        parent: "FAILED", jobs["ok"]: NEVER, jobs["ok or go"]: "CANCELLED",
        jobs["not ok"]: "COMPLETED", jobs["any"]: "COMPLETED",
    })  # fmt: skip


def test_a_child_of_a_parent_that_has_ended_starts_at_once(alice: Person) -> None:
    """Case 21: as long as the parent is known (MinJobAge); a failed one is known as failed."""
    parents = alice.batch({"good": ("", "true"), "bad": ("", "false")})
    alice.wait_seen({parents["good"]: "COMPLETED", parents["bad"]: "FAILED"})
    jobs = alice.batch({name: (f"--dependency=afterok:{job}", "true") for name, job in parents.items()})
    alice.wait_seen({jobs["good"]: "COMPLETED", jobs["bad"]: NEVER})
