"""What Ray's API says of tasks and actors, as runs of a chart."""

from __future__ import annotations

from typing import Any

import pytest

from smoke import ray_runs

NODES = {"data": {"result": {"result": [{"node_id": "n1", "node_name": "ray-worker-1", "state": "DEAD"}]}}}


def task(number: int, **other: Any) -> dict[str, Any]:
    return {"task_id": f"t{number}", "attempt_number": 0, "name": "train", "state": "FINISHED", "node_id": "n1",
            "required_resources": {"GPU": 1.0, "CPU": 1.0}, "creation_time_ms": 1000, "start_time_ms": 2000,
            "end_time_ms": 5000, **other}  # fmt: skip


ACTOR = {"actorId": "a1", "actorClass": "Server", "name": "", "state": "DEAD", "requiredResources": {"GPU": 0.5},
         "address": {"nodeId": "n9"}, "startTime": 3000, "endTime": 4000}  # fmt: skip


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the dashboard answers, by the start of the path."""
    found: dict[str, Any] = {"/api/v0/nodes": NODES, "/api/v0/tasks": {"data": {"result": {"result": []}}},
                             "/logical/actors": {"data": {"actors": {}}}}  # fmt: skip
    monkeypatch.setattr("provisioning.ray_api.get", lambda _, path, **__: found[path.partition("?")[0]])
    return found


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ({}, 0),
        ({"CPU": 1}, 0),
        ({"GPU": 0.5}, 0.5),
        ({"GPU_group_0_1f": 2, "GPU_group_1f": 2, "bundle_group_1f": 0.001}, 2),
    ],
)
def test_gpus_of_a_task_also_in_a_placement_group(resources: dict[str, float], gpus: float) -> None:
    assert ray_runs.gpus_asked(resources) == gpus


def test_tasks_and_actors_with_gpus_that_ran(answers: dict[str, Any]) -> None:
    tasks = [task(1), task(2, end_time_ms=None, state="RUNNING"), task(3, start_time_ms=None),
             task(4, end_time_ms=2500), task(5, required_resources={"CPU": 1}), task(6, state="FAILED")]  # fmt: skip
    answers["/api/v0/tasks"]["data"]["result"]["result"] = tasks
    answers["/logical/actors"]["data"]["actors"] = {"a1": ACTOR}
    runs = {run["job"]: run for run in ray_runs.ray_runs(None, since=3)}  # type: ignore[arg-type]
    done = {"name": "train", "user": "ray", "state": "COMPLETED", "nodes": "ray-worker-1", "gpus": 1.0}
    assert runs["t1-0"] == {"job": "t1-0", **done, "submit": 1.0, "start": 2.0, "end": 5.0}
    assert (runs["t2-0"]["state"], runs["t2-0"]["end"], runs["t6-0"]["state"]) == ("RUNNING", 0, "FAILED")
    actor = runs["a1"]
    assert [actor[key] for key in ("name", "nodes", "gpus", "submit", "end")] == ["Server", "gone", 0.5, 3, 4]
    assert sorted(runs) == ["a1", "t1-0", "t2-0", "t6-0"]
