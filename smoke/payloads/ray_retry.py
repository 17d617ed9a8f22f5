#!/usr/bin/env python3
"""What Ray does when work is lost.          python3 ray_retry.py [--kill-node]

What to expect: JSON lines.

    crash    a task whose process dies is run again (max_retries, 3 by default): attempts 2, and the answer is there
    error    a task that raises is NOT run again: an exception is an answer. attempts 1
    retried  ... unless retry_exceptions asks for it: attempts 3
    lost     with --kill-node: the object that a task left on a worker is lost with the worker. Asked for again, it is
             made again by running the task once more, on another node (lineage): attempts 2

--kill-node kills a worker's raylet, which ends the node's container; the engine starts it again. Slurm's answer to the
same fault is coarser: the job as a whole goes back into the queue.
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
class Count:
    """Counts the attempts of each task, away from the processes that die."""

    def __init__(self):
        self.attempts = {}

    def up(self, name):
        """One more attempt."""
        self.attempts[name] = self.attempts.get(name, 0) + 1
        return self.attempts[name]


@ray.remote(num_cpus=1)
def crash(count):
    """Kills its own process at the first attempt."""
    attempt = ray.get(count.up.remote("crash"))
    if attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return attempt


@ray.remote(num_cpus=1)
def error(count, name):
    """Raises twice."""
    attempt = ray.get(count.up.remote(name))
    if attempt < 3:
        raise ValueError(f"attempt {attempt}")
    return attempt


@ray.remote(num_cpus=1, num_returns=2)
def make(count):
    """A word that it is done, and an object large enough to stay in the object store of the node that made it."""
    attempt = ray.get(count.up.remote("lost"))
    return "done", {"attempts": attempt, "node": ray.get_runtime_context().get_node_id(), "data": bytes(1_000_000)}


@ray.remote(num_cpus=0, max_retries=0)
def kill_this_node():
    """The parent of a worker process is its node's raylet."""
    os.kill(os.getppid(), signal.SIGKILL)


def alive():
    """Names of the nodes that are alive, by id."""
    return {node["NodeID"]: node["NodeName"] for node in ray.nodes() if node["Alive"]}


def lose_a_node(count):
    """Have an object made on one node, kill the node, ask for the object."""
    before = alive()
    workers = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    if len(workers) < 2:
        return {"task": "lost", "error": "needs two workers"}
    victim, keeper = workers[0], workers[1]
    there = NodeAffinitySchedulingStrategy(victim, soft=True)
    done, made = make.options(scheduling_strategy=there).remote(count)
    ray.get(done, timeout=WAIT_S)  # not the object itself: that would bring a copy of it here
    only_there = NodeAffinitySchedulingStrategy(victim, soft=False)
    killed = kill_this_node.options(scheduling_strategy=only_there).remote()
    with contextlib.suppress(ray.exceptions.RayError):
        ray.get(killed, timeout=WAIT_S)
    start = time.monotonic()
    while victim in alive() and time.monotonic() - start < WAIT_S:
        time.sleep(0.2)
    noticed_s = time.monotonic() - start
    on_keeper = NodeAffinitySchedulingStrategy(keeper, soft=False)
    attempts, node = ray.get(look.options(scheduling_strategy=on_keeper).remote(made), timeout=WAIT_S)
    return {"task": "lost", "attempts": attempts, "killed": before[victim], "noticed_s": round(noticed_s, 1),
            "made_again_on": alive().get(node, node)}  # fmt: skip


@ray.remote(num_cpus=0)
def look(made):
    """How often the object was made, and where it was made last."""
    return made["attempts"], made["node"]


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="What Ray does when work is lost.")
    options.add_argument("--kill-node", action="store_true", help="kill a worker node too")
    args = options.parse_args()
    ray.init(address="auto")
    keep = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1][-1]
    count = Count.options(scheduling_strategy=NodeAffinitySchedulingStrategy(keep, soft=False)).remote()
    print(json.dumps({"task": "crash", "attempts": ray.get(crash.remote(count), timeout=WAIT_S)}), flush=True)
    try:
        ray.get(error.remote(count, "error"), timeout=WAIT_S)
    except ValueError as raised:
        print(json.dumps({"task": "error", "attempts": 1, "raised": str(raised.args[0])[:40]}), flush=True)
    again = error.options(max_retries=5, retry_exceptions=True).remote(count, "retried")
    print(json.dumps({"task": "retried", "attempts": ray.get(again, timeout=WAIT_S)}), flush=True)
    if args.kill_node:
        print(json.dumps(lose_a_node(count)), flush=True)
