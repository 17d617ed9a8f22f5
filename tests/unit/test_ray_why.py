"""ray_why.py tells what can never run from what waits for its turn; its answers come from a fake REST API here."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PAYLOAD = Path(__file__).parents[2] / "smoke" / "payloads" / "ray_why.py"
HEAD, WORKER = {"memory": 1e9}, {"CPU": 8.0, "GPU": 4.0, "memory": 2e9}
NODES = [HEAD, WORKER, WORKER]


@pytest.fixture(scope="module")
def why() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ray_why", PAYLOAD)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"CPU": 8.0, "GPU": 4.0}, ""),
        ({}, ""),
        ({"GPU": 4.5}, "no node has 4.5 GPU; the most is 4 GPU"),
        ({"CPU": 1.0, "fast_disk": 1.0}, "no node has 1 fast_disk; the most is 0 fast_disk"),
    ],
)
def test_one_request(why: ModuleType, asked: dict[str, float], reason: str) -> None:
    assert why.why_not(asked, NODES) == reason


def test_a_request_that_no_single_node_has_together(why: ModuleType) -> None:
    assert why.why_not({"CPU": 8.0, "disk": 1.0}, [{"CPU": 8.0}, {"disk": 1.0}]).startswith("no node has all of")


@pytest.mark.parametrize(
    ("bundles", "strategy", "reason"),
    [
        ([{"CPU": 8.0}] * 2, "PACK", ""),
        ([{"CPU": 8.0}] * 2, "STRICT_SPREAD", ""),
        ([{"CPU": 4.0}] * 2, "STRICT_PACK", ""),
        ([{"CPU": 8.0}, {"CPU": 1.0}], "STRICT_PACK", "all bundles on one node: no node has 9 CPU; the most is 8 CPU"),
        ([{"CPU": 1.0}] * 3, "STRICT_SPREAD", "3 bundles on as many nodes: there are 2 that are large enough"),
        ([{"CPU": 9.0}], "SPREAD", "no node has 9 CPU; the most is 8 CPU"),
        ([{"CPU": 8.0}] * 3, "PACK", "all nodes together have less than 24 CPU; the most is 16 CPU"),
    ],
)
def test_a_placement_group(why: ModuleType, bundles: list[dict[str, float]], strategy: str, reason: str) -> None:
    assert why.why_group_not(bundles, strategy, NODES) == reason


def test_everything_that_waits_has_a_name_and_a_verdict(why: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def actor(name: str, asked: dict[str, float]) -> dict[str, Any]:
        return {"name": name, "class_name": "Actor", "required_resources": asked}

    rows = {
        "nodes": [{"resources_total": node} for node in NODES],
        "actors": [actor("_ray_internal_job_actor_train-1", {"GPU": 9.0}), actor("", {"CPU": 1.0})],
        "tasks": [{"name": "step", "required_resources": {"CPU": 8.0}}],
    }
    groups = [[{"strategy": "SPREAD", "bundles": [[{"CPU": 1.0}, 2], [{"GPU": 5.0}, 1]]}, 2]]

    def get(path: str, **_: str) -> Any:
        if path == "/api/cluster_status":
            return {"clusterStatus": {"loadMetricsReport": {"pgDemand": groups}}}
        return {"result": {"result": rows[path.rpartition("/")[2]]}}

    monkeypatch.setattr(why, "get", get)
    assert list(why.waiting()) == [
        ("job train-1", {"GPU": 9.0}, "no node has 9 GPU; the most is 4 GPU"),
        ("actor Actor", {"CPU": 1.0}, ""),
        ("task step", {"CPU": 8.0}, ""),
        ("placement group SPREAD, 2 of it", [{"CPU": 1.0}, {"CPU": 1.0}, {"GPU": 5.0}],
         "no node has 5 GPU; the most is 4 GPU"),
    ]  # fmt: skip
