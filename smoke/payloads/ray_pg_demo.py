#!/usr/bin/env python3
"""A placement group is all or nothing.          python3 ray_pg_demo.py

What to expect: three lines of JSON.

    fits   two bundles of one CPU, PACK: CREATED, both on one node, two CPUs fewer are free
    over   a bundle of 999 CPUs: wait(5) says False, PENDING. INFEASIBLE: no node is that large, and waiting is no use.
           (A group that would fit once others are done is PENDING with NO_RESOURCES instead.)
    after  the over-ask reserved nothing and both groups are gone: as many CPUs are free as before

Nothing here waits without a time-out: a group that can never be placed does not fail by itself, it waits for ever.
"""

import json
import time

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group

WAIT_S = 30


def free_cpus():
    """CPUs of the cluster that nobody holds."""
    return ray.available_resources().get("CPU", 0.0)


def free_once(wanted):
    """The free CPUs, given a moment to come to `wanted`: nodes report what is free with a short delay."""
    end = time.monotonic() + 10
    while free_cpus() != wanted and time.monotonic() < end:
        time.sleep(0.1)
    return free_cpus()


def look(group):
    """The group's state, why it is in it, and the number of nodes it has."""
    table = placement_group_table(group)
    nodes = sorted(set(table["bundles_to_node_id"].values()) - {""})
    return {"state": table["state"], "scheduling": table["stats"]["scheduling_state"], "nodes": len(nodes)}


if __name__ == "__main__":
    ray.init(address="auto")
    before = free_cpus()
    groups = []
    try:
        fits = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK")
        groups.append(fits)
        ready = fits.wait(WAIT_S)
        print(json.dumps({"group": "fits", "ready": ready, **look(fits), "free": [before, free_once(before - 2)]}))

        over = placement_group([{"CPU": 999}])
        groups.append(over)
        started = time.monotonic()
        ready, free = over.wait(5), free_cpus()
        waited_s = round(time.monotonic() - started, 1)
        line = {"group": "over", "ready": ready, "waited_s": waited_s, **look(over), "free": [before - 2, free]}
        print(json.dumps(line))
    finally:
        for group in groups:
            remove_placement_group(group)
    print(json.dumps({"group": "after", "free": [before, free_once(before)]}))
