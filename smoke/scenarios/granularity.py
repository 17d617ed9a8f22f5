"""Granularity (P9): what one task costs each scheduler, and the shortest task worth handing to it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from provisioning.lab import Lab
from provisioning.waiting import wait_for
from smoke.clock import Clock
from smoke.models import granularity as model
from smoke.scenario import Scenario
from smoke.scenarios import machine
from smoke.stage import COMMENT, Stage
from smoke.verdict import Prediction

#: Seconds for one empty task on a laptop, and the range from a fast machine to a busy one.
REFERENCE_S = {"sbatch each": (0.08, 0.005, 1.0), "job array": (0.06, 0.003, 1.0), "srun steps": (0.08, 0.01, 1.0),
               "Ray tasks": (0.002, 0.0001, 0.05)}  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """How many empty tasks go to each way of submission."""

    clock: Clock
    tasks: Mapping[str, int]


def workload(lab: Lab, clock: Clock) -> Workload:  # noqa: ARG001 - every scenario's signature
    """A minute of the clock is so many seconds: twice the scale is twice the tasks."""
    scale = clock.second_per_min
    numbers = {"sbatch each": 100, "job array": 100, "srun steps": 40, "Ray tasks": 1000}
    return Workload(clock, {name: max(5, round(scale * number)) for name, number in numbers.items()})


def predict(lab: Lab, work: Workload) -> list[Prediction]:  # noqa: ARG001 - every scenario's signature
    """The cost of a task is the time for all of them over their number; nine costs make a task that is 90 % work."""
    why = "wide: it depends on the machine; the order of size is what counts"
    found = [Prediction(f"{name}: cost of a task", 1000 * ref, 1000 * low, 1000 * high, "ms", why)
             for name, (ref, low, high) in REFERENCE_S.items()]  # fmt: skip
    batch, ray = REFERENCE_S["sbatch each"][0], REFERENCE_S["Ray tasks"][0]
    return [
        *found,
        Prediction("a batch job costs as much as so many Ray tasks", batch / ray, 5, 2000, "", why),
        Prediction("shortest job of which 90 % is work", model.shortest_task(batch, 0.9), 0.05, 10, "s", why),
        Prediction("shortest Ray task of which 90 % is work", model.shortest_task(ray, 0.9), 0.001, 0.5, "s", why),
    ]


def measure(stage: Stage, work: Workload) -> Mapping[str, float]:
    """One way after the other, so that they do not share the machine."""
    cost = {
        "sbatch each": jobs_cost(stage, work.tasks["sbatch each"], array=False),
        "job array": jobs_cost(stage, work.tasks["job array"], array=True),
        "srun steps": _steps(stage, work.tasks["srun steps"]),
    }
    stage.say("Ray tasks")
    tasks = work.tasks["Ray tasks"]
    cost["Ray tasks"] = stage.driver("empty_tasks", str(tasks))["seconds"] / tasks
    return {
        **{f"{name}: cost of a task": 1000 * seconds for name, seconds in cost.items()},
        "a batch job costs as much as so many Ray tasks": cost["sbatch each"] / cost["Ray tasks"],
        "shortest job of which 90 % is work": model.shortest_task(cost["sbatch each"], 0.9),
        "shortest Ray task of which 90 % is work": model.shortest_task(cost["Ray tasks"], 0.9),
    }


def _options(stage: Stage, name: str) -> list[str]:
    user = stage.user()
    return ["sbatch", "--parsable", f"--job-name={name}", f"--comment={COMMENT}", "--output=/dev/null", "--mem=50M",
            "--cpus-per-task=1", *machine.options(stage.cluster.lab, user, 0)]  # fmt: skip


def jobs_cost(stage: Stage, count: int, *, array: bool) -> float:
    """Seconds a task, from the first submission to the last end, as each task stamps it."""
    name = "array" if array else "single"
    stamps = f"{stage.folder}/{name}.stamps"
    argv = [*_options(stage, name), *([f"--array=1-{count}"] if array else []), "--wrap", f"date +%s.%N >> {stamps}"]
    once = shlex.join(argv)
    script = once if array else f"for i in $(seq {count}); do {once}; done"
    out = stage.shell(stage.user(), f"date +%s.%N; {script}", timeout_s=60 + count)
    begun, *jobs = out.split()
    stage.jobs += [job.split(";")[0] for job in jobs]
    return (_last_stamp(stage, stamps, count) - float(begun)) / count


def _steps(stage: Stage, count: int) -> float:
    """Seconds a step, one after the other inside one allocation."""
    stamps = f"{stage.folder}/steps.stamps"
    steps = f"for i in $(seq {count}); do srun --ntasks=1 true; done"
    argv = [*_options(stage, "steps"), "--wrap", f"date +%s.%N > {stamps}; {steps}; date +%s.%N >> {stamps}"]
    stage.submit(stage.user(), shlex.join(argv))
    last = _last_stamp(stage, stamps, 2)
    return (last - float(stage.cluster.exec("login", ["head", "-1", stamps]).stdout)) / count


def _last_stamp(stage: Stage, path: str, count: int) -> float:
    """The latest of ``count`` time stamps, when all are there."""

    def stamps() -> list[float]:
        return [float(word) for word in stage.cluster.exec("login", ["cat", path], check=False).stdout.split()]

    seen: list[float] = wait_for(f"{count} tasks", stamps, lambda seen: len(seen) >= count, timeout_s=60 + count,
                                 show=lambda seen: f"{len(seen)} done", look_at="squeue")  # fmt: skip
    return max(seen)


SCENARIO = Scenario(
    name="granularity",
    claims=("P9",),
    title="Granularity: what a task costs before it does anything",
    story="""Empty tasks go to the schedulers in four ways: a batch job each, one job array, steps inside one
    allocation, and Ray tasks. The time for all of them over their number is the cost of one. From it follows
    the shortest task that is worth handing over in that way.""",
    lesson="""A batch scheduler writes every job to disk, into accounting and to a node: it pays for what lives long
    and must be kept. A task of less than a second drowns in that. Put many small ones into one allocation,
    and hand them out by Ray or inside your program; a task that is shorter than the mean wait in the queue
    should not be a job at all.""",
    scale_s=1.0,
    workload=workload,
    predict=predict,
    measure=measure,
)
