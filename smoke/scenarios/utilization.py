"""Utilisation (P8): a reserve for urgent work stands idle; preemption fills it, and urgent work waits less."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from provisioning.lab import Lab
from smoke.clock import Clock
from smoke.models import utilization as model
from smoke.records import Note
from smoke.scenario import Scenario
from smoke.scenarios import machine
from smoke.stage import Stage
from smoke.verdict import Prediction

#: Seconds a node stands empty between two jobs on a laptop, and that an urgent job waits for the victim to go.
EMPTY_S = 0.8
#: The same when the laptop is busy.
SLOW_S = 2.5


@dataclass(frozen=True)
class Workload:
    """Half a day of ordinary jobs without end, and two urgent ones that come together, on two nodes each."""

    clock: Clock
    nodes: tuple[str, ...]
    per_node: int
    reserve: int
    span_min: float
    low_min: float
    checkpoint_min: float
    urgent_min: float
    urgent_at_min: tuple[float, ...]


def workload(lab: Lab, clock: Clock) -> Workload:
    """Two of four nodes are the reserve; urgent work needs 40 % of it."""
    room = machine.room(lab, nodes=4, gpus=8)
    return Workload(clock, room.nodes, room.gpus, 2, 720, 240, 30, 144, (120, 130))


def predict(lab: Lab, work: Workload) -> list[Prediction]:  # noqa: ARG001 - every scenario's signature
    """With the reserve both urgent jobs run there in turn; with preemption all nodes work, less what is lost.

    On paper that is 70 % and nearly 100 %. Each start of an ordinary job costs a moment in which its node is empty.
    """
    nodes, span, urgent = len(work.nodes), work.span_min, len(work.urgent_at_min)
    empty = work.clock.sim_min(EMPTY_S)
    kept = nodes - work.reserve
    held = kept * span + urgent * work.urgent_min * work.reserve
    starts = span / work.low_min
    before = model.utilization(held - kept * starts * empty, nodes, span)
    lost = urgent * work.reserve * work.checkpoint_min / 2
    after = model.utilization(nodes * (span - starts * empty) - lost, nodes, span)
    first, second = work.urgent_at_min
    in_turn = first + work.urgent_min - second + empty
    why = f"a node stands empty for {EMPTY_S} to {SLOW_S} s between two jobs, and a day lasts seconds here"
    gain = 100 * model.output_gain(before, after)
    slow = work.clock.sim_min(SLOW_S)
    return [
        Prediction("reserve: GPU time used", 100 * before, 100 * before - 10, 100 * before + 6, "%", why),
        Prediction("preemption: GPU time used for work that lasts", 100 * after, 100 * after - 12, 100, "%", why),
        Prediction("more output by preemption", gain, gain - 15, gain + 15, "%", why),
        Prediction("reserve: the second urgent job's wait", in_turn, in_turn - slow, in_turn + 2 * slow, "min", why),
        Prediction("preemption: the second urgent job's wait", empty, 0, slow, "min", why),
    ]


def measure(stage: Stage, work: Workload) -> Mapping[str, float]:
    """The same arrivals twice."""
    used, wait = _replay(stage, work, preempt=False)
    used_after, wait_after = _replay(stage, work, preempt=True)
    return {
        "reserve: GPU time used": 100 * used,
        "preemption: GPU time used for work that lasts": 100 * used_after,
        "more output by preemption": 100 * model.output_gain(used, min(1.0, used_after)),
        "reserve: the second urgent job's wait": wait,
        "preemption: the second urgent job's wait": wait_after,
    }


def _replay(stage: Stage, work: Workload, *, preempt: bool) -> tuple[float, float]:
    """Share of GPU time that was lasting work, and the second urgent job's wait in minutes."""
    high, low, user, account = machine.preempting(stage.cluster.lab)
    mode = "preempt" if preempt else "reserve"
    stage.say("all nodes for everybody, urgent jobs preempt" if preempt else "two nodes are kept for urgent jobs")
    options = [f"--partition={machine.partition(stage.cluster.lab).name}", f"--account={account}", "--time=20",
               f"--gres=gpu:{work.per_node}"]  # fmt: skip
    kept, reserve = work.nodes[: -work.reserve], work.nodes[-work.reserve :]
    ordinary = [*options, "--nodes=1"]
    ordinary += [f"--qos={low.name}"] if preempt else [f"--exclude={','.join(reserve)}"]
    count = round((len(work.nodes) if preempt else len(kept)) * (work.span_min / work.low_min + 1))
    payload = [f"--work={work.low_min}", f"--checkpoint-every={work.checkpoint_min}"]
    names = [f"{mode}-{number}" for number in range(count)]
    jobs = stage.submit(user, *(
        stage.command(name, ordinary, [*payload, f"--state={stage.folder}/{name}.json"])
        for name in names))  # fmt: skip
    zero = stage.wait_note(names[0], "start").t
    for number, at in enumerate(work.urgent_at_min):
        stage.sleep_until(zero + stage.clock.real_s(at))
        asked = time.time()
        where = [] if preempt else [f"--nodelist={','.join(reserve)}"]
        urgent = [*options, f"--nodes={work.reserve}", f"--qos={high.name}", *where]
        jobs += stage.submit(user, stage.command(f"{mode}-urgent-{number}", urgent, [f"--work={work.urgent_min}"]))
    end = zero + stage.clock.real_s(work.span_min)
    stage.sleep_until(end)
    last = stage.notes(f"{mode}-urgent-{len(work.urgent_at_min) - 1}")
    wait_min = stage.clock.sim_min(last[0].t - asked) if last else work.span_min
    stage.cancel_all()
    sizes = {job: work.reserve if place >= count else 1 for place, job in enumerate(jobs)}
    notes = stage.all_notes()
    seconds = sum(sizes[job] * _lasting_s([note for note in notes if note.job == job], end) for job in jobs)
    return model.utilization(seconds, len(work.nodes), end - zero), wait_min


def _lasting_s(notes: Sequence[Note], end: float) -> float:
    """Seconds a job held its node up to ``end``, without those that a preemption undid."""
    total, since, saved = 0.0, 0.0, 0.0
    for note in notes:
        if note.event == "start":
            since = saved = note.t
        elif note.event == "checkpoint":
            saved = note.t
        elif note.event in ("stopped", "end"):
            until = note.t if note.event == "end" or note.t >= end else saved
            total, since = total + max(0.0, min(until, end) - since), 0.0
    return total + (max(0.0, end - since) if since else 0.0)


SCENARIO = Scenario(
    name="utilization",
    claims=("P8",),
    title="Utilisation: what a reserve costs",
    story="""Ordinary jobs fill half a day, and two urgent jobs come in the morning, one after the other. First two of
    the four nodes are kept free for urgent work, and the second urgent job waits for the first. Then
    everybody may use everything and urgent jobs preempt.""",
    lesson="""A reserve is idle most of the time and still too small when two urgent jobs come together. With
    preemption the ordinary jobs use it meanwhile, at the price of what they do between the last checkpoint
    and the preemption. Both sides gain: more output, and urgent work starts at once.""",
    scale_s=0.045,
    workload=workload,
    predict=predict,
    measure=measure,
)
