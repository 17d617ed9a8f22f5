"""Cures for fragmentation: how long a gang waits while small jobs keep coming.

A gang wants ``gang_nodes`` whole nodes. Small jobs hold a few GPUs of each node and more arrive all the while. The
line is played event by event: at each arrival and each end, whoever is first in line and fits starts, a small job on
the first node with room. What differs between the cures is who stands where:

* nobody keeps a place for the gang: every small job goes before it, and it starts in the first moment in which so many
  nodes happen to be empty, at the latest when no more small jobs come;
* the gang stands in its place, and small jobs may pass it on nodes that are not ``kept`` for it. Backfill keeps the
  nodes that are empty first by the running jobs' time limits. It lets a small job onto them all the same if that is
  over, by its own limit, before the gang's planned start: whoever asks for an hour and needs a minute moves the
  planned start away, and opens the gap for all who come later (``reserved``);
* draining keeps nodes by hand; a partition of their own binds small jobs to other nodes for ever; ``whole`` gives each
  small job a node for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Small:
    """A small job on one node: arrival, GPUs, run time."""

    at_min: float
    gpus: int
    runs_min: float


@dataclass(frozen=True)
class Gang:
    """The large job: arrival, and how many whole nodes."""

    at_min: float
    nodes: int


@dataclass(frozen=True)
class Cure:
    """What is done: does the gang stand before later arrivals, what is kept for it, where may small jobs go."""

    in_line: bool = True
    kept: tuple[int, ...] = ()
    small_on: tuple[int, ...] | None = None
    whole: bool = False


def reserved(limits_min: Sequence[float], gang_nodes: int, small_limit_min: float) -> tuple[int, ...]:
    """Nodes that backfill keeps for the gang, by the limits of what runs on each; none if small jobs fit before it.

    A small job that ends exactly at the planned start counts as in its way.
    """
    first = sorted(range(len(limits_min)), key=lambda node: limits_min[node])[:gang_nodes]
    start = max(limits_min[node] for node in first)
    return tuple(sorted(first)) if small_limit_min >= start else ()


@dataclass
class _Room:
    """Free GPUs of each node, and who gives some back when."""

    per_node: int
    free: list[int]
    ends: list[tuple[float, int, int]] = field(default_factory=list)

    def give_back(self, now: float) -> None:
        for end, node, gpus in [one for one in self.ends if one[0] <= now]:
            self.free[node] += gpus
            self.ends.remove((end, node, gpus))

    def start(self, job: Small, cure: Cure, closed: Sequence[int], now: float, late_min: float) -> bool:
        """Put a small job on the first node with room."""
        gpus = self.per_node if cure.whole else job.gpus
        nodes = range(len(self.free)) if cure.small_on is None else cure.small_on
        for node in nodes:
            if node not in closed and self.free[node] >= gpus:
                self.free[node] -= gpus
                self.ends.append((now + late_min + job.runs_min, node, gpus))
                return True
        return False


def gang_start(nodes: int, per_node: int, small: Sequence[Small], gang: Gang, cure: Cure,
               late_min: float = 0.0) -> float:  # fmt: skip
    """When the gang starts; each start of a small job comes ``late_min`` after the event that allows it."""
    if gang.nodes > nodes:
        raise ValueError(f"a gang of {gang.nodes} nodes never starts on {nodes}")
    room = _Room(per_node, [per_node] * nodes)
    line = sorted(small, key=lambda job: job.at_min)
    events = {gang.at_min, *(job.at_min for job in small)}
    while events:
        now = min(events)
        room.give_back(now)
        waits = now >= gang.at_min
        closed = cure.kept if waits else ()
        before = [job for job in line if job.at_min <= now and (not cure.in_line or job.at_min <= gang.at_min)]
        line = [job for job in line if not (job in before and room.start(job, cure, closed, now, late_min))]
        if waits and sum(one == per_node for one in room.free) >= gang.nodes:
            return now
        behind = [job for job in line if job.at_min <= now and job not in before]
        line = [job for job in line if not (job in behind and room.start(job, cure, closed, now, late_min))]
        events = {one for one in events if one > now} | {end for end, _, _ in room.ends}
    raise ValueError("the gang never starts")
