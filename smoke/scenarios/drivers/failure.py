"""Work on a worker that will be killed: ``failure.py WORKER WORK_S READY``.

When all of it runs, the file READY says since when. Then it waits until Ray has noticed the death, and for what comes
back.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import ray  # type: ignore[import-not-found,unused-ignore]
from ray.util.scheduling_strategies import (  # type: ignore[import-not-found,unused-ignore]
    NodeAffinitySchedulingStrategy,
)

BOUND_S = 60


class Shelf:
    """Outlives the worker: when each run of a task began, and what an actor saved."""

    def __init__(self) -> None:
        self.starts: dict[str, list[float]] = {}
        self.saved = 0

    def begin(self, name: str) -> int:
        """One more run."""
        self.starts.setdefault(name, []).append(time.time())
        return len(self.starts[name])

    def all_starts(self) -> dict[str, list[float]]:
        """Of every task."""
        return self.starts

    def put(self, value: int) -> None:
        """Keep a number."""
        self.saved = value

    def get(self) -> int:
        """The number that was kept."""
        return self.saved


def work(shelf: Any, name: str, seconds: float) -> str:
    """Work by waiting; returns the node's name."""
    ray.get(shelf.begin.remote(name))
    time.sleep(seconds)
    return str(ray.get_runtime_context().get_node_id())


class Counter:
    """Counts, and with ``saves`` keeps its count on the shelf."""

    def __init__(self, shelf: Any, saves: bool) -> None:
        self.shelf, self.saves = shelf, saves
        self.count = ray.get(shelf.get.remote()) if saves else 0

    def up(self) -> int:
        """One more."""
        self.count += 1
        if self.saves:
            ray.get(self.shelf.put.remote(self.count))
        return int(self.count)


def until(what: str, ok: Any) -> None:
    """Wait for a condition. Raises TimeoutError at the bound."""
    end = time.monotonic() + BOUND_S
    while not ok():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {BOUND_S} s")
        time.sleep(0.1)


def main() -> dict[str, Any]:
    """The whole life of the work."""
    worker, work_s, ready = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    ray.init(address="auto", log_to_driver=False)
    nodes = {node["NodeName"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}
    hosts = {node["NodeManagerHostname"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}
    victim = hosts.get(worker) or nodes[worker]
    keeper = next(node["NodeID"] for node in ray.nodes()
                  if node["Alive"] and node["NodeID"] != victim and node["Resources"].get("GPU", 0) >= 4)  # fmt: skip
    there = {"scheduling_strategy": NodeAffinitySchedulingStrategy(victim, soft=True)}
    safe = {"scheduling_strategy": NodeAffinitySchedulingStrategy(keeper, soft=False)}
    shelf = ray.remote(Shelf).options(num_cpus=0, **safe).remote()
    actor = ray.remote(Counter).options(num_cpus=1, num_gpus=1, max_restarts=1, max_task_retries=3, **there)
    actors = {"plain": actor.remote(shelf, False), "saving": actor.remote(shelf, True)}
    for counter in actors.values():
        ray.get([counter.up.remote() for _ in range(3)], timeout=BOUND_S)
    # the tasks last: their time runs from here on, and processes of actors take long to start on a busy laptop
    task = ray.remote(work)
    runs = {
        "retried": task.options(num_gpus=1, **there).remote(shelf, "retried", work_s),
        "once": task.options(num_gpus=1, max_retries=0, **there).remote(shelf, "once", work_s),
        "elsewhere": task.options(num_gpus=1, **safe).remote(shelf, "elsewhere", work_s),
    }
    until("three tasks run", lambda: len(ray.get(shelf.all_starts.remote())) == len(runs))
    begun = max(times[-1] for times in ray.get(shelf.all_starts.remote()).values())
    partial = ready.with_suffix(".new")
    partial.write_text(str(begun), encoding="utf-8")
    partial.replace(ready)
    until("the death is noticed", lambda: not any(n["Alive"] for n in ray.nodes() if n["NodeID"] == victim))
    noticed = time.time()
    after = {name: ray.get(counter.up.remote(), timeout=BOUND_S) for name, counter in actors.items()}
    moved = ray.get(runs["retried"], timeout=BOUND_S + work_s)
    ray.get(runs["elsewhere"], timeout=BOUND_S)
    try:
        ray.get(runs["once"], timeout=BOUND_S)
        failed = False
    except ray.exceptions.RayError:
        failed = True
    starts = ray.get(shelf.all_starts.remote())
    return {"noticed": noticed, "starts": starts, "moved": moved == keeper, "failed": failed, **after}


if __name__ == "__main__":
    try:
        print(json.dumps(main()))
    except (TimeoutError, KeyError, ray.exceptions.RayError) as error:
        print(json.dumps({"error": str(error)[-300:]}))
