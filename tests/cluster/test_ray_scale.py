"""Another number of Ray workers on the running lab, seen as a difference by plan and taken back by apply."""

from __future__ import annotations

import pytest

from provisioning import ray_api
from provisioning.apply import apply_command
from provisioning.cluster import Cluster, run_local
from provisioning.plan import make_plan
from provisioning.plan_facts import read_facts
from provisioning.ray_scale import ray_scale
from provisioning.up import up

pytestmark = pytest.mark.slow


def workers(cluster: Cluster) -> list[str]:
    return sorted(name for name in ray_api.alive_nodes(cluster) if name != "ray-head")


def differences(cluster: Cluster) -> list[str]:
    plan = make_plan(cluster.lab, read_facts(cluster))
    return [str(change) for change in plan.services if "ray-worker" in change.what]


def test_one_worker_more_then_fewer_then_as_the_yaml_says(cluster: Cluster) -> None:
    count = cluster.lab.ray.workers.count
    names = [f"ray-worker-{number}" for number in range(1, count + 2)]
    assert workers(cluster) == names[:-1]
    stays = ["docker", "inspect", "-f", "{{.State.StartedAt}}", cluster.container_name("ray-head")]
    before = run_local(stays).stdout
    try:
        ray_scale(cluster.settings, str(count + 1))
        assert workers(cluster) == names
        assert ray_api.alive_nodes(cluster)[names[-1]]["GPU"] == cluster.lab.ray.workers.gpus
        (extra,) = differences(cluster)
        assert f"service {names[-1]}" in extra
        up(cluster.settings)  # finds the lab up, and leaves the number alone
        assert workers(cluster) == names
        ray_scale(cluster.settings, str(count - 1))
        assert workers(cluster) == names[:-2]
        (missing,) = differences(cluster)
        assert f"service {names[-2]}" in missing
    finally:
        apply_command(cluster.settings, force=False)
    assert workers(cluster) == names[:-1]
    assert differences(cluster) == []
    assert run_local(stays).stdout == before
