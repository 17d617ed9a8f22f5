"""The Ray side: answers as data, and waiting for a submitted job."""

from typing import Any

import pytest

from provisioning.errors import LabError
from smoke import ray


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch):
    """A user whose job API answers are played back; ``states`` is filled by the test."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    one = ray.RayUser(None)  # type: ignore[arg-type]
    states: list[dict[str, Any]] = []
    monkeypatch.setattr(ray.ray_api, "get", lambda _, path: states.pop(0) | {"path": path})
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
