#!/usr/bin/env python3
"""What is left of an actor when its node dies?          python3 ray_actor_restart.py [--kill-node]

Two counters are counted to 3, their processes are killed, and each is asked to count once more. What to expect:

    plain   max_restarts=1: a new process, which knows nothing. It says 1.
    saving  the same, and it keeps its count elsewhere and reads it when it starts. It says 4.

Ray brings back the actor, not its state: what must survive has to be saved, as a training job saves checkpoints.
Without --kill-node only the two processes die. With it the whole worker does: both come back on another node.
"""

import argparse
import contextlib
import json
import os
import signal
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

WAIT_S = 60


@ray.remote(num_cpus=0)
class Shelf:
    """Stands for a file system that outlives a node."""

    def __init__(self):
        self.value = 0

    def put(self, value):
        """Keep a value."""
        self.value = value

    def get(self):
        """The value kept last."""
        return self.value


@ray.remote(num_cpus=1, max_restarts=1, max_task_retries=3)
class Counter:
    """Counts; with a shelf it keeps its count there."""

    def __init__(self, shelf=None):
        self.shelf = shelf
        self.count = ray.get(shelf.get.remote()) if shelf else 0

    def up(self):
        """One more."""
        self.count += 1
        if self.shelf:
            ray.get(self.shelf.put.remote(self.count))
        return self.count

    def where(self):
        """Process and node."""
        return os.getpid(), ray.get_runtime_context().get_node_id()


@ray.remote(num_cpus=0, max_retries=0)
def kill(pid):
    """Kill a process of this node; 0 is the node's raylet, the parent of every worker process."""
    os.kill(pid or os.getppid(), signal.SIGKILL)


def names():
    """Names of the nodes, by id."""
    return {node["NodeID"]: node["NodeName"] for node in ray.nodes()}


def alive(node):
    """True while the node is part of the cluster."""
    return any(one["NodeID"] == node and one["Alive"] for one in ray.nodes())


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="What is left of an actor when its node dies?")
    options.add_argument("--kill-node", action="store_true", help="kill the whole worker node")
    args = options.parse_args()
    ray.init(address="auto")
    workers = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 2]
    if len(workers) < 2:
        raise SystemExit("two workers with two CPUs are needed")
    safe = NodeAffinitySchedulingStrategy(workers[1], soft=False)
    there = NodeAffinitySchedulingStrategy(workers[0], soft=True)
    here = NodeAffinitySchedulingStrategy(workers[0], soft=False)
    shelf = Shelf.options(scheduling_strategy=safe).remote()
    counters = {"plain": Counter.options(scheduling_strategy=there).remote(),
                "saving": Counter.options(scheduling_strategy=there).remote(shelf)}  # fmt: skip
    before = {}
    for name, counter in counters.items():
        counted = [ray.get(counter.up.remote(), timeout=WAIT_S) for _ in range(3)][-1]
        before[name] = (counted, *ray.get(counter.where.remote(), timeout=WAIT_S))
    for pid in [0] if args.kill_node else [pid for _, pid, _ in before.values()]:
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(kill.options(scheduling_strategy=here).remote(pid), timeout=WAIT_S)
    end = time.monotonic() + WAIT_S
    while args.kill_node and alive(workers[0]) and time.monotonic() < end:
        time.sleep(0.2)
    for name, counter in counters.items():
        after = ray.get(counter.up.remote(), timeout=WAIT_S)
        pid, node = ray.get(counter.where.remote(), timeout=WAIT_S)
        known = names()
        print(json.dumps({"actor": name, "before": before[name][0], "after": after, "node": known[before[name][2]],
                          "node_after": known[node], "new_process": pid != before[name][1]}), flush=True)  # fmt: skip
