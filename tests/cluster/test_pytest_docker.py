"""pytest-docker and the lab agree, so that a suite built on it can use both."""

from __future__ import annotations

import urllib.request
from typing import Any

from provisioning import ray_api
from provisioning.cluster import Cluster


def test_the_published_port_is_the_dashboards(cluster: Cluster, docker_ip: str, docker_services: Any) -> None:
    port = docker_services.port_for("ray-head", 8265)
    assert f"{docker_ip}:{port}" == cluster.dashboard

    def answers() -> bool:
        with urllib.request.urlopen(f"http://{docker_ip}:{port}/api/gcs_healthz", timeout=5) as answer:
            return bool(answer.status == 200)

    docker_services.wait_until_responsive(answers, timeout=20, pause=0.2)
    assert "ray-head" in ray_api.alive_nodes(cluster)
