"""Backfill: who may pass the first in line.

Each queued job, in order of priority, gets the earliest start at which its nodes are free for its whole time limit,
and keeps it: later jobs plan around it. A job that can start now without moving anybody before it passes. Slurm's
sched/backfill does this every ``bf_interval`` seconds; it trusts time limits, not what jobs will really take. So the
first job's expected start is the moment at which, by their limits, enough running jobs have ended, and nobody who
passes may hold a needed node beyond it.

Slurm rounds planned starts down to steps of ``bf_resolution`` (slurm.conf(5): 60 s) since the epoch. Whether a job
passes whose limit nearly fills the gap thus depends on the second of the minute. ``grid_min`` is that step: with it the
plan keeps each place from the earliest moment that rounding may give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """A job: whole nodes and a time limit. For a running job the limit is what is left of it."""

    name: str
    nodes: int
    limit_min: float


def plan(nodes: int, running: Sequence[Request], queue: Sequence[Request], grid_min: float = 0.0) -> dict[str, float]:
    """The planned start, in minutes from now, of each queued job; infinity for one that never fits."""
    held: list[tuple[float, float, int]] = [(0.0, job.limit_min, job.nodes) for job in running]
    if sum(job.nodes for job in running) > nodes:
        raise ValueError("the running jobs hold more nodes than there are")
    starts: dict[str, float] = {}
    for job in queue:
        starts[job.name] = start = _earliest(nodes, held, job)
        if not math.isinf(start):
            held.append((max(0.0, start - grid_min), start + job.limit_min, job.nodes))
    return starts


def _earliest(nodes: int, held: Sequence[tuple[float, float, int]], job: Request) -> float:
    if job.nodes > nodes:
        return math.inf
    for start in sorted({0.0, *(end for _, end, _ in held)}):
        # Slurm counts a place that begins just when the job ends as in its way
        instants = {start, *(begin for begin, _, _ in held if start <= begin <= start + job.limit_min)}
        if all(sum(n for b, e, n in held if b <= t < e) + job.nodes <= nodes for t in instants):
            return start
    return math.inf


def passes(nodes: int, running: Sequence[Request], queue: Sequence[Request], grid_min: float = 0.0) -> list[str]:
    """Jobs that start now although one before them in line does not."""
    starts = plan(nodes, running, queue, grid_min)
    waiting = False
    passed = []
    for job in queue:
        if starts[job.name] > 0:
            waiting = True
        elif waiting:
            passed.append(job.name)
    return passed
