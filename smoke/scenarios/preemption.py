"""Preemption (P3, P4, P5): what a job loses, with and without checkpoints, and when it never ends."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median

from provisioning.lab import Lab
from smoke.clock import Clock
from smoke.models import preemption as model
from smoke.records import Note
from smoke.scenario import Scenario
from smoke.scenarios import machine
from smoke.slurm import let_go
from smoke.stage import Stage
from smoke.verdict import Prediction

#: The urgent job goes, then the victim's hold: let go before the node is free, it may wait for backfill's next round.
RELEASE = """
scancel {other}
for try in $(seq 80); do test -z "$(squeue --noheader --job={other} 2>/dev/null)" && break; sleep 0.05; done
for try in $(seq 40); do {let_go} && exit; sleep 0.1; done
"""


@dataclass(frozen=True)
class Case:
    """One job on a node of its own, and after how many minutes each of its runs is preempted."""

    name: str
    job: model.Job
    uptimes_min: tuple[float, ...]
    wait_min: float
    to_the_end: bool = True

    def outcome(self) -> model.Outcome:
        """What the model says."""
        return model.replay(self.job, self.uptimes_min, self.wait_min, to_the_end=self.to_the_end)


@dataclass(frozen=True)
class Workload:
    """The cases, each on its node."""

    clock: Clock
    nodes: tuple[str, ...]
    per_node: int
    cases: tuple[Case, ...]


def _uptime(progress: float, start: float, job: model.Job) -> float:
    """Minutes of a run from the progress ``start`` to ``progress``, with its checkpoints."""
    every = job.checkpoint_every_min
    return progress - start + job.checkpoint_cost_min * (progress // every - start // every)


def workload(lab: Lab, clock: Clock) -> Workload:
    """The course's 8 h job; the same without checkpoints; a 2 h job, preempted every 48 min, without and with."""
    room = machine.room(lab, nodes=4, gpus=8)
    saved = model.Job(480, 30, 2)
    halves = tuple(_uptime(at, start, saved) for at, start in ((135, 0), (255, 120), (375, 240)))
    cases = (
        Case("checkpoint", saved, halves, 40),
        Case("nothing-saved", model.Job(480), (30, 45, 60), 20),
        Case("endless", model.Job(120), (48,) * 5, 20, to_the_end=False),
        Case("endless-cured", model.Job(120, 30, 2), (48,) * 3, 20),
    )
    return Workload(clock, room.nodes, room.gpus, cases)


def predict(lab: Lab, work: Workload) -> list[Prediction]:  # noqa: ARG001 - every scenario's signature
    """The exact replay of each case; 3 % for the course's figures, more where a run is short."""
    course, lost, endless, cured = (case.outcome() for case in work.cases)
    tight = "the course's figures within 3 %; the last preemption and restart may be half a second off"
    loose = "short runs: a few requests of a third of a second each"
    slack = work.clock.sim_min(0.5) * len(work.cases[2].uptimes_min)
    longest = max(work.cases[2].uptimes_min)
    return [
        Prediction.within("checkpoint every 30 min: time in all", course.wall_min, 0.03, "min", tight),
        Prediction.within("checkpoint every 30 min: times the work", course.stretch, 0.03, "", tight),
        Prediction.within("checkpoint every 30 min: effective share", 100 * course.effective, 0.03, "%", tight),
        Prediction.exact("checkpoint every 30 min: runs recorded as PREEMPTED", len(work.cases[0].uptimes_min)),
        Prediction.exact("nothing saved: progress at each restart", 0, "min"),
        Prediction.within("nothing saved: work lost", lost.lost_min, 0.1, "min", loose),
        Prediction.within("nothing saved: time in all", lost.wall_min, 0.03, "min", tight),
        Prediction.exact("2 h job preempted every 48 min: it ends", 0),
        Prediction("2 h job preempted every 48 min: furthest progress", longest, 0.9 * longest,
                   longest + work.clock.sim_min(2.5), "min",
                   "a late answer, and a run that makes up for an early one"),
        Prediction("2 h job preempted every 48 min: burned for nothing", endless.lost_min, endless.lost_min - slack,
                   endless.lost_min + slack, "min", loose),
        Prediction.exact("the same with checkpoints: it ends", 1),
        Prediction.within("the same with checkpoints: time in all", cured.wall_min, 0.08, "min", loose),
    ]  # fmt: skip


def measure(stage: Stage, work: Workload) -> Mapping[str, float]:
    """All cases at the same time, one on each node."""
    high, low, user, account = machine.preempting(stage.cluster.lab)
    base = [f"--partition={machine.partition(stage.cluster.lab).name}", f"--account={account}", "--nodes=1",
            f"--gres=gpu:{work.per_node}", "--time=20", "--requeue"]  # fmt: skip
    placed = list(zip(work.cases, work.nodes, strict=False))
    commands = []
    for case, node in placed:
        payload = [f"--work={case.job.work_min}"]
        if case.job.checkpoints:
            payload += [f"--checkpoint-every={case.job.checkpoint_every_min}",
                        f"--checkpoint-cost={case.job.checkpoint_cost_min}",
                        f"--state={stage.folder}/{case.name}.json"]  # fmt: skip
        commands.append(stage.command(case.name, [*base, f"--qos={low.name}", f"--nodelist={node}"], payload))
    asked = time.time()
    jobs = stage.submit(user, *commands)
    first_s = stage.wait_note(work.cases[0].name, "start").t - asked
    stops, starts = Lead(first_s), Lead(first_s)
    urgent = [*base, f"--qos={high.name}"]
    notes = stage.parallel(*(partial(_play, stage, case, job, user, [*urgent, f"--nodelist={node}"], stops, starts)
                             for (case, node), job in zip(placed, jobs, strict=True)))  # fmt: skip
    records = stage.wait_over(jobs[0])
    course, lost, endless, cured = notes
    minutes = stage.clock.sim_min
    wall = minutes(course[-1].t - course[0].t)
    ends = [note for note in endless if note.event == "stopped"]
    return {
        "checkpoint every 30 min: time in all": wall,
        "checkpoint every 30 min: times the work": wall / work.cases[0].job.work_min,
        "checkpoint every 30 min: effective share": 100 * work.cases[0].job.work_min / minutes(_burned_s(course)),
        "checkpoint every 30 min: runs recorded as PREEMPTED": sum(one.state == "PREEMPTED" for one in records),
        "nothing saved: progress at each restart": max(note.progress for note in lost if note.event == "start"),
        "nothing saved: work lost": sum(note.progress for note in lost if note.event == "stopped"),
        "nothing saved: time in all": minutes(lost[-1].t - lost[0].t),
        "2 h job preempted every 48 min: it ends": any(note.event == "end" for note in endless),
        "2 h job preempted every 48 min: furthest progress": max(note.progress for note in ends),
        "2 h job preempted every 48 min: burned for nothing": minutes(_burned_s(endless)),
        "the same with checkpoints: it ends": cured[-1].event == "end",
        "the same with checkpoints: time in all": minutes(cured[-1].t - cured[0].t),
    }


def _burned_s(notes: list[Note]) -> float:
    """Seconds between each start and the end of that run."""
    begun = [note.t for note in notes if note.event == "start"]
    over = [note.t for note in notes if note.event in ("stopped", "end")]
    return sum(end - start for start, end in zip(begun, over, strict=False))


class Lead:
    """Seconds from a request to its effect: what a case's own took; before its first the quickest of the others, which
    was alone."""

    def __init__(self, first_s: float) -> None:
        """``first_s`` is what counts until one was made."""
        self._first_s = first_s
        self._seen: list[tuple[str, float]] = []

    def saw(self, case: str, took_s: float) -> None:
        """One more request."""
        self._seen.append((case, took_s))

    def of(self, case: str) -> float:
        """What the case's next one will take."""
        own = [took_s for one, took_s in self._seen if one == case]
        return median(own or [min((took_s for _, took_s in self._seen), default=self._first_s)])


def _play(
    stage: Stage, case: Case, job: str, user: str, urgent: list[str], stops: Lead, starts: Lead
) -> list[Note]:  # fmt: skip
    """Preempt a job after each of its uptimes by an urgent job on its node, and let it run again after the wait.

    24.11 holds a requeued job back for two minutes; an operator lets it go when the urgent job has gone. Each request
    is made so much early as those before took; by what a wait was too long, the next one is shorter, and so a run;
    but not one with checkpoints, which loses it all if it is too short for the first.
    """
    run_over_s = wait_over_s = 0.0
    for number, uptime in enumerate(case.uptimes_min, start=1):
        begun = stage.wait_note(case.name, "start", count=number)
        due = begun.t + stage.clock.real_s(uptime) - run_over_s
        stage.sleep_until(due - stops.of(case.name))
        asked = time.time()
        [other] = stage.submit(user, stage.command(f"urgent-{job}-{number}", urgent, ["--work=1000000"]))
        stopped = stage.wait_note(case.name, "stopped", "end", count=number)
        if stopped.event == "end":
            stage.operator("scancel", other)
            return stage.notes(case.name)
        stops.saw(case.name, stopped.t - asked)
        run_over_s = 0.0 if case.job.checkpoints else stopped.t - due
        due = stopped.t + stage.clock.real_s(case.wait_min) - wait_over_s
        stage.sleep_until(due - starts.of(case.name))
        asked = time.time()
        stage.operator("sh", "-c", RELEASE.format(other=other, let_go=shlex.join(let_go(job))))
        again = stage.wait_note(case.name, "start", count=number + 1)
        starts.saw(case.name, again.t - asked)
        wait_over_s = again.t - due
    if not case.to_the_end:
        stage.operator("scancel", job)
    else:
        stage.wait_note(case.name, "end", timeout_s=stage.clock.real_s(case.job.work_min) * 1.2 + 30)
    return stage.notes(case.name)


SCENARIO = Scenario(
    name="preemption",
    claims=("P3", "P4", "P5"),
    title="Preemption: what a checkpoint is worth",
    story="""An 8 h job is preempted three times: with a checkpoint every 30 min it takes 677 min, without it starts
    from 0 each time. A 2 h job that is preempted every 48 min never ends at all. The same job with
    checkpoints ends.""",
    lesson="""Without a checkpoint a preemption costs everything since the start, with one at most an interval. A
    preempted job's price is the checkpoints it writes, half an interval each time, and the wait in the
    queue. If preemptions come more often than the job is long and nothing is saved, it burns GPU time for
    ever: saving is then not an optimisation but the only way to end.""",
    scale_s=0.12,
    workload=workload,
    predict=predict,
    measure=measure,
)
