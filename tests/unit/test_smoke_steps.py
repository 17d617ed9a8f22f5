"""Steps of the smoke run against answers that are right, and against each answer that must not pass."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from provisioning.cluster import Result
from provisioning.errors import LabError
from provisioning.load import load_lab
from smoke.check import NotHere
from smoke.ray_on_slurm import exit_code
from smoke.slurm import Job
from smoke.steps_ray import RayLane, side_by_side
from smoke.steps_slurm import SlurmLane, gpus_of

LAB = load_lab("default")
GPUS = [
    {"task": "whole-1", "host": "w1", "ids": ["0"], "CUDA_VISIBLE_DEVICES": "0"},
    {"task": "whole-2", "host": "w1", "ids": ["1"], "CUDA_VISIBLE_DEVICES": "1"},
    {"task": "half-1", "host": "w2", "ids": ["0"], "CUDA_VISIBLE_DEVICES": "0"},
    {"task": "half-2", "host": "w2", "ids": ["0"], "CUDA_VISIBLE_DEVICES": "0"},
    {"task": "none", "host": "w2", "ids": [], "CUDA_VISIBLE_DEVICES": ""},
    {"task": "most-1", "host": "w2", "ids": ["1"], "CUDA_VISIBLE_DEVICES": "1"},
    {"task": "most-2", "host": "w2", "ids": ["2"], "CUDA_VISIBLE_DEVICES": "2"},
    {"task": "refused", "error": "whole numbers"},
]
GROUPS = [
    {"group": "fits", "ready": True, "state": "CREATED", "scheduling": "FINISHED", "nodes": 1, "free": [32, 30]},
    {"group": "over", "ready": False, "state": "PENDING", "scheduling": "INFEASIBLE", "nodes": 0, "free": [30, 30]},
    {"group": "after", "free": [32, 32]},
]


def lane(rows: list[dict[str, Any]]) -> RayLane:
    """A Ray lane whose drivers print these rows."""
    text = "INFO worker.py: hello\n" + "\n".join(json.dumps(row) for row in rows)
    ray = SimpleNamespace(run=lambda *_, **__: Result(0, text, ""), submitted=[])
    return RayLane(ray, LAB)  # type: ignore[arg-type]


def changed(rows: list[dict[str, Any]], index: int, **change: Any) -> list[dict[str, Any]]:
    return [row | change if at == index else row for at, row in enumerate(rows)]


def test_ray_gpus() -> None:
    assert lane(GPUS).gpus() == "whole w1:0 and w1:1, halves both w2:0, 0 none, 1.5 refused"


@pytest.mark.parametrize(
    ("rows", "seen"),
    [
        (changed(GPUS, 1, ids=["0"], CUDA_VISIBLE_DEVICES="0"), "both whole GPUs"),
        (changed(GPUS, 3, host="w1", ids=["5"], CUDA_VISIBLE_DEVICES="5"), "the halves are"),
        (changed(GPUS, 4, ids=["7"], CUDA_VISIBLE_DEVICES="7"), "num_gpus=0 sees"),
        (changed(GPUS, 4, CUDA_VISIBLE_DEVICES="0,1,2,3"), "ray.get_gpu_ids and CUDA_VISIBLE_DEVICES"),
        (changed(GPUS, 0, host="w2"), "a half lies on a whole one"),
        (changed(GPUS, 6, ids=["1"], CUDA_VISIBLE_DEVICES="1"), "0.6 and 0.6 share"),
        (GPUS[:4], "ray.get_gpu_ids"),
        (GPUS[:7], "is not refused"),
    ],
)
def test_ray_gpus_that_must_not_pass(rows: list[dict[str, Any]], seen: str) -> None:
    with pytest.raises(LabError, match=seen):
        lane(rows).gpus()


def test_placement() -> None:
    assert lane(GROUPS).placement().startswith("two bundles CREATED on one node (32 -> 30 CPUs free)")


@pytest.mark.parametrize(
    "rows",
    [
        changed(GROUPS, 0, nodes=2),
        changed(GROUPS, 1, scheduling="NO_RESOURCES"),
        changed(GROUPS, 1, free=[30, 29]),
        changed(GROUPS, 2, free=[32, 30]),
        GROUPS[:2],
    ],
)
def test_placement_that_must_not_pass(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(LabError):
        lane(rows).placement()


@pytest.mark.parametrize(
    ("tres", "passes"), [("cpu=8,mem=32G,node=1,gres/gpu=1", True), ("cpu=8,mem=32G,node=1", False)]
)
def test_queue_compares_what_was_given(tres: str, passes: bool) -> None:
    job = Job({"JobId": "1", "JobState": "RUNNING", "NodeList": "c1", "AllocTRES": tres}, {})
    row = {"name": "hello-gpu", "state": "RUNNING", "node_list": "c1"}
    one = SlurmLane(SimpleNamespace(wait_state=lambda *_: job, queue=lambda *_: [row]), LAB)  # type: ignore[arg-type]
    if passes:
        assert one.queue() == f"RUNNING on c1, AllocTRES={tres}"
    else:
        with pytest.raises(LabError, match="AllocTRES=cpu=8,mem=32G,node=1"):
            one.queue()


@pytest.mark.parametrize(("gres", "count"), [("", 0), ("gpu:a100:8", 8), ("gpu:a100:4,shard:a100:16", 4)])
def test_gpus_of_a_node(gres: str, count: int) -> None:
    assert gpus_of(gres) == count


def test_a_lab_without_the_partition_leaves_the_job_out() -> None:
    with pytest.raises(NotHere, match="no partition gpu"):
        SlurmLane(None, SimpleNamespace(name="x", partitions=())).submit()  # type: ignore[arg-type]


def test_both_lives_side_by_side() -> None:
    probe = {"host": "c1", "CUDA_VISIBLE_DEVICES": "0", "devices": []}
    batch = {"Submit": "0", "Start": "60", "End": "61", "State": "COMPLETED", "ExitCode": "0:0"}
    job = {"start_time": 1000, "end_time": 2000, "status": "SUCCEEDED", "driver_exit_code": 0}
    rows = side_by_side(SimpleNamespace(record=batch, probe=probe, probe_id="7"),  # type: ignore[arg-type]
                        SimpleNamespace(record=job, probe=probe, probe_id="probe-1"))  # type: ignore[arg-type]  # fmt: skip
    told = {name: (slurm, ray) for name, slurm, ray in rows}
    assert told["end"] == ("COMPLETED, exit code 0:0", "SUCCEEDED, exit code 0")
    assert told["times (UTC)"][0] == "submitted 00:00:00, started 00:01:00, ended 00:01:01"


@pytest.mark.parametrize(
    ("state", "code", "status"),
    [("COMPLETED", "0:0", 0), ("FAILED", "5:0", 5), ("CANCELLED", "0:15", 143), ("CANCELLED", "0:0", 1)],
)
def test_exit_code_of_a_driver(state: str, code: str, status: int) -> None:
    assert exit_code(Job({"JobState": state, "ExitCode": code}, {})) == status
