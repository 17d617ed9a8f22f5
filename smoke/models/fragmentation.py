"""Fragmentation: enough GPUs are idle, but not together.

Nodes of ``per_node`` GPUs hold ``taken[i]`` each. Idle on node i are ``per_node - taken[i]``, and the idle share of
the cluster is their sum over ``per_node * len(taken)``. A gang that wants ``wanted`` GPUs on each of ``nodes`` nodes
counts only nodes with that many idle. The course: 5, 6, 6, 7 of 8 taken leaves 3 + 2 + 2 + 1 = 8 of 32 idle, 25 %,
and not one node with 8.
"""

from __future__ import annotations

from collections.abc import Sequence


def idle_gpus(per_node: int, taken: Sequence[int]) -> tuple[int, ...]:
    """Idle GPUs of each node."""
    for number, held in enumerate(taken, start=1):
        if not 0 <= held <= per_node:
            raise ValueError(f"node {number} cannot have {held} of {per_node} GPUs taken")
    return tuple(per_node - held for held in taken)


def idle_share(per_node: int, taken: Sequence[int]) -> float:
    """Idle GPUs over all GPUs."""
    if per_node <= 0 or not taken:
        raise ValueError("there must be at least one node with at least one GPU")
    return sum(idle_gpus(per_node, taken)) / (per_node * len(taken))


def nodes_that_qualify(per_node: int, taken: Sequence[int], wanted: int) -> int:
    """Nodes with at least ``wanted`` idle GPUs."""
    return sum(idle >= wanted for idle in idle_gpus(per_node, taken))


def gang_start(ends: Sequence[float], nodes: int) -> float:
    """When a gang of ``nodes`` whole nodes can start, if node i becomes empty at ``ends[i]`` and nobody else comes.

    That is the nodes-th smallest end: the gang waits for the last of the nodes it takes, the first of them idle since.
    """
    if not 1 <= nodes <= len(ends):
        raise ValueError(f"a gang of {nodes} nodes never starts on {len(ends)}")
    return sorted(ends)[nodes - 1]
