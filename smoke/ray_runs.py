"""Which task or actor of the standing Ray held how many GPUs of which node, from when to when.

Follows Ray's state API (``/api/v0/tasks``, ``/api/v0/nodes``) and its dashboard's list of actors
(``/logical/actors``). The head remembers tasks as long as its process lives, and tells of 10,000 at a time; it knows
how many GPUs, not which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from provisioning import ray_api
from provisioning.cluster import Cluster
from provisioning.lab import Lab
from provisioning.render.compose import ray_worker_names
from provisioning.render.gres_conf import gpus_by_node

#: The most that Ray's API tells of (RAY_MAX_LIMIT_FROM_API_SERVER).
LIMIT = 10_000
TIMEOUT_S = 30
TASKS = f"/api/v0/tasks?detail=1&limit={LIMIT}&filter_keys=type&filter_predicates=%3D&filter_values=NORMAL_TASK"
NODES = f"/api/v0/nodes?limit={LIMIT}"
#: What a run is called that has not ended, and how those that have are called.
STATES = {"RUNNING": "RUNNING", "ALIVE": "RUNNING", "FINISHED": "COMPLETED", "DEAD": "COMPLETED"}


def lab_gpus(lab: Lab) -> dict[str, int]:
    """GPUs of each node of both schedulers; a worker that ``make ray-scale`` added is not among them."""
    standing = {"ray-head": lab.ray.head.gpus, **dict.fromkeys(ray_worker_names(lab), lab.ray.workers.gpus)}
    return gpus_by_node(lab) | {node: int(gpus) for node, gpus in standing.items()}


def gpus_asked(resources: Mapping[str, float]) -> float:
    """GPUs in a task's resources; inside a placement group they carry its id: ``GPU_group_0_1f2e``."""
    return max((amount for name, amount in resources.items() if name == "GPU" or name.startswith("GPU_group_")),
               default=0)  # fmt: skip


def _run(name: str, state: str, node: str, gpus: float, submit_ms: float, start_ms: float,
         end_ms: float, job: str) -> dict[str, Any]:  # fmt: skip
    return {
        "job": job, "name": name, "user": "ray", "state": STATES.get(state, "FAILED"), "nodes": node, "gpus": gpus,
        "submit": (submit_ms or start_ms) / 1000, "start": start_ms / 1000, "end": (end_ms or 0) / 1000,
    }  # fmt: skip


def task_runs(tasks: Iterable[Mapping[str, Any]], nodes: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Tasks with GPUs that have started; ``nodes`` are host names by Ray's node ids."""
    for one in tasks:
        gpus = gpus_asked(one.get("required_resources") or {})
        if gpus and one["start_time_ms"]:
            node, job = nodes.get(one["node_id"], "gone"), f"{one['task_id']}-{one['attempt_number']}"
            yield _run(one["name"], one["state"], node, gpus, one["creation_time_ms"], one["start_time_ms"],
                       one["end_time_ms"], job)  # fmt: skip


def actor_runs(actors: Iterable[Mapping[str, Any]], nodes: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Actors with GPUs that have started. One that was restarted counts from its last start."""
    for one in actors:
        gpus = gpus_asked(one.get("requiredResources") or {})
        if gpus and one["startTime"]:
            node = nodes.get(one["address"].get("nodeId", ""), "gone")
            yield _run(one["name"] or one["actorClass"], one["state"], node, gpus, 0, one["startTime"],
                       one["endTime"], one["actorId"])  # fmt: skip


def ray_runs(cluster: Cluster, since: float) -> list[dict[str, Any]]:
    """Runs on the standing Ray that had not ended before ``since`` (seconds since 1970), in the form of a Record.

    ``end`` is 0 while it runs. Raises LabError if the dashboard does not answer.
    """
    # the dashboard's own list of nodes forgets the names of the dead
    known = ray_api.get(cluster, NODES, timeout_s=TIMEOUT_S)["data"]["result"]["result"]
    nodes = {one["node_id"]: one["node_name"] for one in known}
    tasks = ray_api.get(cluster, TASKS, timeout_s=TIMEOUT_S)["data"]["result"]["result"]
    actors = ray_api.get(cluster, "/logical/actors", timeout_s=TIMEOUT_S)["data"]["actors"]
    runs = [*task_runs(tasks, nodes), *actor_runs(actors.values(), nodes)]
    return [run for run in runs if not run["end"] or run["end"] >= since]
