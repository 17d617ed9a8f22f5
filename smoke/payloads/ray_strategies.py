#!/usr/bin/env python3
"""Where do the bundles of a placement group go?          python3 ray_strategies.py

Two bundles of one CPU under each strategy, on a cluster with two workers or more. What to expect, one JSON line each:

    PACK           on one node, if they fit there      (a wish)
    SPREAD         on two nodes, if there are two      (a wish)
    STRICT_PACK    on one node, or not at all          (a condition)
    STRICT_SPREAD  each on a node of its own, or not at all

"nodes" has the node of each bundle, in order, and "tasks" the node on which a task ran that asked for this bundle by
its index: the same. Two more groups show what "not at all" means. STRICT_PACK with one CPU more than the largest node
has is PENDING and INFEASIBLE. STRICT_SPREAD with one bundle more than there are nodes waits just as much in vain, but
Ray calls it NO_RESOURCES: it looks at each bundle for itself, and each would fit on some node. The CPUs that
STRICT_PACK could not have are CREATED under PACK, on two nodes.
"""

import json

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

WAIT_S = 30
STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


@ray.remote(num_cpus=1)
def node_id():
    """The node on which this task runs."""
    return ray.get_runtime_context().get_node_id()


def show(title, strategy, bundles, names, wait_s=WAIT_S):
    """Make a group, say where its bundles and their tasks are, and remove it."""
    group = placement_group(bundles, strategy=strategy)
    try:
        ready = group.wait(wait_s)
        table = placement_group_table(group)
        line = {"group": title, "state": table["state"], "scheduling": table["stats"]["scheduling_state"]}
        if ready:
            placed = [table["bundles_to_node_id"][index] for index in range(len(bundles))]
            tasks = [
                node_id.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, index)).remote()
                for index in range(len(bundles))
            ]
            line["nodes"] = [names[one] for one in placed]
            line["tasks"] = [names[one] for one in ray.get(tasks, timeout=WAIT_S)]
        print(json.dumps(line), flush=True)
    finally:
        remove_placement_group(group)


if __name__ == "__main__":
    ray.init(address="auto")
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    names = {node["NodeID"]: node["NodeName"] for node in nodes}
    largest = int(max(node["Resources"]["CPU"] for node in nodes))
    for strategy in STRATEGIES:
        show(strategy, strategy, [{"CPU": 1}] * 2, names)
    show("too many for STRICT_SPREAD", "STRICT_SPREAD", [{"CPU": 1}] * (len(nodes) + 1), names, wait_s=2)
    over_one_node = [{"CPU": largest}, {"CPU": 1}]
    show("too large for STRICT_PACK", "STRICT_PACK", over_one_node, names, wait_s=2)
    show("the same under PACK", "PACK", over_one_node, names)
