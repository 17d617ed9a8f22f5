"""From records to bars: which job held which GPU of which node from when to when, what of it was lost, who waited.

Accounting knows how many GPUs a run held on its nodes, not which; each run gets the first ones free at its start. A Ray
task may hold a part of one: parts that fit lie on one GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provisioning.slurmtypes import expand_hosts

#: What sums of fractions may be off by.
TINY = 1e-9


@dataclass(frozen=True)
class Bar:
    """A job on one GPU, in seconds since the first submission; work after ``lost_from`` was lost.

    It holds the part ``share`` of the GPU, from ``level`` on: all of it, from 0, but for fractions.
    """

    job: str
    name: str
    node: str
    gpu: int
    start: float
    end: float
    lost_from: float | None = None
    share: float = 1.0
    level: float = 0.0


@dataclass(frozen=True)
class Wait:
    """A job in the queue."""

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """What a chart shows."""

    bars: tuple[Bar, ...]
    waits: tuple[Wait, ...]
    lanes: tuple[tuple[str, int], ...]
    end: float

    @property
    def utilization(self) -> float:
        """Held GPU time over that of the lanes that are shown."""
        whole = len(self.lanes) * self.end
        return sum((bar.end - bar.start) * bar.share for bar in self.bars) / whole if whole else 0.0


def label(name: str) -> str:
    """A job's name without the numbers that only tell it from its likes."""
    return re.sub(r"(-\d+)+$", "", name)


def lost_since(run: Mapping[str, Any], notes: Iterable[Mapping[str, Any]]) -> float | None:
    """The second from which on a run's work was lost, if others ended it: its last checkpoint, or its start.

    Of Ray's tasks, those that failed: Ray does not say whose fault it was.
    """
    if run["state"] not in ("PREEMPTED", "NODE_FAIL") and (run["state"], run["user"]) != ("FAILED", "ray"):
        return None
    inside: list[float] = [note["t"] for note in notes if note["job"] == run["job"] and note["event"] == "checkpoint"
              and run["start"] - 1 <= note["t"] <= run["end"] + 1]  # fmt: skip
    return max(*inside, float(run["start"]), 0.0)


class _Lanes:
    """The GPUs of the nodes, and what lies on each at the moment that was last asked for. Time goes on only."""

    def __init__(self, gpus: Mapping[str, int]) -> None:
        self.gpus = gpus
        #: by node and GPU: (end, level, share) of what was put there
        self.held: dict[tuple[str, int], list[tuple[float, float, float]]] = {}

    def count(self, node: str) -> int:
        """GPUs of a node; of one that the lab does not have, as many as were in use at once."""
        return self.gpus.get(node) or sum(host == node for host, _ in self.held)

    def _level(self, lane: tuple[str, int], start: float, share: float) -> float | None:
        """Where on a GPU there is room at a moment: the lowest place; None if nowhere."""
        now = self.held[lane] = [one for one in self.held.get(lane, ()) if one[0] > start]
        lowest = 0.0
        for _, level, part in sorted(now, key=lambda one: one[1]):
            if lowest + share <= level + TINY:
                break
            lowest = level + part
        return lowest if lowest + share <= 1 + TINY else None

    def place(self, node: str, start: float, end: float, share: float) -> tuple[int, float]:
        """Put a bar on the first GPU with room; return GPU and level.

        Records are whole seconds: if none has room, the one that ends first has it in truth.
        """
        count = self.count(node)
        rooms = ((gpu, self._level((node, gpu), start, share)) for gpu in range(count))
        gpu, level = next(((gpu, level) for gpu, level in rooms if level is not None), (count, 0.0))
        if count and gpu == self.gpus.get(node):
            gpu = min(range(count), key=lambda gpu: max(end for end, _, _ in self.held[node, gpu]))
        self.held.setdefault((node, gpu), []).append((end, level, share))
        return gpu, level


def timeline(
    runs: Sequence[Mapping[str, Any]], notes: Sequence[Mapping[str, Any]], gpus: Mapping[str, int]
) -> Timeline:
    """Bars and waits of the runs that started; ``gpus`` are those of each node.

    Times become seconds since the first submission.
    """
    started = sorted((run for run in runs if run["start"]), key=lambda run: (run["start"], run["job"]))
    if not started:
        return Timeline((), (), (), 0.0)
    zero = min(run["submit"] for run in started)
    last = max(max(run["start"], run["end"]) for run in started)
    lanes, bars = _Lanes(gpus), []
    for run in started:
        hosts = expand_hosts(run["nodes"])
        end, lost = (run["end"] or last), lost_since(run, notes)
        each = run["gpus"] / max(1, len(hosts))
        for host in hosts:
            for share in [1.0] * int(each) if each >= 1 else [each] * bool(each):
                gpu, level = lanes.place(host, run["start"], end, share)
                bars.append(Bar(run["job"], label(run["name"]), host, gpu, run["start"] - zero, end - zero,
                                None if lost is None else lost - zero, share, level))  # fmt: skip
    nodes = sorted({bar.node for bar in bars})
    waits = tuple(Wait(label(run["name"]), since - zero, run["start"] - zero) for run, since in _waits(started)
                  if run["start"] - since >= 1)  # fmt: skip
    shown = tuple((node, gpu) for node in nodes for gpu in range(lanes.count(node)))
    return Timeline(tuple(bars), waits, shown, last - zero)


def _waits(started: Sequence[Mapping[str, Any]]) -> Iterable[tuple[Mapping[str, Any], float]]:
    """Each run with the second from which on it waited: its submission, or the end of the job's run before."""
    before: dict[str, float] = {}
    for run in started:
        yield run, before.get(run["job"], run["submit"])
        before[run["job"]] = run["end"]
