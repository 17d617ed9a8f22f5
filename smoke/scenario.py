"""``python -m smoke scenario NAME``: stage a phenomenon on the running lab, measure it, and compare with the model.

A scenario is a workload, a prediction and a measurement of that one workload; see smoke/scenarios. It exits with 1 if a
measured figure lies outside its bounds, and leaves the lab as it was, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.files import write_whole
from provisioning.interrupt import heeded
from provisioning.lab import Lab
from provisioning.settings import Settings
from smoke.clock import Clock
from smoke.live import LiveQueue
from smoke.ray_runs import ray_runs
from smoke.stage import Stage
from smoke.verdict import Expectation, Prediction, compare, figure


@dataclass(frozen=True)
class Scenario:
    """One phenomenon. ``story`` says in three sentences what will be seen, ``lesson`` what it means."""

    name: str
    claims: tuple[str, ...]
    title: str
    story: str
    lesson: str
    scale_s: float
    workload: Callable[[Lab, Clock], Any]
    predict: Callable[[Lab, Any], Sequence[Prediction]]
    measure: Callable[[Stage, Any], Mapping[str, float]]
    #: Short and steady enough for every run of the tests and for CI.
    quick: bool = False


@dataclass(frozen=True)
class Report:
    """What a run of a scenario left."""

    scenario: Scenario
    expectations: tuple[Expectation, ...]
    clock: Clock
    seconds: float
    runs: tuple[dict[str, Any], ...] = ()
    notes: tuple[dict[str, Any], ...] = ()

    @property
    def ok(self) -> bool:
        """Every figure lies within its bounds."""
        return all(one.met for one in self.expectations)

    def as_dict(self) -> dict[str, Any]:
        """For programs and for the report."""
        return {
            "scenario": self.scenario.name, "claims": list(self.scenario.claims), "title": self.scenario.title,
            "story": one_line(self.scenario.story),
            "lesson": one_line(self.scenario.lesson), "ok": self.ok,
            "second_per_min": self.clock.second_per_min, "seconds": round(self.seconds, 1),
            "expectations": [one.row() for one in self.expectations],
            "runs": list(self.runs), "notes": list(self.notes),
        }  # fmt: skip


@contextmanager
def on_stage(stage: Stage, console: Console) -> Iterator[Stage]:
    """The lab for this stage alone; afterwards it is as before, also after an error or Ctrl-C."""
    with heeded():
        try:
            stage.open()
            yield stage
        finally:
            if stage.taken:
                console.print("restoring the lab")
            stage.close()


def play(scenario: Scenario, cluster: Cluster, scale_s: float | None, console: Console) -> Report:
    """Run one scenario from an empty queue to an empty queue."""
    clock = Clock(scale_s or scenario.scale_s)
    workload = scenario.workload(cluster.lab, clock)
    predictions = scenario.predict(cluster.lab, workload)
    console.print(f"\n[bold]{scenario.title}[/bold]   (a minute lasts {clock.second_per_min:g} s)")
    console.print(one_line(scenario.story), width=min(100, console.width))
    start, begun = time.monotonic(), time.time()
    with on_stage(Stage(cluster, clock, scenario.name), console) as stage:
        with LiveQueue(stage, console) as live:
            stage.say = live.say
            expectations = compare(predictions, scenario.measure(stage, workload))
        stage.cancel_all()
        runs = tuple(dataclasses.asdict(one) for one in stage.sacct()) if stage.jobs else ()
        notes = tuple(dataclasses.asdict(one) for one in stage.all_notes()) if stage.jobs else ()
        rays = tuple(run for run in ray_runs(cluster, begun) if run["start"] >= begun)
    return Report(scenario, expectations, clock, time.monotonic() - start, (*runs, *rays), notes)


def one_line(text: str) -> str:
    """A paragraph without its line breaks."""
    return " ".join(text.split())


def show(report: Report, console: Console) -> None:
    """The table and what it means."""
    table = Table(title=f"{report.scenario.name}: predicted and measured", title_justify="left")
    table.add_column("metric")
    for column in ("predicted", "measured", "bounds"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for one in report.expectations:
        said = one.prediction
        bounds = figure(said.lower) if said.lower == said.upper else f"{figure(said.lower)} to {figure(said.upper)}"
        name = f"{said.metric}, {said.unit}" if said.unit else said.metric
        table.add_row(name, figure(said.predicted), figure(one.measured), bounds, "ok" if one.met else "MISSED")
    console.print(table)
    for reason in dict.fromkeys(
        one.prediction.why for one in report.expectations if one.prediction.lower != one.prediction.upper
    ):
        console.print(f"bounds: {reason}")
    console.print(one_line(report.scenario.lesson), width=min(100, console.width))
    again = f"make scenario NAME={report.scenario.name}"
    console.print(f"{'ok' if report.ok else 'MISSED'} in {report.seconds:.0f} s; again: {again}")
    if not report.ok:
        console.print(f"if the machine is busy with other things: {again} SCALE={2 * report.clock.second_per_min:g}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``python -m smoke scenario``."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="scenarios, or all, or quick (the short ones); without a name they are listed",
    )
    parser.add_argument("--lab", help="the lab (default: LAB of the environment)")
    parser.add_argument("--scale", type=float, help="seconds that a simulated minute lasts")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, progress on standard error")


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m smoke scenario", description=__doc__)
    add_arguments(parser)
    return run(parser.parse_args(argv))


def run(args: argparse.Namespace) -> int:
    """Play the scenarios one after the other; 1 if a bound was missed, 2 if a name or the scale is wrong."""
    from smoke.scenarios import SCENARIOS

    if not args.names:
        for scenario in SCENARIOS.values():
            print(f"{scenario.name:20} {scenario.title}  [{', '.join(scenario.claims)}]")
        return 0
    groups = {"all": list(SCENARIOS), "quick": [name for name, one in SCENARIOS.items() if one.quick]}
    names = groups[args.names[0]] if len(args.names) == 1 and args.names[0] in groups else args.names
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown or (args.scale is not None and not args.scale > 0):
        what = (
            f"no scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}"
            if unknown
            else "--scale must be larger than 0"
        )
        print(f"error: {what}", file=sys.stderr)
        return 2
    settings = Settings.from_env()
    cluster = Cluster.open(dataclasses.replace(settings, lab=args.lab) if args.lab else settings)
    console = Console(stderr=args.json, highlight=False)
    reports, broken = [], []
    for name in names:
        try:
            report = play(SCENARIOS[name], cluster, args.scale, console)
        except LabError as error:
            if len(names) == 1:
                raise
            broken.append(name)
            print(f"error: {name}: {error.what}\n  next: {error.hint}", file=sys.stderr)
            continue
        show(report, console)
        keep(cluster, report)
        reports.append(report)
    if args.json:
        found = [report.as_dict() for report in reports]
        print(json.dumps(found[0] if len(names) == 1 else found, indent=2))
    if len(names) > 1:
        verdicts = [f"{one.scenario.name}: {'ok' if one.ok else 'MISSED'}" for one in reports]
        console.print(", ".join([*verdicts, *(f"{name}: broken" for name in broken)]))
    return 0 if not broken and all(report.ok for report in reports) else 1


def keep(cluster: Cluster, report: Report) -> None:
    """Keep the last result of each scenario for ``make report``."""
    folder = cluster.settings.generated / "results"
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / f"{report.scenario.name}.json", json.dumps(report.as_dict(), indent=2))
