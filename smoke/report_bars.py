"""From records to bars: which job held which GPU of which node from when to when, what of it was lost, who waited.

Accounting knows how many GPUs a run held on its nodes, not which; each run gets the first ones free at its start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provisioning.slurmtypes import expand_hosts


@dataclass(frozen=True)
class Bar:
    """A job on one GPU, in seconds since the first submission; work after ``lost_from`` was lost."""

    job: str
    name: str
    node: str
    gpu: int
    start: float
    end: float
    lost_from: float | None = None


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
        return sum(bar.end - bar.start for bar in self.bars) / whole if whole else 0.0


def label(name: str) -> str:
    """A job's name without the numbers that only tell it from its likes."""
    return re.sub(r"(-\d+)+$", "", name)


def lost_since(run: Mapping[str, Any], notes: Iterable[Mapping[str, Any]]) -> float | None:
    """The second from which on a preempted run's work was lost: its last checkpoint, or its start."""
    if run["state"] != "PREEMPTED":
        return None
    inside: list[float] = [note["t"] for note in notes if note["job"] == run["job"] and note["event"] == "checkpoint"
              and run["start"] - 1 <= note["t"] <= run["end"] + 1]  # fmt: skip
    return max(*inside, float(run["start"]), 0.0)


def timeline(runs: Sequence[Mapping[str, Any]], notes: Sequence[Mapping[str, Any]], per_node: int) -> Timeline:
    """Bars and waits of the runs that started; times become seconds since the first submission."""
    started = sorted((run for run in runs if run["start"]), key=lambda run: (run["start"], run["job"]))
    if not started:
        return Timeline((), (), (), 0.0)
    zero = min(run["submit"] for run in started)
    last = max(max(run["start"], run["end"]) for run in started)
    free: dict[tuple[str, int], float] = {}
    bars: list[Bar] = []
    for run in started:
        hosts = expand_hosts(run["nodes"])
        end, lost = (run["end"] or last), lost_since(run, notes)
        for host in hosts:
            lanes = sorted(range(per_node), key=lambda gpu, host=host: (free.get((host, gpu), 0.0) > run["start"], gpu))  # type: ignore[misc]
            for gpu in sorted(lanes[: run["gpus"] // max(1, len(hosts))]):
                free[host, gpu] = end
                bars.append(Bar(run["job"], label(run["name"]), host, gpu, run["start"] - zero, end - zero,
                                None if lost is None else lost - zero))  # fmt: skip
    nodes = sorted({bar.node for bar in bars})
    waits = tuple(Wait(label(run["name"]), since - zero, run["start"] - zero) for run, since in _waits(started)
                  if run["start"] - since >= 1)  # fmt: skip
    return Timeline(tuple(bars), waits, tuple((node, gpu) for node in nodes for gpu in range(per_node)), last - zero)


def _waits(started: Sequence[Mapping[str, Any]]) -> Iterable[tuple[Mapping[str, Any], float]]:
    """Each run with the second from which on it waited: its submission, or the end of the job's run before."""
    before: dict[str, float] = {}
    for run in started:
        yield run, before.get(run["job"], run["submit"])
        before[run["job"]] = run["end"]
