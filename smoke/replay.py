"""``python -m smoke replay WORKLOAD``: play a workload of any jobs on the running lab, on a compressed clock.

WORKLOAD is a YAML file (smoke/workloads/hundred.yaml is an example) or a trace in the Standard Workload Format (.swf).
Jobs are real; their work is a sleep. Slurm plans with the time limits as they are written, in real minutes, while the
work behind them takes seconds: to backfill every running job looks as if it had asked for far too much time.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.lab import Lab
from provisioning.render.gres_conf import gpus_by_node
from provisioning.waiting import wait_for
from smoke.clock import Clock
from smoke.models import replay as model
from smoke.records import Record
from smoke.report_bars import timeline
from smoke.report_timeline import page
from smoke.scenario import on_stage
from smoke.slurm import FINAL, HOPELESS, let_go
from smoke.stage import COMMENT, Stage
from smoke.swf import read_swf, users_line
from smoke.verdict import figure
from smoke.workload import Job, fit, node_gpus, read_yaml

#: Real seconds that the ideal replay lasts at least, and that a job costs the scheduler and a laptop.
SHORTEST_S, JOB_S = 60.0, 0.5
#: Slurm keeps limits in real minutes: a slower clock than the real one would end jobs before their time.
SLOWEST_S = 60.0


@dataclass(frozen=True)
class Played:
    """A workload with what accounting says of it, in simulated minutes."""

    jobs: tuple[Job, ...]
    records: tuple[Record, ...]
    clock: Clock
    gpus: int

    @property
    def makespan_min(self) -> float:
        """From the first submission to the last end."""
        first, last = min(one.submit for one in self.records), max(one.end for one in self.records)
        return self.clock.sim_min(last - first)

    @property
    def preempted(self) -> list[Record]:
        """Runs that were cut short."""
        return [one for one in self.records if one.state == "PREEMPTED"]

    @property
    def held_share(self) -> float:
        """Share of the GPU time up to the end that jobs held, lost work too."""
        held_s = sum((one.end - one.start) * one.gpus for one in self.records if one.start)
        return self.clock.sim_min(held_s) / (self.gpus * self.makespan_min)

    def last_states(self) -> dict[str, int]:
        """How many jobs ended how."""
        last = {one.job: one.state for one in self.records}
        return {state: list(last.values()).count(state) for state in sorted(set(last.values()))}

    def figures(self) -> list[tuple[str, str, float, float]]:
        """Metric, unit, the ideal and what was measured."""
        work = [job.work for job in self.jobs]
        ideal = model.shortest_min(work, self.gpus)
        return [
            ("makespan", "min", ideal, self.makespan_min),
            ("GPU time used for work that lasts", "%", 100 * model.used_share(work, self.gpus, ideal),
             100 * model.used_share(work, self.gpus, self.makespan_min)),
            ("GPU time held", "%", 100 * model.used_share(work, self.gpus, ideal), 100 * self.held_share),
            ("preemptions", "", 0, len(self.preempted)),
            ("mean wait", "min", 0, fmean(self.waits_min().values())),
        ]  # fmt: skip

    def waits_min(self) -> dict[str, float]:
        """From the submission to the first start, by the job's name."""
        first: dict[str, Record] = {}
        for one in self.records:
            if one.start:
                first.setdefault(one.name, one)
        return {name: self.clock.sim_min(one.start - one.submit) for name, one in first.items()}

    def groups(self) -> list[tuple[str, int, float, float, int]]:
        """Of each QOS and user: jobs, mean and longest wait, preemptions."""
        waits, cut = self.waits_min(), [one.name for one in self.preempted]
        found: dict[str, list[str]] = defaultdict(list)
        for job in self.jobs:
            found[f"QOS {job.qos}"].append(job.name)
        for job in self.jobs:
            found[f"user {job.user}"].append(job.name)
        rows = []
        for group in sorted(found):
            names = [name for name in found[group] if name in waits]
            of_it = [waits[name] for name in names] or [math.nan]
            rows.append((group, len(names), fmean(of_it), max(of_it), sum(name in names for name in cut)))
        return rows


FIGURES = ("figure", "ideal", "measured")
Rows = list[tuple[str, ...]]
GROUPS = ("of", "jobs", "mean wait, min", "longest wait, min", "preemptions")


def cells(played: Played) -> tuple[Rows, Rows]:
    """Both tables as people read them."""
    figures: Rows = [(f"{name}, {unit}" if unit else name, figure(ideal), figure(seen))
               for name, unit, ideal, seen in played.figures()]  # fmt: skip
    groups: Rows = [(group, str(count), figure(mean), figure(most), str(cut))
              for group, count, mean, most, cut in played.groups()]  # fmt: skip
    return figures, groups


def show(played: Played, console: Console) -> None:
    """The tables on the terminal."""
    for head, rows in zip((FIGURES, GROUPS), cells(played), strict=True):
        table = Table()
        for number, column in enumerate(head):
            table.add_column(column, justify="right" if number else "left")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    console.print("ideal: GPU minutes over GPUs, as if jobs could be cut and no node ever stood empty", highlight=False)
    console.print(", ".join(f"{count} {state}" for state, count in played.last_states().items()))


def html_tables(played: Played) -> str:
    """The tables for the page."""
    parts = []
    for head, rows in zip((FIGURES, GROUPS), cells(played), strict=True):
        top = "".join(f"<th>{escape(one)}</th>" for one in head)
        body = "".join(f"<tr><td>{escape(name)}</td>" + "".join(f"<td class=number>{one}</td>" for one in numbers)
                       + "</tr>" for name, *numbers in rows)  # fmt: skip
        parts.append(f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>")
    return "".join(parts)


def all_gpus(lab: Lab, jobs: Iterable[Job]) -> int:
    """GPUs of the nodes that the workload's partitions have."""
    names = {job.partition for job in jobs}
    found: dict[str, int] = {}
    for partition in lab.partitions:
        if partition.name in names:
            found |= node_gpus(lab, partition)
    return sum(found.values())


def command(job: Job, clock: Clock) -> str:
    """The sbatch command of one job: Slurm's limit is the written one, the work is on the compressed clock."""
    gres = [f"--gres=gpu:{job.gpus}"] if job.gpus else []
    sleep = f"exec sleep {clock.real_s(job.work.runs_min):.3f}"
    return shlex.join(["sbatch", "--parsable", f"--job-name={job.name}", f"--comment={COMMENT}", "--output=/dev/null",
                       f"--account={job.account}", f"--partition={job.partition}", f"--qos={job.qos}",
                       f"--nodes={job.nodes}", f"--time={job.limit_min}", "--ntasks-per-node=1", "--cpus-per-task=1",
                       "--mem=50M", *gres, "--requeue", "--wrap", sleep])  # fmt: skip


def play(cluster: Cluster, jobs: Sequence[Job], clock: Clock, console: Console) -> Played:
    """Submit every job at its time, wait until all are over, and read the records."""
    bound_s = clock.real_s(model.longest_min([job.work for job in jobs])) + 2 * len(jobs) + 120
    with on_stage(Stage(cluster, clock, "replay"), console) as stage:
        _submit(stage, jobs, console)
        _wait_over(stage, bound_s, console)
        records = stage.wait_over(*stage.jobs, timeout_s=60)
    return Played(tuple(jobs), tuple(records), clock, all_gpus(cluster.lab, jobs))


def _submit(stage: Stage, jobs: Sequence[Job], console: Console) -> None:
    """What is due goes in one call for each user; a machine that is behind has larger ones."""
    left, zero, told = list(jobs), time.time(), 0.0
    while left:
        stage.sleep_until(zero + stage.clock.real_s(left[0].at_min))
        now_min = stage.clock.sim_min(time.time() - zero)
        due = [job for job in left if job.at_min <= now_min + 1e-9] or left[:1]
        left = left[len(due) :]
        for user in dict.fromkeys(job.user for job in due):
            stage.submit(user, *(command(job, stage.clock) for job in due if job.user == user))
        _let_go(stage)
        if time.time() - told > 5:
            told = time.time()
            console.print(f"{now_min:5.0f} min: {len(jobs) - len(left)} of {len(jobs)} submitted")


def _let_go(stage: Stage) -> list[tuple[str, str, str]]:
    """Number, state and reason of the jobs that are not over. A preempted job need not wait for real minutes.

    24.11 holds a requeued job back for two minutes, which are hours here: the operator lets it go.
    """
    rows = stage.operator("squeue", "--noheader", "--format=%A|%k|%T|%r").stdout.splitlines()
    fields = (row.split("|") for row in rows)
    mine = [(job, state, reason) for job, comment, state, reason in fields
            if comment == COMMENT and state not in FINAL]  # fmt: skip
    for job, _, reason in mine:
        if reason == "BeginTime":
            # too early while its last run is still being cleaned up; the next look tries again
            stage.operator(*let_go(job), check=False)
    return mine


def _wait_over(stage: Stage, bound_s: float, console: Console) -> None:
    """Until the queue is empty. Raises LabError if nothing in it will ever start."""
    told = time.monotonic()

    def left() -> list[tuple[str, str, str]]:
        nonlocal told
        rows = _let_go(stage)
        if time.monotonic() - told > 5 and rows:
            told = time.monotonic()
            console.print(f"{count(rows)}")
        return rows

    def count(rows: Sequence[tuple[str, str, str]]) -> str:
        states = [state if reason in ("None", "") else f"{state} ({reason})" for _, state, reason in rows]
        return ", ".join(f"{states.count(one)} {one}" for one in sorted(set(states)))

    def settled(rows: Sequence[tuple[str, str, str]]) -> bool:
        return all(state == "PENDING" and reason in HOPELESS for _, state, reason in rows)

    rows = wait_for("all jobs are over", left, settled, timeout_s=bound_s, interval_s=0.5, show=count,
                    look_at="squeue; make logs NODE=slurmctld")  # fmt: skip
    if rows:
        raise LabError(f"what is left will never start: {count(rows)}", "squeue names the reasons")


def read(path: Path, lab: Lab, args: argparse.Namespace, console: Console) -> tuple[Job, ...]:
    """The jobs of a file. Raises LabInvalid with everything that is wrong with it."""
    if path.suffix.lower() != ".swf":
        placed, description = read_yaml(path)
        if description:
            console.print(description, highlight=False)
        return fit(placed[: args.first or None], lab, str(path))
    trace = read_swf(path, lab, first=args.first, processors=args.processors, partition=args.partition)
    console.print(f"users of the trace: {users_line(trace.people)}; {trace.skipped} jobs never ran", highlight=False)
    return fit(trace.jobs, lab, str(path))


def choose_scale(jobs: Sequence[Job], gpus: int) -> float:
    """Seconds a minute lasts, so that the replay takes a minute or two and the scheduler can follow."""
    ideal = model.shortest_min([job.work for job in jobs], gpus)
    return min(SLOWEST_S, max(SHORTEST_S, JOB_S * len(jobs)) / ideal)


def _number(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not 0 < scale <= SLOWEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to {SLOWEST_S:g}")
    return scale


def main(argv: Sequence[str] | None = None) -> int:
    """The command; 1 if a job did not end as it should."""
    parser = argparse.ArgumentParser(prog="python -m smoke replay", description=__doc__)
    parser.add_argument("workload", type=Path, help="a .yaml file or a .swf trace")
    parser.add_argument("--scale", type=_scale, help="seconds that a simulated minute lasts")
    parser.add_argument("--first", type=_number, default=0, help="only so many jobs of the file")
    parser.add_argument("--processors", type=_number, default=1, help="processors of a trace that are one GPU")
    parser.add_argument("--partition", default="", help="the partition of a trace's jobs (default: the lab's)")
    parser.add_argument("--out", type=Path, default=Path("replay.html"), help="the page with who held which GPU")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, progress on standard error")
    args = parser.parse_args(argv)
    cluster = Cluster.open()
    lab = cluster.lab
    console = Console(stderr=args.json, highlight=False)
    jobs = read(args.workload, lab, args, console)
    gpus = all_gpus(lab, jobs)
    if not gpus:
        raise LabError(f"the partitions of the workload have no GPU in the lab {lab.name}", "LAB=default")
    clock = Clock(args.scale or choose_scale(jobs, gpus))
    ideal = model.shortest_min([job.work for job in jobs], gpus)
    console.print(f"{len(jobs)} jobs on {gpus} GPUs; a minute lasts {clock.second_per_min:.3g} s; at best "
                  f"{ideal:.0f} min = {clock.real_s(ideal):.0f} s")  # fmt: skip
    ended = sum(job.runs_min > job.limit_min for job in jobs)
    if ended:
        console.print(f"{ended} jobs run longer than their limit and end at it")
    played = play(cluster, jobs, clock, console)
    show(played, console)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(_page(played, lab, args.workload.name), encoding="utf-8")
    console.print(f"{args.out}: who held which GPU")
    if args.json:
        print(json.dumps(as_dict(played), indent=2))
    return 0 if set(played.last_states()) <= {"COMPLETED"} else 1


def _page(played: Played, lab: Lab, name: str) -> str:
    runs = [dataclasses.asdict(one) for one in played.records if one.gpus]
    return page(
        timeline(runs, [], gpus_by_node(lab)), f"Replay of {name}", played.clock.second_per_min, html_tables(played)
    )


def as_dict(played: Played) -> Mapping[str, Any]:
    """For programs."""
    return {
        "second_per_min": played.clock.second_per_min, "gpus": played.gpus, "states": played.last_states(),
        "figures": [dict(zip(("metric", "unit", "ideal", "measured"), row, strict=True)) for row in played.figures()],
        "groups": [dict(zip(("group", "jobs", "mean_wait_min", "longest_wait_min", "preemptions"), row, strict=True))
                   for row in played.groups()],
        "runs": [dataclasses.asdict(one) for one in played.records],
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
