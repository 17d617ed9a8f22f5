"""The Ray side: answers as data, and waiting for a submitted job."""

from types import SimpleNamespace
from typing import Any

import pytest

from provisioning.errors import LabError
from provisioning.load import load_lab
from smoke import ray

LAB = load_lab("default")


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch):
    """A user whose job API answers are played back; ``states`` is filled by the test."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    one = ray.RayUser(SimpleNamespace(lab=LAB))  # type: ignore[arg-type]
    states: list[dict[str, Any]] = []

    def get(_: object, path: str) -> dict[str, Any]:
        if "/actors" in path:
            return {"data": {"result": {"result": actors}}}
        return states.pop(0) | {"path": path}

    actors: list[dict[str, Any]] = []
    monkeypatch.setattr(ray.ray_api, "get", get)
    one.actors = actors  # type: ignore[attr-defined]
    return one, states


def job(status: str, message: str = "") -> dict[str, Any]:
    return {"status": status, "message": message}


def test_json_lines_among_ray_log_lines() -> None:
    text = '2026-01-01 INFO worker.py:1 -- {"no": 1}\n{"group": "fits"}\n(autoscaler +2s) Error: {\n{"group": "over"}\n'
    assert ray.json_lines(text) == [{"group": "fits"}, {"group": "over"}]


def test_wait_job(user) -> None:
    one, states = user
    states += [job("PENDING"), job("RUNNING"), job("SUCCEEDED")]
    assert one.wait_job("train-1") == job("SUCCEEDED") | {"path": "/api/jobs/train-1"}


def test_wait_job_gives_up_on_another_end(user) -> None:
    one, states = user
    states += [job("RUNNING"), job("FAILED", "entrypoint exited with 3")]
    with pytest.raises(LabError, match="Ray job train-1 is FAILED: entrypoint exited with 3"):
        one.wait_job("train-1")


def test_wait_job_is_bounded(user) -> None:
    one, states = user
    states += [job("PENDING", "Resources required: {'GPU': 99}")]
    with pytest.raises(LabError, match="not within 0 s; last seen: PENDING: Resources required"):
        one.wait_job("train-1", timeout_s=0)


def test_wait_job_gives_up_on_what_no_node_has(user) -> None:
    one, states = user
    states += [job("PENDING")]
    one.actors.append({"required_resources": {"GPU": 9.0, "CPU": 1.0}})
    with pytest.raises(LabError, match=r"train-1 can never start: it asks for 9 GPU, 1 CPU; the most .* 8 GPU, 16 CPU"):
        one.wait_job("train-1")


def test_wait_job_waits_for_what_fits(user) -> None:
    one, states = user
    states += [job("PENDING"), job("PENDING"), job("SUCCEEDED")]
    one.actors.append({"required_resources": {"GPU": 8.0, "memory": 2.0 * 1024**3}})
    assert one.wait_job("train-1")["status"] == "SUCCEEDED"


@pytest.mark.parametrize("asked", [{"fast_disk": 1.0}, {"memory": 2.0 * 1024**3 + 1}, {"CPU": 16.5}])
def test_too_large(asked: dict[str, float]) -> None:
    assert ray.too_large(LAB, asked).startswith("it asks for ")
