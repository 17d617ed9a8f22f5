"""Drills: each fault shows, is found by its own check, and is gone after the mend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from provisioning.apply import apply_command
from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.waiting import wait_for
from smoke.drill import Drill, mend, operator, start, waiting_jobs
from smoke.drills import DRILLS


@pytest.fixture
def planted(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Drill]:
    drill = DRILLS[request.param]
    start(drill, cluster)
    try:
        yield drill
    finally:
        mend(drill, cluster)
        assert not waiting_jobs(cluster)


def node_state(cluster: Cluster, node: str) -> str:
    return operator(cluster, "sinfo", "-hN", "-n", node, "-o", "%T|%E").splitlines()[0]


@pytest.mark.parametrize("planted", ["drained-node"], indirect=True)
def test_a_drained_node_keeps_the_wide_job_waiting(cluster: Cluster, planted: Drill) -> None:
    assert planted.trouble(cluster) == "c4 is drained: fan replaced, please test"
    [job] = waiting_jobs(cluster)
    with pytest.raises(LabError, match="on already"):
        start(planted, cluster)
    operator(cluster, "scontrol", "update", "NodeName=c4", "State=RESUME")
    assert not planted.trouble(cluster)
    wait_for("the job runs", lambda: operator(cluster, "squeue", "-h", "--states=all", "-j", job, "-o", "%T").strip(),
             lambda state: state in ("RUNNING", "COMPLETING", "COMPLETED"), timeout_s=30)  # fmt: skip


@pytest.mark.parametrize("planted", ["gres-mismatch"], indirect=True)
def test_a_node_with_fewer_gpus_is_invalid_and_stays_drained_after_the_mend(cluster: Cluster, planted: Drill) -> None:
    """Field case 1, with the mend that an operator would choose: make apply, then State=RESUME."""
    state = wait_for("c4 is invalid", lambda: node_state(cluster, "c4"), lambda text: text.startswith("inval"),
                     timeout_s=30)  # fmt: skip
    assert "gres/gpu count reported lower than configured (7 < 8)" in state
    assert waiting_jobs(cluster)
    assert planted.trouble(cluster).startswith("etc/slurm/gres.conf is not what the YAML says")

    apply_command(cluster.settings, False)
    drained = wait_for("c4 is only drained", lambda: node_state(cluster, "c4"),
                       lambda text: text.startswith("drained"), timeout_s=30)  # fmt: skip
    assert "gres/gpu count reported lower than configured" in drained
    assert planted.trouble(cluster).startswith("c4 is drained")

    operator(cluster, "scontrol", "update", "NodeName=c4", "State=RESUME")
    wait_for("c4 is back", lambda: planted.trouble(cluster), lambda found: not found, timeout_s=30)
    wait_for("the wide job has its place", lambda: waiting_jobs(cluster), lambda jobs: not jobs, timeout_s=30)


@pytest.mark.parametrize("planted", ["waiting-jobs"], indirect=True)
def test_each_of_the_four_waits_for_its_own_reason_and_can_be_freed(cluster: Cluster, planted: Drill) -> None:
    def reasons() -> list[str]:
        return sorted(waiting_jobs(cluster).values())

    wanted = ["BeginTime", "DependencyNeverSatisfied", "JobHeldAdmin", "JobHeldUser"]
    wait_for("the four reasons", reasons, lambda found: found == wanted, timeout_s=30)
    held = next(job for job, reason in waiting_jobs(cluster).items() if reason == "JobHeldAdmin")
    user = cluster.lab.users[0].name
    said = cluster.exec("login", ["scontrol", "release", held], user=user, workdir=f"/home/{user}", check=False)
    assert said.exit_code != 0
    for job, reason in waiting_jobs(cluster).items():
        change = {"BeginTime": "StartTime=now", "DependencyNeverSatisfied": "Dependency="}.get(reason)
        operator(cluster, "scontrol", *(["update", f"JobId={job}", change] if change else ["release", job]))
    wait_for("nothing waits", lambda: planted.trouble(cluster), lambda found: not found, timeout_s=30)
