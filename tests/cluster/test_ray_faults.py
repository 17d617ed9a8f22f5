"""The Ray set when parts of it die, freeze or stop: killed for real, in the order of the file, on one running set.

Each test leaves the set whole. What must survive is made once: a detached actor, a detached placement group with a
bundle on every worker, and a job that has ended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from provisioning import ray_api
from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.waiting import wait_for
from smoke.faults import docker, frozen, killed
from smoke.ray import RayUser, json_lines

pytestmark = pytest.mark.slow

PAYLOADS = Path(__file__).parents[2] / "smoke" / "payloads"
#: What is promised for a node that died or froze.
NOTICED_S = 10
#: How long a node may take from its container's start to being alive, on a slow and busy machine.
BACK_S = 60


class Set:
    """The Ray set as its operator handles it."""

    def __init__(self, cluster: Cluster, user: RayUser) -> None:
        self.cluster = cluster
        self.user = user
        self.nodes = ["ray-head", *cluster.ray_workers()]

    def docker(self, command: str, *services: str) -> float:
        """Run a docker command on containers; return the seconds it took."""
        begun = time.monotonic()
        docker(command, *map(self.cluster.container_name, services))
        return time.monotonic() - begun

    def inspect(self, service: str) -> dict[str, Any]:
        """Docker's record of a container's state."""
        text = docker("inspect", "-f", "{{json .State}}", self.cluster.container_name(service))
        state: dict[str, Any] = json.loads(text)
        return state

    def starts(self, services: Sequence[str]) -> list[str]:
        """When the containers were started."""
        return [self.inspect(service)["StartedAt"] for service in services]

    def alive(self) -> dict[str, str]:
        """Ids of the nodes that are alive, by host name: a node that comes back has another one."""
        rows = [row["raylet"] for row in ray_api.get(self.cluster, "/nodes?view=summary")["data"]["summary"]]
        return {row["nodeManagerHostname"]: row["nodeId"] for row in rows if row.get("state") == "ALIVE"}

    def wait_gone(self, service: str) -> None:
        wait_for(f"{service} noticed as dead", self.alive, lambda alive: service not in alive, timeout_s=NOTICED_S,
                 interval_s=0.1)  # fmt: skip

    def wait_whole(self, again: str = "", was: str = "") -> None:
        """Wait until every node is alive, and ``again`` under another id than it ``was``."""
        wait_for(f"all Ray nodes alive, {again or 'all'} again", self.alive,
                 lambda alive: sorted(alive) == sorted(self.nodes) and (not again or alive[again] != was),
                 timeout_s=BACK_S)  # fmt: skip

    def row(self, kind: str, name: str) -> dict[str, Any]:
        """The state API's row of a named actor or placement group."""
        found = ray_api.get(self.cluster, f"/api/v0/{kind}?detail=1&limit=1000", timeout_s=20)["data"]["result"][
            "result"
        ]
        rows = [one for one in found if one["name"] == name and one["state"] not in ("DEAD", "REMOVED")]
        if len(rows) != 1:
            raise LabError(f"{len(rows)} {kind} of the name {name}")
        row: dict[str, Any] = rows[0]
        return row

    def wait_row(self, kind: str, state: str) -> dict[str, Any]:
        return wait_for(f"{kind} {state}", lambda: self.row(kind, "survivor"), lambda row: row["state"] == state,
                        timeout_s=BACK_S, show=lambda row: f"{row['state']}")  # fmt: skip

    def detached(self, what: str) -> dict[str, Any]:
        """Run ray_detached.py."""
        return json_lines(self.user.run("ray_detached.py", what).stdout)[0]


@pytest.fixture(scope="module")
def ray(cluster: Cluster) -> Iterator[Set]:
    user = RayUser(cluster, "alice", "ray-faults")
    user.login.put(PAYLOADS.glob("*.py"))
    one = Set(cluster, user)
    one.wait_whole()
    yield one
    one.wait_whole()


@pytest.fixture(scope="module")
def survivors(ray: Set) -> Iterator[dict[str, Any]]:
    """The actor as it was made, and the id of a job that has ended."""
    job = ray.user.job_submit("echo", "kept", name="kept")
    made = ray.detached("make")
    ray.user.wait_job(job)
    yield made | {"job": job}
    ray.detached("remove")


def check_all_there(ray: Set, survivors: dict[str, Any]) -> None:
    """The actor in its old process, the group with all its bundles, the job and its log."""
    actor = ray.wait_row("actors", "ALIVE")
    assert (actor["pid"], actor["num_restarts"]) == (survivors["pid"], "0")
    group = ray.wait_row("placement_groups", "CREATED")
    assert len({bundle["node_id"] for bundle in group["bundles"]}) == len(ray.nodes) - 1
    record = ray.user.job(survivors["job"])
    assert (record["status"], record["driver_exit_code"]) == ("SUCCEEDED", 0)
    log = wait_for("the job's log", lambda: ray.user.rest(f"/api/jobs/{survivors['job']}/logs")["logs"],
                   lambda text: "Running entrypoint" in text, timeout_s=30)  # fmt: skip
    assert "kept" in log.splitlines()


# -- the head


def test_a_head_that_was_killed_comes_back_with_everything(ray: Set, survivors: dict[str, Any]) -> None:
    workers, was = ray.starts(ray.nodes[1:]), ray.alive()["ray-head"]
    with killed(ray.cluster, "ray-head"):
        assert not ray.inspect("ray-head")["Running"]
    ray.wait_whole("ray-head", was)
    check_all_there(ray, survivors)
    assert ray.starts(ray.nodes[1:]) == workers


def test_a_gcs_server_that_was_killed_comes_back_by_itself_with_everything(ray: Set, survivors: dict[str, Any]) -> None:
    workers, was = ray.starts(ray.nodes[1:]), ray.alive()["ray-head"]
    ray.cluster.exec("ray-head", ["pkill", "-KILL", "-x", "gcs_server"])
    ray.wait_whole("ray-head", was)
    check_all_there(ray, survivors)
    assert ray.starts(ray.nodes[1:]) == workers
    counted = ray.detached("count")
    assert (counted["count"], counted["pid"], counted["group"]) == (4, survivors["pid"], "CREATED")


def test_a_head_whose_container_was_made_anew_has_the_logs_of_its_jobs(ray: Set, survivors: dict[str, Any]) -> None:
    """As make down and make up, or an apply that changes the head, do it."""
    was = ray.alive()["ray-head"]
    ray.cluster.compose("up", "--detach", "--no-build", "--no-deps", "--force-recreate", "ray-head")
    ray.wait_whole("ray-head", was)
    check_all_there(ray, survivors)


# -- workers


def test_a_killed_worker_is_noticed_and_rejoins_and_what_was_on_it_moves(ray: Set, survivors: dict[str, Any]) -> None:
    victim = survivors["node"]
    with killed(ray.cluster, victim):
        ray.wait_gone(victim)
        # a bundle has lost its node, and each has to be on a node of its own
        ray.wait_row("placement_groups", "RESCHEDULING")
        moved = wait_for("the actor on another worker", lambda: ray.row("actors", "survivor"),
                         lambda row: row["state"] == "ALIVE" and row["num_restarts"] == "1", timeout_s=30)  # fmt: skip
        assert moved["pid"] != survivors["pid"]
    ray.wait_whole()
    ray.wait_row("placement_groups", "CREATED")


def test_a_frozen_worker_is_noticed_and_rejoins(ray: Set) -> None:
    victim = ray.nodes[-1]
    with frozen(ray.cluster, victim):
        ray.wait_gone(victim)
    ray.wait_whole()


def test_a_worker_whose_raylet_ended_without_an_error_is_started_again(ray: Set) -> None:
    """`ray start --block` stays when its raylet ends with status 0; the container must not stay with it."""
    victim = ray.nodes[1]
    started, was = ray.starts([victim]), ray.alive()[victim]
    ray.cluster.exec(victim, ["pkill", "-TERM", "-x", "raylet"])
    ray.wait_whole(victim, was)
    assert ray.starts([victim]) != started


# -- what was on a worker whose raylet is killed (R7)


def test_a_lost_object_is_made_again_from_its_lineage(ray: Set) -> None:
    before = ray.alive()
    rows = {row["task"]: row for row in json_lines(ray.user.run("ray_retry.py", "--kill-node", timeout_s=120).stdout)}
    assert {name: row["attempts"] for name, row in rows.items()} == {"crash": 2, "error": 1, "retried": 3, "lost": 2}
    assert rows["error"]["raised"] == "attempt 1"
    lost = rows["lost"]
    assert lost["noticed_s"] <= NOTICED_S
    assert lost["killed"] in ray.nodes[1:]
    assert lost["made_again_on"] in set(ray.nodes[1:]) - {lost["killed"]}
    ray.wait_whole(lost["killed"], before[lost["killed"]])


def test_an_actor_comes_back_on_another_node_with_what_it_saved(ray: Set) -> None:
    before = ray.alive()
    rows = {row["actor"]: row for row in
            json_lines(ray.user.run("ray_actor_restart.py", "--kill-node", timeout_s=120).stdout)}  # fmt: skip
    assert {name: (row["before"], row["after"]) for name, row in rows.items()} == {"plain": (3, 1), "saving": (3, 4)}
    killed = rows["plain"]["node"]
    assert rows["saving"]["node"] == killed in ray.nodes[1:]
    assert killed not in {row["node_after"] for row in rows.values()}
    ray.wait_whole(killed, before[killed])


# -- on purpose


def test_every_part_stops_within_its_grace_period(ray: Set) -> None:
    """Busy: a job runs on a worker, and its driver waits."""
    job = ray.user.job_submit("sleep", "300", options=("--entrypoint-num-cpus", "1"), name="busy")
    ray.user.wait_job(job, ("RUNNING",))
    was = ray.alive()["ray-head"]
    seconds = ray.docker("stop", *ray.nodes)
    codes = {service: ray.inspect(service)["ExitCode"] for service in ray.nodes}
    ray.docker("start", *ray.nodes)
    ray.wait_whole("ray-head", was)
    # 137: killed, since the 15 s of Compose were over
    assert 137 not in codes.values(), codes
    assert seconds < 15
