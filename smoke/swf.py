"""Traces in the Standard Workload Format: lines of 18 numbers, ``-1`` for unknown, header lines that begin with ``;``.

Of the 18 fields six are used: the job's number (1), its submission in seconds (2), its run time (4), the processors it
got (5) or asked for (8), the time it asked for (9) and its user (12). Processors become GPUs, users become the lab's
users in the order in which they appear; think times and dependencies are not played. Jobs that never ran are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from provisioning.lab import Lab
from provisioning.load import LabInvalid, Problem
from provisioning.problems import shown
from provisioning.slurmtypes import format_time
from smoke.workload import HINT, Entry, Placed, node_gpus

FIELDS = 18
NUMBER, SUBMIT, RUN, GOT, ASKED, ASKED_S, USER = 0, 1, 3, 4, 7, 8, 11
#: Longer than any line of a trace.
MOST_CHARS = 2000


@dataclass(frozen=True)
class Trace:
    """The jobs of a trace, how many never ran, and who plays whom."""

    jobs: tuple[Placed, ...]
    skipped: int
    people: dict[int, str]


def read_swf(path: Path, lab: Lab, *, first: int = 0, processors: int = 1, partition: str = "") -> Trace:
    """The (first) jobs of a trace; so many processors are one GPU. Raises LabInvalid with all problems."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return parse_swf(lines, str(path), lab, first=first, processors=processors, partition=partition)
    except OSError as error:
        raise LabInvalid([Problem(str(path), "", f"cannot be read: {error.strerror}")], HINT) from None


def parse_swf(lines: Iterable[str], file: str, lab: Lab, *, first: int = 0, processors: int = 1,
              partition: str = "") -> Trace:  # fmt: skip
    """The same from its lines; no more of them are read than are needed."""
    problems: list[Problem] = []
    rows: list[tuple[int, list[float]]] = []
    skipped = 0
    for number, text in enumerate(lines, start=1):
        if not (words := text.split(";", 1)[0].split()):
            continue
        row = _numbers(words) if len(text) <= MOST_CHARS else None
        if row is None:
            problems.append(Problem(f"{file}:{number}", "", f"{shown(text.strip())} is not a job",
                                    f"write {FIELDS} numbers, -1 for unknown"))  # fmt: skip
            if len(problems) > 100:
                break
        elif row[RUN] <= 0:
            skipped += 1
        else:
            rows.append((number, row))
            problems += _missing(row, f"{file}:{number}")
        if first and len(rows) >= first:
            break
    if not rows and not problems:
        problems.append(Problem(file, "", "there is no job that ran", f"write {FIELDS} numbers a line"))
    if problems:
        raise LabInvalid(problems, HINT)
    return _trace(rows, skipped, lab, processors, partition)


def _numbers(words: list[str]) -> list[float] | None:
    """The fields of a line; None if they are not what they should be."""
    try:
        row = [float(word) for word in words]
    except ValueError:
        return None
    fine = len(row) == FIELDS and all(math.isfinite(one) and abs(one) < 1e9 for one in row)
    return row if fine else None


def _missing(row: list[float], where: str) -> Iterable[Problem]:
    if row[SUBMIT] < 0:
        yield Problem(where, "field 2", f"{row[SUBMIT]:g} is not a time of submission", "write seconds from the start")
    if max(row[GOT], row[ASKED]) < 1:
        yield Problem(where, "fields 5 and 8", "the number of processors is unknown", "write it in one of them")


def _trace(rows: list[tuple[int, list[float]]], skipped: int, lab: Lab, processors: int, partition: str) -> Trace:
    """Rows as jobs of the lab."""
    default = next((one for one in lab.partitions if one.default), lab.partitions[0])
    where = next((one for one in lab.partitions if one.name == partition), default)
    per_node = max(node_gpus(lab, where).values(), default=0) or 1
    zero = min(row[SUBMIT] for _, row in rows)
    numbers = dict.fromkeys(int(row[USER]) for _, row in rows)
    people = {number: lab.users[place % len(lab.users)].name for place, number in enumerate(numbers)}
    jobs = []
    for line, row in rows:
        nodes, gpus = shape(math.ceil(max(1.0, row[ASKED] if row[ASKED] >= 1 else row[GOT]) / processors), per_node)
        user, limit = int(row[USER]), _time(row[ASKED_S]) if row[ASKED_S] > 0 else ""
        jobs.append(Placed(Entry(
            name=f"u{max(user, 0)}-{row[NUMBER]:.0f}", user=people[user], at=_time(row[SUBMIT] - zero),
            runs=_time(max(1.0, row[RUN])), limit=limit, nodes=nodes, gpus=gpus,
            partition=partition), "", line))  # fmt: skip
    return Trace(tuple(jobs), skipped, people)


def shape(gpus: int, per_node: int) -> tuple[int, int]:
    """The fewest nodes that hold so many GPUs, and how many on each: evenly, thus rounded up."""
    nodes = math.ceil(gpus / per_node)
    return nodes, math.ceil(gpus / nodes)


def _time(seconds: float) -> str:
    return format_time(round(seconds))


def users_line(people: dict[int, str]) -> str:
    """Who plays whom, for people."""
    told = [f"{number} is {name}" for number, name in islice(people.items(), 8)]
    return ", ".join(told) + (f" and {len(people) - 8} more" if len(people) > 8 else "")
