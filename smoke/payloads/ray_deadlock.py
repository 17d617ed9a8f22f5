#!/usr/bin/env python3
"""Two jobs that each wait for what the other holds.          python3 ray_deadlock.py

Each job needs as many members as there are workers, each member all GPUs of one, and works only when all of its members
are there. What to expect, one JSON line each, here with two workers:

    one by one  each job has got one member, and neither gets its second: both wait for ever. Ray does not find that
                out by itself; here it shows because nothing moves for some seconds while all GPUs are held. This is
                what a scheduler without gangs does, such as bare Kubernetes without Volcano's PodGroup
    gang, 1     the same two jobs ask for a placement group each. The first has all of its bundles and runs; the
                second holds nothing while it waits (PENDING, NO_RESOURCES)
    gang, 2     the first has given its group back, and the second runs

A Slurm job cannot get into this at all: it starts with all of its nodes, or not yet.
"""

import json

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

WAIT_S = 30
PATIENCE_S = 3


@ray.remote(num_cpus=0)
class Member:
    """A part of a job; it is there as long as it lives."""

    def here(self):
        """Answer once the GPUs are there."""
        return ray.get_runtime_context().get_node_id()


def state(group):
    """The group's state, and why it is in it."""
    table = placement_group_table(group)
    return {"state": table["state"], "scheduling": table["stats"]["scheduling_state"]}


def one_by_one(gpus, needed):
    """Members come as GPUs are free. In turns: the first members of both jobs, then the next ones."""
    member = Member.options(num_gpus=gpus)
    jobs, there, calls = {"a": [], "b": []}, {"a": [], "b": []}, []
    for _ in range(needed):
        for name, members in jobs.items():
            members.append(member.remote())
            there[name].append(members[-1].here.remote())
            calls.append(there[name][-1])
        # as many as there can be, so that nobody's second member comes before somebody's first
        ray.wait(calls, num_returns=min(needed, len(calls)), timeout=WAIT_S)
    ready, _ = ray.wait(calls, num_returns=len(calls), timeout=PATIENCE_S)
    ray.get(ready)  # a member that died is no member: this raises
    has = {name: sum(call in ready for call in one) for name, one in there.items()}
    stuck = sum(has.values()) == needed and max(has.values()) < needed
    print(json.dumps({"case": "one by one", "needs": needed, "has": has, "deadlock": stuck}), flush=True)
    for one in [one for members in jobs.values() for one in members]:
        ray.kill(one)


def gang(gpus, needed):
    """Both jobs ask for everything at once."""
    groups = {name: placement_group([{"GPU": gpus}] * needed, strategy="SPREAD") for name in ("a", "b")}
    for number, name in enumerate(list(groups), 1):
        group = groups.pop(name)
        if not group.wait(WAIT_S):
            raise SystemExit(f"{name} was not placed within {WAIT_S} s: {state(group)}")
        members = [
            Member.options(num_gpus=gpus, scheduling_strategy=PlacementGroupSchedulingStrategy(group, index)).remote()
            for index in range(needed)
        ]
        has = len(ray.get([one.here.remote() for one in members], timeout=WAIT_S))
        others = {other: state(one) for other, one in groups.items()}
        print(json.dumps({"case": f"gang, {number}", "runs": name, "has": has, "waits": others}), flush=True)
        remove_placement_group(group)


if __name__ == "__main__":
    ray.init(address="auto", log_to_driver=False)
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0) >= 1]
    if len(nodes) < 2 or len({node["Resources"]["GPU"] for node in nodes}) != 1:
        raise SystemExit("two workers with equally many GPUs are needed")
    each = nodes[0]["Resources"]["GPU"]
    one_by_one(each, len(nodes))
    gang(each, len(nodes))
