"""What must hold after the faults, as pure functions: facts in, counts and problems out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from smoke.chaos.load import Submission
from smoke.records import epoch
from smoke.slurm import FINAL, Row, parse_indices

#: Two instants, in seconds since 1970.
Span = tuple[float, float]
#: slurmctld saves its queue 5 s after a change (SAVE_MAX_WAIT), and a busy machine takes a moment to write it.
SAVE_S = 7.0
#: Memory that a service may have more than before: its share of itself, and MiB; MinJobAge keeps all jobs for an hour.
GROWTH, GROWTH_MIB = 1.5, 150


@dataclass
class Settled:
    """What became of the submissions: names of jobs by verdict, and what must not be, in words."""

    ended: list[str] = field(default_factory=list)
    queued: list[str] = field(default_factory=list)
    #: accepted within SAVE_S before slurmctld was killed, and not in the queue that it had saved
    forgotten: list[str] = field(default_factory=list)
    #: ended within SAVE_S before slurmctld was killed: it took them for running, and recorded a second end
    ended_again: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def settle(jobs: Sequence[Submission], rows: Sequence[Row], states: Mapping[str, str],
           kills: Sequence[Span]) -> Settled:  # fmt: skip
    """Judge every submission by accounting's rows and what slurmctld remembers.

    ``kills`` says between which instants slurmctld was killed, in seconds since 1970.
    """
    found, by_name = Settled(), defaultdict[str, list[Row]](list)
    for row in rows:
        by_name[row["JobName"]].append(row)
    for one in jobs:
        mine = by_name.get(one.name, [])
        if one.refusal:
            if mine or one.name in states:
                found.problems.append(f"{one.name} was refused ({one.refusal}) and exists")
        elif one.job or mine or one.name in states:
            _judge(one, mine, states.get(one.name, ""), kills, found)
    found.problems += _given_twice(jobs, rows)
    return found


def _judge(one: Submission, rows: Sequence[Row], state: str, kills: Sequence[Span], found: Settled) -> None:
    ends, still_open = final(rows), [row for row in rows if not _over(row)]
    if not state and _unsaved(one.answered, kills) and len(ends) <= 1:
        found.forgotten.append(one.name)
        if still_open:
            found.problems.append(f"{one.name} was forgotten, and accounting waits for its end: {_said(rows)}")
    elif state and state not in FINAL:
        found.queued.append(one.name)
    elif len(ends) == 1:
        found.ended.append(one.name)
    elif len(ends) == 2 and _unsaved(float(ends[0]["End"]), kills):
        found.ended_again.append(one.name)
    elif ends:
        found.problems.append(f"{one.name} has {len(ends)} final records: {_said(rows)}")
    else:
        found.lost.append(one.name)
        found.problems.append(f"{one.name} (job {one.job}) is lost: slurmctld says {state or 'nothing'}, accounting "
                              f"{_said(rows) or 'nothing'}")  # fmt: skip


def _unsaved(instant: float, kills: Sequence[Span]) -> bool:
    return any(begun - SAVE_S <= instant <= done for begun, done in kills)


def final(rows: Sequence[Row]) -> list[Row]:
    """The records of ends after which the job did not go back into the queue, in order.

    COMPLETED without a start is no end: accounting has closed the record of a requeue that slurmctld has forgotten.
    """
    ordered = sorted(rows, key=lambda row: (row["Submit"], row["End"]))
    return [row for row in ordered if _state(row) in FINAL
            and not (_state(row) == "COMPLETED" and not epoch(row["Start"]))
            and not (_state(row) in ("NODE_FAIL", "PREEMPTED") and row is not ordered[-1])]  # fmt: skip


def _state(row: Row) -> str:
    return row["State"].split()[0]


def _over(row: Row) -> bool:
    return _state(row) in {*FINAL, "REQUEUED"}


def _said(rows: Sequence[Row]) -> str:
    return ", ".join(f"{row['JobID']} {row['State']}" for row in rows)


def _given_twice(jobs: Sequence[Submission], rows: Sequence[Row]) -> Iterator[str]:
    names = defaultdict[str, set[str]](set)
    for one in jobs:
        if one.job:
            names[one.job].add(one.name)
    for row in rows:
        names[row["JobID"]].add(row["JobName"])
    for job, of in names.items():
        if len(of) > 1:
            yield f"the id {job} was given to {' and '.join(sorted(of))}"


@dataclass(frozen=True)
class Run:
    """One run of a job on one node as it wrote it itself: from its first stamp to its last."""

    name: str
    node: str
    gpus: tuple[int, ...]
    first: float
    last: float
    came_to_end: bool


def runs(stamps: Mapping[str, Sequence[str]]) -> list[Run]:
    """The files of payloads/stamps.sh by name; a last line that a kill cut short does not count."""
    found = []
    for file, lines in stamps.items():
        name, _, node, *_ = file.split(".")
        said = [line.split(" ") for line in lines if line != "end"]
        whole = [words for words in said if len(words) == 2 and len(words[0].partition(".")[2]) == 6]
        if whole:
            found.append(Run(name, node, parse_indices(whole[0][1]), float(whole[0][0]), float(whole[-1][0]),
                             lines[-1] == "end"))  # fmt: skip
    return found


def ran_again(found: Collection[Run]) -> list[str]:
    """Jobs that came to their end on a node and then ran once more: slurmctld had not saved the end."""
    ends = Counter((one.name, one.node) for one in found if one.came_to_end)
    return sorted({name for (name, _), count in ends.items() if count > 1})


def overlaps(found: Collection[Run], forgotten: Collection[str] = (), kills: Sequence[Span] = ()) -> list[str]:
    """GPUs that two runs had at the same time.

    A run that slurmctld has forgotten is none of them, because it forgot the job or that it had begun: it goes on until
    its node registers, which takes seconds, and to slurmctld its GPUs are free.
    """
    held = defaultdict[tuple[str, int], list[Run]](list)
    for one in found:
        for gpu in one.gpus if one.name not in forgotten else ():
            held[one.node, gpu].append(one)
    return [f"{node} GPU {gpu}: {two.name} had it {one.last - two.first:.1f} s before {one.name} gave it back"
            for (node, gpu), those in sorted(held.items())
            for one, two in pairwise(sorted(those, key=lambda run: run.first))
            if two.first < one.last and not _unsaved(one.first, kills)]  # fmt: skip


def grown(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """Services that have more memory than they may."""
    mib = 1024**2
    return [f"{service}: {before[service] / mib:.0f} MiB before, {now / mib:.0f} MiB after"
            for service, now in after.items()
            if service in before and now > GROWTH * before[service] + GROWTH_MIB * mib]  # fmt: skip
