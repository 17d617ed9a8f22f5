#!/usr/bin/env python3
"""What outlives the driver that made it, and the head.          python3 ray_detached.py make|count|remove

A detached actor and a detached placement group belong to the cluster, not to the driver. What to expect, one JSON line:

    make    makes both, counts to 3 and ends. The actor stays where it is, and its count in its process
    count   finds both by name and counts on: 4, in the same process ("pid")
    remove  kills the actor and removes the group

Between `make` and `count` the head may die and come back: its table of actors and groups is on a volume, and the
workers, where the actor's process is, wait a minute for it. If the actor's own worker dies its process is started
again elsewhere, and its count is gone.
"""

import argparse
import json
import os

import ray
from ray.util.placement_group import get_placement_group, placement_group, placement_group_table, remove_placement_group

WAIT_S = 40
NAME, NAMESPACE = "survivor", "lab"


@ray.remote(num_cpus=0, num_gpus=1, max_restarts=-1, max_task_retries=3)
class Counter:
    """Counts in its process."""

    def __init__(self):
        self.count = 0

    def up(self):
        """One more."""
        self.count += 1
        return {"count": self.count, "pid": os.getpid(), "node": os.uname().nodename}


def make():
    """One of each; a bundle on every worker."""
    workers = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    bundles = [{"CPU": 1}] * len(workers)
    placement_group(bundles, strategy="STRICT_SPREAD", name=NAME, lifetime="detached").wait(WAIT_S)
    actor = Counter.options(name=NAME, lifetime="detached").remote()
    return [ray.get(actor.up.remote(), timeout=WAIT_S) for _ in range(3)][-1]


def count():
    """The actor of an earlier driver."""
    return ray.get(ray.get_actor(NAME).up.remote(), timeout=WAIT_S)


def remove():
    """Nothing stays."""
    ray.kill(ray.get_actor(NAME))
    return {}


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="What outlives the driver that made it, and the head.")
    options.add_argument("what", choices=["make", "count", "remove"])
    args = options.parse_args()
    ray.init(address="auto", namespace=NAMESPACE, log_to_driver=False)
    done = {"make": make, "count": count, "remove": remove}[args.what]()
    group = get_placement_group(NAME)
    print(json.dumps({"did": args.what, **done, "group": placement_group_table(group)["state"]}))
    if args.what == "remove":
        remove_placement_group(group)
