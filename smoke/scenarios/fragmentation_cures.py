"""Cures for fragmentation (P2): the same small jobs keep coming, and a gang waits for two whole nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from provisioning.lab import Lab, Partition
from provisioning.waiting import wait_for
from smoke import quanta
from smoke.clock import Clock
from smoke.models import cures as model
from smoke.scenario import Scenario
from smoke.scenarios import machine
from smoke.stage import Stage
from smoke.verdict import Prediction

#: Partitions that exist only while the scenario runs.
SMALL, LARGE = "scenario-small", "scenario-large"
#: Slurm's minutes: limits that tell the first jobs apart, one that everybody takes to be safe, and a later job's.
HONEST_MIN, PADDED_MIN, LATER_MIN = (1, 1, 2, 2), (60, 60, 60, 60), 4
PADDED, HONEST = "backfill, padded limits", "backfill, honest limits"


@dataclass(frozen=True)
class Case:
    """One way to treat the gang, and the same for the model."""

    name: str
    cure: model.Cure
    limits_min: tuple[int, ...]
    partitions: bool = False
    drain: bool = False


@dataclass(frozen=True)
class Workload:
    """Four small jobs that hold 5, 6, 6 and 7 of 8 GPUs, the gang, and eight more small ones behind it."""

    clock: Clock
    nodes: tuple[str, ...]
    per_node: int
    first: tuple[model.Small, ...]
    later: tuple[model.Small, ...]
    gang: model.Gang
    later_limit_min: int
    cases: tuple[Case, ...]


def workload(lab: Lab, clock: Clock) -> Workload:
    """The later jobs are long enough that no two nodes are empty by chance."""
    room = machine.room(lab, nodes=4, gpus=8)
    shape = zip((5, 6, 6, 7), (30, 70, 110, 150), strict=True)
    first = tuple(model.Small(0, gpus, runs) for gpus, runs in shape)
    later = tuple(model.Small(at, 4, 130) for at in (15, 25, 35, 45) for _ in range(2))
    gang = model.Gang(10, 2)

    # limits are real minutes: a slower clock asks for longer ones
    factor = math.ceil(clock.real_s(max(job.runs_min for job in first)) / 60 / max(HONEST_MIN))
    honest, padded = (tuple(factor * limit for limit in limits) for limits in (HONEST_MIN, PADDED_MIN))
    cases = (
        Case("nothing", model.Cure(in_line=False), padded),
        Case("a partition for each", model.Cure(in_line=False, small_on=(2, 3)), padded, partitions=True),
        Case(PADDED, model.Cure(), padded),
        Case(HONEST, model.Cure(), honest),
        Case("--exclusive, honest limits", model.Cure(whole=True), honest),
        Case("two nodes drained", model.Cure(drained=(0, 1)), padded, drain=True),
    )
    return Workload(clock, room.nodes, room.gpus, first, later, gang, factor * LATER_MIN, cases)


def predict(lab: Lab, work: Workload) -> list[Prediction]:
    """The line played event by event, once without and once with the scheduler's delays."""
    late = work.clock.sim_min(quanta.start_s(staged(lab, work)))
    why = "each start waits for a pass of the scheduler, and a few seconds are much on this clock"

    def wait(case: Case, late_min: float) -> float:
        asked = [*zip(work.first, case.limits_min, strict=True), *((job, work.later_limit_min) for job in work.later)]
        small = [replace(job, limit_min=work.clock.sim_min(60 * limit)) for job, limit in asked]
        start = model.gang_start(len(work.nodes), work.per_node, small, work.gang, case.cure, late_min)
        return start - work.gang.at_min

    by_name = {case.name: case for case in work.cases}
    saved = wait(by_name[PADDED], 0) - wait(by_name[HONEST], 0)
    return [
        *(Prediction(f"{case.name}: the gang's wait", wait(case, 0), max(0, wait(case, 0) - work.clock.sim_min(1)),
                     wait(case, late) + late, "min", why) for case in work.cases),
        Prediction("honest limits instead of padded ones save the gang", saved, min(saved, late / 3), saved + 2 * late,
                   "min", why),
    ]  # fmt: skip


def staged(lab: Lab, work: Workload) -> Lab:
    """The lab with a partition for small jobs and one for large ones beside its own, and a quicker backfill."""
    half = len(work.nodes) // 2
    extra = (
        Partition(name=LARGE, nodes=",".join(work.nodes[:half]), max_time="1-00:00:00"),
        Partition(name=SMALL, nodes=",".join(work.nodes[half:]), max_time="1-00:00:00"),
    )
    # on this clock two seconds are twenty minutes: backfill looks as often as it can
    parameters = {**lab.slurm.scheduler_parameters, "bf_interval": "1"}
    slurm = replace(lab.slurm, scheduler_parameters=parameters)
    return replace(lab, slurm=slurm, partitions=(*lab.partitions, *extra))


def measure(stage: Stage, work: Workload) -> Mapping[str, float]:
    """One case after the other; each ends when its gang has started."""
    stage.reshape(staged(stage.cluster.lab, work))
    waits = {case.name: _play(stage, work, case, number) for number, case in enumerate(work.cases)}
    return {
        **{f"{name}: the gang's wait": wait for name, wait in waits.items()},
        "honest limits instead of padded ones save the gang": waits[PADDED] - waits[HONEST],
    }


def _play(stage: Stage, work: Workload, case: Case, number: int) -> float:
    """Minutes from the gang's submission to its first line."""
    stage.say(case.name)
    user = stage.user()
    account = next(word for word in machine.options(stage.cluster.lab, user, 0) if word.startswith("--account="))
    usual = machine.partition(stage.cluster.lab).name

    def options(gpus: int, limit_min: int, partition: str, *more: str) -> list[str]:
        where = partition if case.partitions else usual
        return [f"--partition={where}", account, f"--time={limit_min}", f"--gres=gpu:{gpus}", *more]

    def small(name: str, job: model.Small, limit_min: int) -> str:
        more = ["--nodes=1", *(["--exclusive"] if case.cure.whole else [])]
        return stage.command(f"{number}-{name}", options(job.gpus, limit_min, SMALL, *more), [f"--work={job.runs_min}"])

    stage.submit(user, *(small(f"first-{place}", job, limit) for place, (job, limit) in
                         enumerate(zip(work.first, case.limits_min, strict=True))))  # fmt: skip
    zero = stage.wait_note(f"{number}-first-0", "start").t
    stage.sleep_until(zero + stage.clock.real_s(work.gang.at_min))
    behind = [] if case.cure.in_line else ["--nice=100000"]
    gang = options(work.per_node, 10, LARGE, f"--nodes={work.gang.nodes}", *behind)
    asked = time.time()
    stage.submit(user, stage.command(f"{number}-gang", gang, ["--work=1000"]))
    kept = [work.nodes[place] for place in case.cure.drained] if case.drain else []
    if kept:
        stage.undo("drained nodes", lambda: _resume(stage, kept))
        stage.operator("scontrol", "update", f"nodename={','.join(kept)}", "state=drain", "reason=kept for the gang")
    for at in sorted({job.at_min for job in work.later}):
        stage.sleep_until(zero + stage.clock.real_s(at))
        due = [(place, job) for place, job in enumerate(work.later) if job.at_min == at]
        stage.submit(user, *(small(f"later-{place}", job, work.later_limit_min) for place, job in due))
    if kept:
        wait_for(f"{', '.join(kept)} are empty", lambda: _states(stage, kept), lambda seen: set(seen) == {"drained"},
                 timeout_s=60, interval_s=0.1, show=", ".join, look_at="sinfo")  # fmt: skip
        _resume(stage, kept)
    started = stage.wait_note(f"{number}-gang", "start", timeout_s=90).t
    stage.cancel_all()
    return stage.clock.sim_min(started - asked)


def _states(stage: Stage, nodes: list[str]) -> list[str]:
    """States of nodes, in sinfo's long words."""
    return stage.operator("sinfo", "--noheader", "--Node", f"--nodes={','.join(nodes)}", "--format=%T").stdout.split()


def _resume(stage: Stage, nodes: list[str]) -> None:
    """End the drain, if it has not been ended."""
    if any(state.startswith("drain") for state in _states(stage, nodes)):
        stage.operator("scontrol", "update", f"nodename={','.join(nodes)}", "state=resume")


SCENARIO = Scenario(
    name="fragmentation-cures",
    claims=("P2",),
    title="Cures for fragmentation: who keeps two nodes for the large job?",
    story="""Small jobs hold a part of each of four nodes, and more keep coming. A gang that wants two whole nodes
    waits. The same arrivals are played six times: with nothing done, with partitions, with backfill and padded
    or honest time limits, with small jobs on nodes of their own, and with two nodes drained by hand.""",
    lesson="""Without a cure the gang waits until no small job comes any more. Backfill keeps nodes for it, but is only
    as good as the limits are: an hour asked for to be safe moves its planned start away, and others take the node.
    A partition for large jobs is the shortest wait and idles without them; --exclusive pays with idle GPUs; a drain
    works at once and needs a person. Honest limits cost nothing.""",
    scale_s=0.1,
    workload=workload,
    predict=predict,
    measure=measure,
)
