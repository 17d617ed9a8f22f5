#!/usr/bin/env python3
"""Which GPUs do Ray tasks get?          python3 ray_gpu.py

What to expect: eight lines of JSON.

    whole-1, whole-2  num_gpus=1     different ids (or the same id on different nodes)
    half-1, half-2    num_gpus=0.5   the SAME id on the same node: two halves of one GPU
    most-1, most-2    num_gpus=0.6   different ids on the same node: two of them are more than one GPU
    none              num_gpus=0     no id, and an empty CUDA_VISIBLE_DEVICES
    refused           num_gpus=1.5   a ValueError at once: above one only whole numbers

Ray counts GPUs and tells each task its share in CUDA_VISIBLE_DEVICES. It does not fence them: a task that sets the
variable itself sees what it likes, and half a GPU is a promise between two tasks, not a limit.
"""

import asyncio
import json
import os
import socket

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

WAIT_S = 40


@ray.remote(num_cpus=0)
class Meeting:
    """Keeps everybody until all have come: GPUs that are held at one time cannot be one GPU given out twice."""

    def __init__(self, expected):
        self.missing = expected

    async def arrive(self):
        """Return when all have come."""
        self.missing -= 1
        while self.missing > 0:
            await asyncio.sleep(0.02)


@ray.remote(num_cpus=0)
def look(name, meeting):
    """The GPUs of this task, looked at while the other tasks have theirs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    seen = {"task": name, "host": socket.gethostname(), "ids": [str(gpu) for gpu in ray.get_gpu_ids()]}
    ray.get(meeting.arrive.remote(), timeout=WAIT_S)
    return seen | {"CUDA_VISIBLE_DEVICES": visible}


def a_gpu_node():
    """Halves share a GPU only where they meet on one node: pick one."""
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0) >= 1]
    return NodeAffinitySchedulingStrategy(nodes[-1]["NodeID"], soft=False)


if __name__ == "__main__":
    ray.init(address="auto")
    meeting = Meeting.remote(7)
    here = a_gpu_node()
    tasks = [look.options(num_gpus=1).remote(name, meeting) for name in ("whole-1", "whole-2")]
    tasks += [
        look.options(num_gpus=0.5, scheduling_strategy=here).remote(name, meeting) for name in ("half-1", "half-2")
    ]
    tasks += [
        look.options(num_gpus=0.6, scheduling_strategy=here).remote(name, meeting) for name in ("most-1", "most-2")
    ]
    tasks += [look.options(num_gpus=0, scheduling_strategy=here).remote("none", meeting)]
    for answer in ray.get(tasks, timeout=WAIT_S):
        print(json.dumps(answer))
    try:
        ray.get(look.options(num_gpus=1.5).remote("refused", meeting), timeout=WAIT_S)
    except ValueError as error:
        print(json.dumps({"task": "refused", "error": str(error).splitlines()[-1]}))
