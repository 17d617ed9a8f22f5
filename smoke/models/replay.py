"""How soon a workload can be over at best.

Nobody can give away more than C GPUs at a time. Whatever arrives at or after the moment t has its work, GPUs times
run time, still before it at t; so the end is not before t + W(t) / C, for every t. Nor is it before any job's own
arrival plus its run time. The largest of all these is a lower bound of the makespan: no scheduler is faster, and only
one that never leaves a GPU idle while work waits, with jobs that can be cut as one likes, comes to it. Whole GPUs of
whole nodes, limits, priorities and the time between two jobs make the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """A job: its arrival, all its GPUs, how long it holds them."""

    at_min: float
    gpus: int
    runs_min: float

    @property
    def gpu_min(self) -> float:
        """GPU minutes."""
        return self.gpus * self.runs_min


def shortest_min(jobs: Sequence[Work], gpus: int) -> float:
    """The lower bound of the time from the first arrival to the last end."""
    if not jobs or gpus < 1:
        raise ValueError("there must be at least one job and one GPU")
    first = min(job.at_min for job in jobs)
    bound, left = 0.0, 0.0
    for job in sorted(jobs, key=lambda one: -one.at_min):
        left += job.gpu_min
        bound = max(bound, job.at_min + left / gpus, job.at_min + job.runs_min)
    return bound - first


def longest_min(jobs: Sequence[Work]) -> float:
    """An upper bound without preemption: after the last arrival one job after the other."""
    return max(job.at_min for job in jobs) - min(job.at_min for job in jobs) + sum(job.runs_min for job in jobs)


def used_share(jobs: Sequence[Work], gpus: int, makespan_min: float) -> float:
    """Share of all GPU time up to the end that was work."""
    return sum(job.gpu_min for job in jobs) / (gpus * makespan_min)
