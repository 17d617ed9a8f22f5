"""``python -m smoke.workloads.make_hundred > smoke/workloads/hundred.yaml``: the example, the same at every call."""

from __future__ import annotations

import random

HEAD = """\
# A morning on a small cluster: 100 jobs of two people. Play it with: make replay FILE=smoke/workloads/hundred.yaml
# Made by smoke/workloads/make_hundred.py; edit a copy as you like.
#
# at      when it is submitted: minutes, or HH:MM:SS     runs    how long it works
# nodes   how many nodes                                 limit   its time limit; without one it is what it runs
# gpus    GPUs on each node                              qos, partition, name may be left out
#
# Times are simulated: a minute lasts a moment. Slurm plans with the limits as they are written, in real minutes.
description: 100 jobs of alice and bob, small and large, under three QOS
jobs:
"""
#: name, QOS, (nodes, GPUs) to draw from, minutes it runs, from and to, how many of a hundred
KINDS = (
    ("sweep", "low", ((1, 1), (1, 2), (1, 4), (1, 8)), (30, 150), 40),
    ("tune", "normal", ((1, 1), (1, 2), (1, 4)), (20, 90), 26),
    ("train", "normal", ((1, 8), (2, 8)), (60, 120), 6),
    ("debug", "high", ((1, 1), (1, 2)), (5, 20), 26),
    ("large", "high", ((2, 8), (3, 8)), (30, 60), 2),
)
#: Minutes over which the jobs arrive.
ARRIVE_MIN = 480


def clock(minutes: int) -> str:
    """HH:MM:SS."""
    return f"{minutes // 60:02}:{minutes % 60:02}:00"


def text() -> str:
    """The file."""
    draw = random.Random(100)
    rows = []
    for kind, qos, shapes, (shortest, longest), count in KINDS:
        for number in range(1, count + 1):
            nodes, gpus = draw.choice(shapes)
            runs = draw.randint(shortest, longest)
            # people ask for more than they need, by a third up to three times
            limit = -(-runs * draw.choice((4, 6, 9)) // 3)
            at = draw.randint(0, ARRIVE_MIN)
            user = draw.choice(("alice", "bob"))
            rows.append((at, f"{kind}-{number}", user, nodes, gpus, runs, limit, qos))
    lines = [
        f"  - {{at: {clock(at)}, name: {name + ',':9} user: {user + ',':6} nodes: {nodes}, gpus: {gpus}, "
        f"runs: {clock(runs)}, limit: {clock(limit)}, qos: {qos}}}\n"
        for at, name, user, nodes, gpus, runs, limit, qos in sorted(rows)
    ]
    return HEAD + "".join(lines)


if __name__ == "__main__":
    print(text(), end="")
