#!/usr/bin/env python3
"""Where do the bundles of a placement group go?          python3 ray_strategies.py

Two bundles of one CPU under each strategy, on a cluster with two workers or more. What to expect, one JSON line each:

    PACK           on one node, if they fit there      (a wish)
    SPREAD         on two nodes, if there are two      (a wish)
    STRICT_PACK    on one node, or not at all          (a condition)
    STRICT_SPREAD  each on a node of its own, or not at all

"nodes" has the node of each bundle, in order, and "tasks" the node on which a task ran that asked for this bundle by
its index: the same.

Three groups that nobody can place are asked for first, and wait all the while without being in anybody's way:

    too large              one bundle larger than any node                         PENDING, INFEASIBLE
    too large to pack      STRICT_PACK, one CPU more than the largest node has     PENDING, INFEASIBLE
    too many to spread     STRICT_SPREAD, one bundle more than there are nodes     PENDING, NO_RESOURCES

The last one waits just as much in vain, and still Ray says NO_RESOURCES, as for a group that has to wait for others:
it looks at each bundle for itself, and each would fit on some node. `ray status` lists what all three ask for. The
CPUs that STRICT_PACK could not have are CREATED under PACK, on two nodes.
"""

import json
import subprocess
import time

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

WAIT_S = 30
STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


@ray.remote(num_cpus=1)
def node_id():
    """The node on which this task runs."""
    return ray.get_runtime_context().get_node_id()


def look(title, group, ready, names):
    """Say where the bundles of a group and their tasks are."""
    table = placement_group_table(group)
    line = {"group": title, "ready": ready, "state": table["state"], "scheduling": table["stats"]["scheduling_state"]}
    if ready:
        placed = [table["bundles_to_node_id"][index] for index in range(group.bundle_count)]
        tasks = [
            node_id.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, index)).remote()
            for index in range(group.bundle_count)
        ]
        line["nodes"] = [names[one] for one in placed]
        line["tasks"] = [names[one] for one in ray.get(tasks, timeout=WAIT_S)]
    print(json.dumps(line), flush=True)


def show(title, strategy, bundles, names):
    """Make a group, look at it, and remove it."""
    group = placement_group(bundles, strategy=strategy)
    try:
        look(title, group, group.wait(WAIT_S), names)
    finally:
        remove_placement_group(group)


def demands(expected):
    """What `ray status` lists as asked for by placement groups. The list is renewed every 5 s: it may still have a
    group that is long CREATED, or not yet one that is new, so ask until it has as many as there are."""
    end = time.monotonic() + 15
    while True:
        status = subprocess.run(["ray", "status"], capture_output=True, text=True, timeout=WAIT_S, check=True).stdout
        found = [line.strip() for line in status.splitlines() if line.endswith("pending placement groups")]
        if len(found) == expected or time.monotonic() > end:
            return found
        time.sleep(0.5)


if __name__ == "__main__":
    ray.init(address="auto", log_to_driver=False)
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    names = {node["NodeID"]: node["NodeName"] for node in nodes}
    largest = int(max(node["Resources"]["CPU"] for node in nodes))
    over_one_node = [{"CPU": largest}, {"CPU": 1}]
    hopeless = {
        "too large": placement_group([{"CPU": largest + 1}]),
        "too large to pack": placement_group(over_one_node, strategy="STRICT_PACK"),
        "too many to spread": placement_group([{"CPU": 1}] * (len(nodes) + 1), strategy="STRICT_SPREAD"),
    }
    try:
        for strategy in STRATEGIES:
            show(strategy, strategy, [{"CPU": 1}] * 2, names)
        show("the same under PACK", "PACK", over_one_node, names)
        print(json.dumps({"ray status": demands(len(hopeless))}), flush=True)
        for title, group in hopeless.items():
            look(title, group, group.wait(0.1), names)
    finally:
        for group in hopeless.values():
            remove_placement_group(group)
