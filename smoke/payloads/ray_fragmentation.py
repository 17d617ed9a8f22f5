#!/usr/bin/env python3
"""Idle GPUs that nobody can use, and how a placement group keeps its own.          python3 ray_fragmentation.py

Small actors hold half of the GPUs of each worker. What to expect, one JSON line each:

    fragmented  as many GPUs are idle as a whole worker has, and yet a group that needs a whole worker is PENDING with
                NO_RESOURCES: it would fit, but nothing that it could have is in one place
    cured       once the small actors of one worker are gone, the group is CREATED there
    first       the other order: now the group is there first. Small tasks ask for twice the GPUs that are left. As
                many run as fit beside the group, on other nodes; the others wait, although the group's GPUs are idle
    owner       a task of the group itself gets its GPU at once, while those wait

The same happens under Slurm: a job that asks for whole nodes waits while every node has a few idle GPUs. There
--exclusive, a partition or a reservation keep the place; here a placement group that is made before the small work.
"""

import json
import time

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

WAIT_S = 30


@ray.remote(num_cpus=0)
class Small:
    """Holds its GPUs as long as it lives."""

    def node(self):
        """Where it is."""
        return ray.get_runtime_context().get_node_id()


@ray.remote(num_cpus=0, num_gpus=1)
def owner():
    """A task of the group."""
    return ray.get_runtime_context().get_node_id()


def idle_gpus(wanted):
    """GPUs that nobody holds, given a moment to come to `wanted`: nodes report them with a short delay."""
    end = time.monotonic() + 10
    while (free := ray.available_resources().get("GPU", 0.0)) != wanted and time.monotonic() < end:
        time.sleep(0.1)
    return free


def state(group):
    """The group's state, and why it is in it."""
    table = placement_group_table(group)
    return {"state": table["state"], "scheduling": table["stats"]["scheduling_state"]}


if __name__ == "__main__":
    ray.init(address="auto", log_to_driver=False)
    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0) >= 2}
    names = {key: node["NodeName"] for key, node in nodes.items()}
    gpus = int(min(node["Resources"]["GPU"] for node in nodes.values()))
    total = int(sum(node["Resources"]["GPU"] for node in nodes.values()))
    if len(nodes) < 2:
        raise SystemExit("two workers with two GPUs are needed")

    here = {key: NodeAffinitySchedulingStrategy(key, soft=False) for key in nodes}
    small = {
        key: Small.options(num_gpus=node["Resources"]["GPU"] / 2, scheduling_strategy=here[key]).remote()
        for key, node in nodes.items()
    }
    ray.get([one.node.remote() for one in small.values()], timeout=WAIT_S)
    idle = idle_gpus(total / 2)
    gang = placement_group([{"GPU": gpus}])
    ready = gang.wait(2)
    print(json.dumps({"case": "fragmented", "idle": idle, "needs": gpus, "ready": ready, **state(gang)}), flush=True)

    freed = next(key for key, node in nodes.items() if node["Resources"]["GPU"] >= gpus)
    ray.kill(small.pop(freed))
    started = time.monotonic()
    ready = gang.wait(WAIT_S)
    line = {"case": "cured", "freed": names[freed], "ready": ready, "after_s": round(time.monotonic() - started, 1)}
    place = placement_group_table(gang)["bundles_to_node_id"][0]
    print(json.dumps({**line, **state(gang), "node": names.get(place)}), flush=True)
    for one in small.values():
        ray.kill(one)

    left = idle_gpus(total - gpus)
    half = Small.options(num_gpus=left / 2)
    asked = [half.remote() for _ in range(4)]
    calls = {one.node.remote(): one for one in asked}
    running, waiting = ray.wait(list(calls), num_returns=2, timeout=WAIT_S)
    more, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=2) if waiting else ([], [])
    where = sorted(names[node] for node in ray.get([*running, *more], timeout=WAIT_S))
    line = {"case": "first", "group_on": names[place], "left": left, "asked": 4 * left / 2, "small_on": where}
    print(json.dumps({**line, "waiting": len(waiting), **state(gang)}), flush=True)
    mine = PlacementGroupSchedulingStrategy(gang, 0)
    node = ray.get(owner.options(scheduling_strategy=mine).remote(), timeout=WAIT_S)
    print(json.dumps({"case": "owner", "node": names[node], "waiting": len(waiting)}), flush=True)
    remove_placement_group(gang)
