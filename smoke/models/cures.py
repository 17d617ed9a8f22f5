"""Cures for fragmentation: how long a gang waits while small jobs keep coming.

A gang wants some whole nodes. Small jobs hold a few GPUs of each node, and more arrive all the while. The line is
played event by event: at each arrival and each end, whoever is first in line and fits starts, a small job on the first
node with room. What differs between the cures is who stands where:

* nobody keeps a place for the gang: every small job goes before it, and it starts in the first moment in which so many
  nodes happen to be empty, at the latest when no more small jobs come;
* the gang stands in its place and backfill keeps nodes for it. A node is empty, as far as backfill knows, when the
  time limits of all that runs on it are over; kept are the nodes of which this is soonest, and the gang's planned start
  is the latest of them. A small job may pass on the others, and on a kept one if by its own limit it is over before
  the planned start. Who asks for an hour and needs a minute moves that start away, and others take the node meanwhile;
* drained nodes take no small job from the gang's arrival on, and the gang when they are empty;
* a partition binds small jobs to other nodes for ever; ``whole`` gives each small job a node for itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Small:
    """A small job on one node: arrival, GPUs, run time, and the time limit it asked for."""

    at_min: float
    gpus: int
    runs_min: float
    limit_min: float = math.inf


@dataclass(frozen=True)
class Gang:
    """The large job: arrival, and how many whole nodes."""

    at_min: float
    nodes: int


@dataclass(frozen=True)
class Cure:
    """What is done: does the gang stand before later arrivals, what is drained for it, where may small jobs go."""

    in_line: bool = True
    drained: tuple[int, ...] = ()
    small_on: tuple[int, ...] | None = None
    whole: bool = False


@dataclass(frozen=True)
class _Run:
    node: int
    gpus: int
    end: float
    limit: float


@dataclass
class _Room:
    """What runs where."""

    per_node: int
    nodes: int
    runs: list[_Run] = field(default_factory=list)

    def free(self, node: int) -> int:
        return self.per_node - sum(run.gpus for run in self.runs if run.node == node)

    def empty(self) -> int:
        return sum(self.free(node) == self.per_node for node in range(self.nodes))

    def kept(self, count: int, now: float) -> tuple[list[int], float]:
        """The nodes that backfill keeps for the gang, and its planned start."""
        known = [max([now, *(run.limit for run in self.runs if run.node == node)]) for node in range(self.nodes)]
        chosen = sorted(range(self.nodes), key=lambda node: known[node])[:count]
        return chosen, max(known[node] for node in chosen)

    def place(self, job: Small, cure: Cure, now: float, late_min: float, gang: Gang | None) -> bool:
        """Start a small job on the first node with room; ``gang`` is one that it must not delay."""
        gpus = self.per_node if cure.whole else job.gpus
        closed = cure.drained if now >= (gang.at_min if gang else math.inf) else ()
        kept, planned = self.kept(gang.nodes, now) if gang and not cure.drained else ([], math.inf)
        for node in range(self.nodes) if cure.small_on is None else cure.small_on:
            # a small job that ends exactly at the planned start counts as in its way
            in_its_way = node in kept and now + job.limit_min >= planned
            if node not in closed and not in_its_way and self.free(node) >= gpus:
                self.runs.append(_Run(node, gpus, now + late_min + job.runs_min, now + job.limit_min))
                return True
        return False


def gang_start(nodes: int, per_node: int, small: Sequence[Small], gang: Gang, cure: Cure,
               late_min: float = 0.0) -> float:  # fmt: skip
    """When the gang starts; each small job begins its work ``late_min`` after the event that allows it."""
    if gang.nodes > nodes:
        raise ValueError(f"a gang of {gang.nodes} nodes never starts on {nodes}")
    room = _Room(per_node, nodes)
    line = sorted(small, key=lambda job: job.at_min)
    events = {gang.at_min, *(job.at_min for job in small)}
    while events:
        now = min(events)
        room.runs = [run for run in room.runs if run.end > now]
        before = [job for job in line if job.at_min <= now and (not cure.in_line or job.at_min <= gang.at_min)]
        line = [job for job in line if job not in before or not room.place(job, cure, now, late_min, None)]
        if now >= gang.at_min and room.empty() >= gang.nodes:
            return now
        behind = [job for job in line if job.at_min <= now and job not in before]
        line = [job for job in line if job not in behind or not room.place(job, cure, now, late_min, gang)]
        events = {one for one in events if one > now} | {run.end for run in room.runs}
    raise ValueError("the gang never starts")
