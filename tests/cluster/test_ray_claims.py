"""Claims R2, R3, R5, R6, R8 and R10, and field cases 30 and 31, by running the payloads as a user does.

R1 and R4 are steps of the smoke run (test_smoke.py), R7 needs a node that dies (test_ray_faults.py). Starting a driver
is the dear part: each payload runs once, and its lines are looked at from several sides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.waiting import wait_for
from smoke.ray import RayUser, json_lines

PAYLOADS = Path(__file__).parents[2] / "smoke" / "payloads"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def ray(cluster: Cluster) -> Iterator[RayUser]:
    """Ray as alice uses it, with the payloads at hand."""
    user = RayUser(cluster, "alice", "ray-claims")
    user.login.put(PAYLOADS.glob("*.py"))
    yield user
    user.clean_up()


@pytest.fixture(scope="module")
def printed(ray: RayUser) -> Callable[..., Rows]:
    """The JSON lines of a payload, which runs once."""

    @functools.cache
    def run(*command: str) -> Rows:
        return json_lines(ray.run(*command, timeout_s=90).stdout)

    return run


def by(rows: Rows, key: str) -> dict[str, dict[str, Any]]:
    return {str(row[key]): row for row in rows if key in row}


# -- GPUs (R2, R6)


def test_tasks_are_told_the_gpus_they_hold_and_only_those(printed: Callable[..., Rows]) -> None:
    rows = by(printed("ray_gpu.py"), "task")
    held = {name: row for name, row in rows.items() if name != "refused"}
    assert len(held) == 7
    for row in held.values():
        assert (row["CUDA_VISIBLE_DEVICES"] or "") == ",".join(row["ids"])
    assert held["none"]["ids"] == []
    assert held["none"]["CUDA_VISIBLE_DEVICES"] == ""


def test_whole_gpus_are_held_by_one_task(printed: Callable[..., Rows]) -> None:
    rows = by(printed("ray_gpu.py"), "task")
    places = {name: (rows[name]["host"], *rows[name]["ids"]) for name in ("whole-1", "whole-2", "half-1", "most-1")}
    assert all(len(place) == 2 for place in places.values())
    assert len(set(places.values())) == 4


def test_two_halves_share_a_gpu_and_two_times_six_tenths_do_not(printed: Callable[..., Rows]) -> None:
    rows = by(printed("ray_gpu.py"), "task")
    assert {rows[name]["host"] for name in ("half-1", "half-2", "most-1", "most-2")} == {rows["half-1"]["host"]}
    assert rows["half-1"]["ids"] == rows["half-2"]["ids"]
    assert rows["most-1"]["ids"] != rows["most-2"]["ids"]
    assert len(rows["half-1"]["ids"]) == len(rows["most-1"]["ids"]) == 1


def test_one_and_a_half_gpus_are_refused(printed: Callable[..., Rows]) -> None:
    refused = by(printed("ray_gpu.py"), "task")["refused"]
    assert "whole numbers" in refused["error"]
    assert "1.5" in refused["error"]


# -- placement groups (R5; case 30)


@pytest.mark.parametrize(
    ("strategy", "nodes"),
    [("PACK", 1), ("SPREAD", 2), ("STRICT_PACK", 1), ("STRICT_SPREAD", 2), ("the same under PACK", 2)],
)
def test_a_strategy_places_as_its_name_says(
    printed: Callable[..., Rows], cluster: Cluster, strategy: str, nodes: int
) -> None:
    row = by(printed("ray_strategies.py"), "group")[strategy]
    assert (row["ready"], row["state"], row["scheduling"]) == (True, "CREATED", "FINISHED")
    assert len(row["nodes"]) == 2
    assert len(set(row["nodes"])) == nodes
    assert set(row["nodes"]) <= set(cluster.ray_workers())


def test_a_task_runs_in_the_bundle_that_it_names(printed: Callable[..., Rows]) -> None:
    rows = [row for row in printed("ray_strategies.py") if row.get("ready")]
    assert len(rows) == 5
    for row in rows:
        assert row["tasks"] == row["nodes"], row["group"]


@pytest.mark.parametrize(
    ("group", "scheduling"),
    [("too large", "INFEASIBLE"), ("too large to pack", "INFEASIBLE"), ("too many to spread", "NO_RESOURCES")],
)
def test_what_nobody_can_place_waits_and_is_in_nobodys_way(
    printed: Callable[..., Rows], group: str, scheduling: str
) -> None:
    row = by(printed("ray_strategies.py"), "group")[group]
    assert (row["ready"], row["state"], row["scheduling"]) == (False, "PENDING", scheduling)
    assert "nodes" not in row


def test_ray_status_lists_what_nobody_can_place(printed: Callable[..., Rows], cluster: Cluster) -> None:
    demands = next(row["ray status"] for row in printed("ray_strategies.py") if "ray status" in row)
    cpus, workers = float(cluster.lab.ray.workers.cpus), len(cluster.ray_workers())
    assert sorted(demands) == sorted([
        f"{{'CPU': {cpus + 1}}} * 1 (PACK): 1+ pending placement groups",
        f"{{'CPU': {cpus}}} * 1, {{'CPU': 1.0}} * 1 (STRICT_PACK): 1+ pending placement groups",
        f"{{'CPU': 1.0}} * {workers + 1} (STRICT_SPREAD): 1+ pending placement groups",
    ])  # fmt: skip


# -- gangs (R8, R10)


def test_a_group_waits_while_the_gpus_are_fragmented(printed: Callable[..., Rows], cluster: Cluster) -> None:
    rows, gpus = by(printed("ray_fragmentation.py"), "case"), cluster.lab.ray.workers.gpus
    before, after = rows["fragmented"], rows["cured"]
    # as many are idle as it needs
    assert before["needs"] == gpus
    assert before["idle"] == gpus * len(cluster.ray_workers()) / 2 >= gpus
    assert (before["ready"], before["state"], before["scheduling"]) == (False, "PENDING", "NO_RESOURCES")
    assert (after["ready"], after["state"], after["node"]) == (True, "CREATED", after["freed"])
    assert after["after_s"] < 15


def test_a_group_that_was_there_first_is_never_invaded(printed: Callable[..., Rows], cluster: Cluster) -> None:
    rows = by(printed("ray_fragmentation.py"), "case")
    first = rows["first"]
    assert first["left"] == cluster.lab.ray.workers.gpus * (len(cluster.ray_workers()) - 1)
    assert len(first["small_on"]) == 2
    assert first["group_on"] not in first["small_on"]
    assert first["waiting"] == 2
    assert first["state"] == "CREATED"
    assert (rows["owner"]["node"], rows["owner"]["waiting"]) == (first["group_on"], 2)


def test_two_jobs_without_gangs_wait_for_each_other_and_with_gangs_run_in_turn(printed: Callable[..., Rows]) -> None:
    rows = by(printed("ray_deadlock.py"), "case")
    stuck = rows["one by one"]
    assert stuck["deadlock"] is True
    assert sum(stuck["has"].values()) == stuck["needs"]
    assert all(0 < count < stuck["needs"] for count in stuck["has"].values())
    first, second = rows["gang, 1"], rows["gang, 2"]
    assert first["has"] == second["has"] == stuck["needs"]
    assert first["waits"] == {second["runs"]: {"state": "PENDING", "scheduling": "NO_RESOURCES"}}
    assert second["waits"] == {}


# -- submitted jobs (R3)


def test_a_job_brings_its_files_variables_and_packages_without_a_network(
    printed: Callable[..., Rows], cluster: Cluster
) -> None:
    (row,) = printed("ray_env.py")
    assert row.pop("host") in cluster.ray_workers()
    assert row == {"file": "a file of the working_dir", "variable": "a variable of env_vars",
                   "package": "hello from a wheel", "elsewhere": False}  # fmt: skip


def test_a_job_outlives_its_client(ray: RayUser, cluster: Cluster) -> None:
    job = ray.job_name("outlives")
    script = "import time; print('begun', flush=True); time.sleep(4); print('outlived its client')"
    client = ("ray", "job", "submit", "--submission-id", job, "--working-dir", ".", "--", "python", "-c", script)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(ray.login.run, *client, check=False)
        ray.wait_job(job, ("RUNNING",))
        assert not waiting.done()  # it shows the job's log until the job ends
        cluster.exec("login", ["pkill", "-KILL", "-f", job], user="alice")
        assert waiting.result().exit_code == 137
    assert ray.job(job)["status"] == "RUNNING"
    assert ray.wait_job(job)["driver_exit_code"] == 0
    # Ray's own first line may come after the job's
    lines = [line for line in ray.job_cli("logs", job).splitlines() if "Running entrypoint" not in line]
    assert lines[-2:] == ["begun", "outlived its client"]


def test_the_exit_code_of_a_script_is_in_the_record_and_not_in_the_clients(ray: RayUser) -> None:
    job = ray.job_name("fails")
    client = ray.login.run("ray", "job", "submit", "--submission-id", job, "--", "sh", "-c", "exit 7", check=False)
    assert client.exit_code == 1
    record = ray.job(job)
    assert (record["status"], record["driver_exit_code"]) == ("FAILED", 7)
    assert "exit code 7" in record["message"]


def test_a_job_is_seen_stopped_and_deleted(ray: RayUser) -> None:
    job = ray.job_submit("sleep", "300", name="stopped")
    ray.wait_job(job, ("RUNNING",))
    assert "RUNNING" in ray.login.run("ray", "job", "status", job).stdout
    assert f"submission_id='{job}'" in ray.job_cli("list")
    ray.job_cli("stop", job)
    assert ray.job(job)["status"] == "STOPPED"
    ray.job_cli("delete", job)
    assert job not in [one["submission_id"] for one in ray.rest("/api/jobs/")]


def test_a_job_that_can_never_start_is_recognised_explained_and_ended(ray: RayUser, cluster: Cluster) -> None:
    gpus = cluster.lab.ray.workers.gpus
    job = ray.job_submit("true", options=("--entrypoint-num-gpus", str(gpus + 1)), name="never")
    with pytest.raises(LabError, match=rf"can never start: it asks for {gpus + 1} GPU; the .* {gpus} GPU") as told:
        ray.wait_job(job, timeout_s=30)
    what = by(json_lines(ray.run("ray_why.py").stdout), "what")[f"job {job}"]
    assert what["asks"] == {"GPU": gpus + 1}
    assert what["ever"] is False
    assert what["why"] == f"no node has {gpus + 1} GPU; the most is {gpus} GPU"
    # what the message advises ends it
    command = told.value.hint.removeprefix("python3 ").split()
    assert json_lines(ray.run(*command).stdout) == []
    wait_for("the job's end", lambda: ray.job(job)["status"], lambda status: status == "FAILED", timeout_s=20)
