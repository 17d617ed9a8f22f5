"""Granularity: what a task costs before it does anything.

A task of length d with the overhead o for each occupies its slot, or keeps its user waiting, for d + o. The share that
was work is e = d / (d + o). Solved for d, a wanted share e needs tasks of at least o e / (1 - e): nine overheads for
90 %. n tasks on k slots take n (d + o) / k if the overhead is paid on the slots, and n o + d if a single controller
pays it one after the other; the larger of the two counts.
"""

from __future__ import annotations

import math


def efficiency(task: float, overhead: float) -> float:
    """Share of work in a task's time; both in one unit."""
    if task < 0 or overhead < 0 or task + overhead == 0:
        raise ValueError("a task's length and overhead cannot be negative, and not both 0")
    return task / (task + overhead)


def shortest_task(overhead: float, share: float) -> float:
    """The shortest task of which ``share`` is work."""
    if not 0 <= share < 1:
        raise ValueError("the share must lie between 0 and 100 %, without 100 %")
    return overhead * share / (1 - share)


def makespan(tasks: int, task: float, overhead: float, slots: int = 1, serial_overhead: float = 0.0) -> float:
    """Time for all tasks on ``slots`` slots behind one controller that needs ``serial_overhead`` for each."""
    if tasks < 1 or slots < 1:
        raise ValueError("there must be at least one task and one slot")
    return max(math.ceil(tasks / slots) * (task + overhead), tasks * serial_overhead + task)
