"""The standing Ray set: who may speak to it, what its tasks see, who can ask it what (field cases 32, 33)."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping

import pytest

from provisioning import ray_api
from provisioning.cluster import Cluster, run_local
from provisioning.settings import ROOT
from provisioning.waiting import wait_for
from smoke.login import Login
from smoke.ray import json_lines

#: What a plain ray.init() on the login node finds, and what a task without GPUs sees on each worker.
PLAIN = """
import json, os, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(log_to_driver=False)
@ray.remote(num_cpus=1, num_gpus=0)
def sees():
    env = os.environ.get
    return os.uname().nodename, ray.get_gpu_ids(), env("CUDA_VISIBLE_DEVICES"), env("RAY_AUTH_MODE")
nodes = [node for node in ray.nodes() if node["Alive"]]
on = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes if node["Resources"].get("CPU")]
seen = ray.get([sees.options(scheduling_strategy=one).remote() for one in on], timeout=40)
print(json.dumps({"nodes": sorted(node["NodeName"] for node in nodes), "seen": seen}))
"""
#: ray.init() as somebody without the token calls it; the answer that it gets is only in its debug log.
OUTSIDER = """
import ray, ray.util.client.worker
ray.util.client.worker.logger.debug = print
ray.init("auto")
print("let in")
"""
NO_TOKEN = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN_PATH": "", "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "1",
            "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "1"}  # fmt: skip


@pytest.fixture(scope="module")
def login(cluster: Cluster) -> Login:
    return Login(cluster, "alice", "")


def ray_nodes(cluster: Cluster) -> list[str]:
    return ["ray-head", *cluster.ray_workers()]


def answer(cluster: Cluster, path: str, headers: Mapping[str, str], data: bytes | None = None) -> int:
    """The HTTP status of a request to the published port."""
    request = urllib.request.Request(f"http://{cluster.dashboard}{path}", data, dict(headers))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=20) as got:
            return int(got.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("path", ["/api/jobs/", "/nodes?view=summary", "/api/v0/actors", "/api/cluster_status"])
def test_the_dashboard_answers_only_with_the_token(cluster: Cluster, path: str) -> None:
    assert answer(cluster, path, {}) == 401
    assert answer(cluster, path, {"Authorization": "Bearer not-the-token"}) == 403
    assert answer(cluster, path, {"Authorization": f"Bearer {cluster.ray_token()}"}) == 200


def test_nobody_submits_a_job_without_the_token(cluster: Cluster) -> None:
    before = len(ray_api.get(cluster, "/api/jobs/"))
    job = json.dumps({"entrypoint": "true"}).encode()
    assert answer(cluster, "/api/jobs/", {"Content-Type": "application/json"}, job) == 401
    assert len(ray_api.get(cluster, "/api/jobs/")) == before


def test_the_agents_of_the_nodes_ask_for_the_token_too(cluster: Cluster, login: Login) -> None:
    for node in ray_nodes(cluster):
        code = f"import urllib.request; urllib.request.urlopen('http://{node}:52365/api/job_agent/jobs/', timeout=10)"
        refused = login.run("python3", "-c", code, check=False)
        assert "HTTP Error 401" in refused.stderr, node


def test_ray_init_and_the_head_refuse_who_has_no_token(login: Login) -> None:
    without = ("env", *(f"{name}={value}" for name, value in NO_TOKEN.items()), "timeout", "40")
    refused = login.run(*without, "python3", "-c", OUTSIDER, check=False)
    assert refused.exit_code == 1
    assert "ConnectionError: ray client connection timeout" in refused.stderr
    assert "Received when checking init: Invalid or missing authentication token" in refused.stdout
    assert "let in" not in refused.stdout
    status = login.run(*without, "ray", "status", "--address", "ray-head:6379", check=False)
    assert status.exit_code == 1
    assert "AuthenticationError: RPC error: InvalidAuthToken" in status.stderr


def test_every_ray_process_has_its_auth_mode_and_a_closed_token(cluster: Cluster, login: Login) -> None:
    # the daemons whose children all others are; what a task has is seen below
    script = r"""for pid in $(pgrep -x 'gcs_server|raylet|ray'); do
                   tr '\0' '\n' < /proc/$pid/environ | grep ^RAY_AUTH_MODE; done"""
    for node in ray_nodes(cluster):
        modes = cluster.exec(node, ["bash", "-c", script], user="ray").stdout.split()
        assert modes == ["RAY_AUTH_MODE=token"] * (3 if node == "ray-head" else 2), node
        assert cluster.exec(node, ["stat", "-c", "%U %a", "/etc/lab-ray/token"]).stdout.split() == ["ray", "600"], node
    assert login.run("printenv", "RAY_AUTH_MODE").stdout.strip() == "token"
    # its users may read it, others may not
    owner = cluster.exec("login", ["stat", "-c", "%U %g %a", "/etc/lab-ray/token"]).stdout.split()
    assert owner == ["root", "2000", "640"]


def test_a_plain_ray_init_on_the_login_node_uses_the_lab_and_tasks_without_gpus_see_none(
    cluster: Cluster, login: Login
) -> None:
    found = json_lines(login.run("python3", "-c", PLAIN).stdout)[0]
    assert found["nodes"] == sorted(ray_nodes(cluster))
    assert sorted(found["seen"]) == [[name, [], "", "token"] for name in cluster.ray_workers()]
    # no private cluster was started
    assert cluster.exec("login", ["pgrep", "-x", "raylet|gcs_server"], check=False).stdout == ""
    assert login.run("printenv", "RAY_ADDRESS").stdout.strip() == "ray://ray-head:10001"


def test_ray_status_works_on_the_login_node_as_it_is_typed(cluster: Cluster, login: Login) -> None:
    text = login.run("ray", "status").stdout
    workers = cluster.lab.ray.workers
    assert f"/{float(workers.cpus * len(cluster.ray_workers()))} CPU" in text
    assert "Pending Demands" in text


def test_the_object_store_is_in_shared_memory(cluster: Cluster) -> None:
    script = r"tr '\0' '\n' < /proc/$(pgrep -x raylet)/cmdline; cat /tmp/ray/session_latest/logs/*.{log,out,err}"
    for node in ray_nodes(cluster):
        text = cluster.exec(node, ["bash", "-c", script], user="ray").stdout
        assert "\n--plasma_directory=/dev/shm\n" in text, node
        logs = run_local(["docker", "logs", cluster.container_name(node)])
        for warning in ("object store is using /tmp", "/dev/shm has only", "exceeds the /dev/shm size"):
            assert warning not in text + logs.stdout + logs.stderr, node


def test_prometheus_targets_answer_where_the_documentation_says(cluster: Cluster, login: Login) -> None:
    documented = re.findall(r"^\| `(ray-[a-z-]+(?:N|):\d+)` \|", (ROOT / "docs" / "ray.md").read_text("utf-8"), re.M)
    assert documented == ["ray-head:8080", "ray-worker-N:8080", "ray-head:44217", "ray-head:44227"]
    targets = [
        target.replace("ray-worker-N", worker) for target in documented for worker in
        (cluster.ray_workers() if "N" in target else [""])
    ]  # fmt: skip
    code = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"
    figure = re.compile(r"^(ray|autoscaler)_\w+({| )", re.M)

    def silent() -> list[str]:
        """Targets without figures: a node that has just started has none yet."""
        return [
            target for target in targets
            if not figure.search(login.run("python3", "-c", code, f"http://{target}/metrics").stdout)
        ]  # fmt: skip

    wait_for("targets with figures", silent, lambda left: not left, timeout_s=20)
    listed = json.loads(cluster.exec("ray-head", ["cat", "/tmp/ray/prom_metrics_service_discovery.json"]).stdout)
    ports = sorted(one.rpartition(":")[2] for one in listed[0]["targets"])
    assert ports == sorted(target.rpartition(":")[2] for target in targets)
