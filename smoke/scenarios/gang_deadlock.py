"""Gang scheduling (R10): two jobs each get half of what they need, and wait for each other for ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provisioning.lab import Lab
from smoke.clock import Clock
from smoke.models import gang as model
from smoke.scenario import Scenario
from smoke.stage import Stage
from smoke.verdict import Prediction

#: Starting two actors' processes on a busy laptop.
START_S = 6.0


@dataclass(frozen=True)
class Workload:
    """Jobs A and B of two halves of the pool each; their parts arrive in turn."""

    clock: Clock
    parts: tuple[str, ...]
    half_gpus: int
    length_min: float


def workload(lab: Lab, clock: Clock) -> Workload:
    """The whole pool for each job."""
    pool = lab.ray.workers.count * lab.ray.workers.gpus
    return Workload(clock, ("A", "B", "A", "B"), pool // 2, 10)


def predict(lab: Lab, work: Workload) -> list[Prediction]:  # noqa: ARG001 - every scenario's signature
    """Both orders of placement played through."""
    alone, gang = (model.play(2, work.parts, gang=whole) for whole in (False, True))
    why = "processes of actors must start"
    one, both = work.length_min, gang.rounds * work.length_min
    start = work.clock.sim_min(START_S)
    return [
        Prediction.exact("one by one: jobs that hold a half and wait", len(alone.stuck)),
        Prediction.exact("one by one: GPUs held by them", 2 * work.half_gpus),
        Prediction.exact("one by one: jobs that end", len(alone.ended)),
        Prediction.exact("as a gang: jobs that end", len(gang.ended)),
        Prediction.exact("as a gang: GPUs held by the one that waits", 0),
        Prediction("as a gang: the second one's wait", one, one, one + start, "min", why),
        Prediction("as a gang: time for both", both, both, both + 2 * start, "min", why),
    ]  # fmt: skip


def measure(stage: Stage, work: Workload) -> Mapping[str, float]:
    """Actors of half the pool each: alone, then inside placement groups."""
    seen = stage.driver("gang_deadlock", str(work.half_gpus), str(stage.clock.real_s(work.length_min)), timeout_s=100)
    return {
        "one by one: jobs that hold a half and wait": seen["stuck"],
        "one by one: GPUs held by them": seen["held"],
        "one by one: jobs that end": seen["ended_alone"],
        "as a gang: jobs that end": seen["ended"],
        "as a gang: GPUs held by the one that waits": seen["held_by_waiting"],
        "as a gang: the second one's wait": stage.clock.sim_min(seen["wait_s"]),
        "as a gang: time for both": stage.clock.sim_min(seen["both_s"]),
    }


SCENARIO = Scenario(
    name="gang-deadlock",
    claims=("R10",),
    title="Gang: all at once, or wait for ever",
    story="""Two jobs need two halves of Ray's pool each, and their halves are placed as they come: each job gets one
    half and waits for the other's. Nothing fails, nothing ends, all GPUs are held. With a placement group
    for each job, one runs and then the other.""",
    lesson="""A deadlock of this kind makes no noise: every part looks healthy and waits. Parts that only work together
    must be asked for together: a placement group in Ray, one job of several nodes in Slurm, a pod group on
    Kubernetes.""",
    scale_s=0.5,
    workload=workload,
    predict=predict,
    measure=measure,
    quick=True,
)
