"""Backfill (S8): a short job passes, a long one may not, and the first in line does not notice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from provisioning.lab import Lab
from smoke import quanta
from smoke.clock import Clock
from smoke.models import backfill as model
from smoke.scenario import Scenario
from smoke.scenarios import machine
from smoke.stage import Stage
from smoke.verdict import Prediction


@dataclass(frozen=True)
class Workload:
    """One running job, then the line; limits are Slurm's own minutes, the work behind them takes seconds."""

    clock: Clock
    nodes: tuple[str, ...]
    per_node: int
    running: model.Request
    queue: tuple[model.Request, ...]
    work_s: Mapping[str, float]


def workload(lab: Lab, clock: Clock) -> Workload:
    """Three of four nodes are taken for some minutes; the first in line wants all four.

    The gap is wider than the short job's limit by more than a step of backfill's grid: whatever the second of the
    minute is, the short job fits.
    """
    room = machine.room(lab, nodes=4, gpus=8)
    gap_min = 2 + math.ceil(quanta.resolution_s(lab) / 60)
    line = (model.Request("first", 4, 1), model.Request("short", 1, 1), model.Request("long", 1, gap_min + 2))
    scale = clock.second_per_min
    runs_s = quanta.backfill_s(lab) + 14 * scale
    work_s = {"runs": runs_s, "first": 5 * scale, "short": 6 * scale, "long": 3 * scale}
    return Workload(clock, room.nodes, room.gpus, model.Request("runs", 3, gap_min), line, work_s)


def predict(lab: Lab, work: Workload) -> list[Prediction]:
    """Who passes comes from the plan over time limits; when, from the backfill interval."""
    count = len(work.nodes)
    starts = model.plan(count, [work.running], work.queue)
    passes = model.passes(count, [work.running], work.queue)
    grid, interval = quanta.resolution_s(lab), quanta.backfill_s(lab)
    late = quanta.start_s(lab)
    planned = 60 * starts["first"]
    return [
        Prediction.exact("the short job starts before the first in line", "short" in passes),
        Prediction.exact("the long job starts before the first in line", "long" in passes),
        Prediction("the short job's wait", interval / 2, 0, interval, "s", "it passes at the next backfill pass"),
        Prediction("planned start of the first, after the running job's", planned, planned - 1, planned + grid, "s",
                   f"backfill plans by time limits, on a grid of {grid:.0f} s"),
        Prediction("the plan moves when the short job passes", 0, -grid, 1, "s",
                   "it may not get later; the grid may bring it forward"),
        Prediction("the first's real start, after its nodes are free", 0, -quanta.RECORD_S, late, "s",
                   "a start waits for a pass of the scheduler, and accounting has whole seconds"),
    ]  # fmt: skip


def measure(stage: Stage, work: Workload) -> Mapping[str, float]:
    """The plan of the first in line before and after the short job has passed it."""
    user, lab = stage.user(), stage.cluster.lab

    def command(job: model.Request, nice: int) -> str:
        options = [*machine.options(lab, user, work.per_node, int(job.limit_min)), f"--nodes={job.nodes}"]
        minutes = stage.clock.sim_min(work.work_s[job.name])
        return stage.command(job.name, [*options, f"--nice={nice}"], [f"--work={minutes}"])

    first, short, long = work.queue
    [runs_id] = stage.submit(user, command(work.running, 0))
    stage.wait_note("runs", "start")
    [first_id] = stage.submit(user, command(first, 0))
    before = _planned(stage, first_id, quanta.backfill_s(lab))
    short_id, long_id = stage.submit(user, command(short, 100), command(long, 200))
    stage.wait_note("short", "start", timeout_s=quanta.backfill_s(lab) + 10)
    stage.say("the short job has passed")
    after = _planned(stage, first_id, quanta.backfill_s(lab))
    rows = {one.job: one for one in stage.wait_over(runs_id, first_id, short_id, long_id, timeout_s=150)}
    runs, first_row, short_row = rows[runs_id], rows[first_id], rows[short_id]
    return {
        "the short job starts before the first in line": short_row.start < first_row.start,
        "the long job starts before the first in line": rows[long_id].start < first_row.start,
        "the short job's wait": short_row.start - short_row.submit,
        "planned start of the first, after the running job's": before - runs.start,
        "the plan moves when the short job passes": after - before,
        "the first's real start, after its nodes are free": first_row.start - max(runs.end, short_row.end),
    }


def _planned(stage: Stage, job: str, bound_s: float) -> float:
    """StartTime of a pending job, once backfill has planned it."""

    def start(text: str) -> bool:
        return text.isdigit()

    seen = stage.wait_job("has a planned start", job, lambda one: start(one.fields["StartTime"]), timeout_s=bound_s + 5)
    return float(seen.fields["StartTime"])


SCENARIO = Scenario(
    name="backfill",
    claims=("S8",),
    title="Backfill: who may pass the first in line",
    story="""Three of four nodes are taken, and the first in line wants all four. A short job passes it onto the
    fourth node, because by its time limit it will be gone in time; a long one may not. The planned start of
    the first does not get later.""",
    lesson="""Backfill trusts time limits, not what a job will really take. Who asks for one minute gets the gap, who
    asks for five 'to be safe' waits behind the whole line, although both would have been done in seconds. An
    honest --time is the cheapest way to an earlier start.""",
    scale_s=1.0,
    workload=workload,
    predict=predict,
    measure=measure,
    quick=True,
)
