"""Fairshare (S7): who used much stands behind who used little, until it is forgotten."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from provisioning.errors import LabError
from provisioning.lab import Lab
from provisioning.slurmtypes import expand_hosts
from smoke import quanta
from smoke.clock import Clock
from smoke.models import fairshare as model
from smoke.scenario import Scenario
from smoke.scenarios import machine
from smoke.stage import Stage
from smoke.verdict import Prediction

WEEK_MIN = 7 * 1440.0
DAY = 1440.0
#: Slurm keeps the half-life in whole minutes.
SHORTEST_S = 60


@dataclass(frozen=True)
class Workload:
    """A job of one user on all nodes, then one whole-cluster job of each, the heavy one's first.

    Heavy is who used more so far, so that what happened before does not turn the order around.
    """

    clock: Clock
    account: str
    users: tuple[str, str]
    nodes: int
    cpus: int
    heavy_min: float
    next_min: float
    forget_min: float

    @property
    def half_life_s(self) -> int:
        """The week, on the compressed clock."""
        return max(1, round(self.clock.real_s(WEEK_MIN) / SHORTEST_S)) * SHORTEST_S


def workload(lab: Lab, clock: Clock) -> Workload:
    """Two users of one account with equal shares; the half-life is Slurm's week, on the compressed clock."""
    for account in lab.accounts:
        people = [one for one in lab.users if account.name in one.accounts]
        if len(people) >= 2 and people[0].fairshare == people[1].fairshare:
            room = machine.room(lab, nodes=2, gpus=8)
            line = next(one for one in lab.nodes if room.nodes[0] in expand_hosts(one.name))
            nodes = len(expand_hosts(line.name))
            return Workload(
                clock, account.name, (people[0].name, people[1].name), nodes, line.cpus, 2 * DAY, 4 * DAY, 2 * DAY
            )
    raise LabError(f"the lab {lab.name} has no account of two users with equal shares", "LAB=default")


def predict(lab: Lab, work: Workload) -> list[Prediction]:  # noqa: ARG001 - every scenario's signature
    """Usage grows by CPU-seconds and fades with the half-life; the order follows."""
    rate, real = work.nodes * work.cpus, work.clock.real_s(work.heavy_min)
    usage = model.busy(rate, real, work.half_life_s)
    step = rate * 2 * quanta.RECORD_S
    days = work.clock.sim_min(work.half_life_s) / DAY
    return [
        Prediction("the heavy user's usage after the run", usage, usage - step, usage + step, "CPU-s", "whole seconds"),
        Prediction.exact("the heavy user's factor is lower", 1),
        Prediction("priority less the sum of its parts", 0, -2, 2, "", "each part is rounded"),
        Prediction("fairshare part less weight x factor", 0, -2, 2, "", "each part is rounded"),
        Prediction.exact("the light user starts first, though second in line", 1),
        Prediction.within(
            "half-life, from what was left two days later", days, 0.15, "days", "usage has whole numbers"
        ),
    ]


def measure(stage: Stage, work: Workload) -> Mapping[str, float]:
    """All on one lab whose week is a minute; decay ages everybody's usage alike, so the order of others stays."""
    lab, clock = stage.cluster.lab, stage.clock
    half_life = f"00:{round(work.half_life_s / 60):02d}:00"
    stage.reshape(replace(lab, slurm=replace(lab.slurm, priority_decay_half_life=half_life)))
    before, asked = _count(stage, work)
    stage.wait_login()
    light, heavy = sorted(work.users, key=lambda user: before[user][0])
    stage.say(f"{heavy} is the heavy user, {light} the light one")
    options = [f"--partition={machine.partition(lab).name}", f"--account={work.account}", f"--nodes={work.nodes}",
               "--ntasks-per-node=1", f"--cpus-per-task={work.cpus}", "--gres=gpu:8", "--time=5"]  # fmt: skip
    stage.submit(heavy, stage.command("heavy", options, [f"--work={work.heavy_min}"]))
    begun = stage.wait_note("heavy", "start").t
    [again_id] = stage.submit(heavy, stage.command("heavy-again", options, [f"--work={work.next_min}"]))
    [light_id] = stage.submit(light, stage.command("light", options, [f"--work={work.next_min}"]))
    stage.sleep_until(begun + clock.real_s(work.heavy_min) * 0.7)
    shares, _ = _count(stage, work)
    parts = _priorities(stage)
    if not {again_id, light_id} <= set(parts):
        raise LabError("both users' next jobs should wait by now, but they do not", "make logs NODE=slurmctld")
    stage.say(f"priorities: {heavy} {parts[again_id][0]:.0f}, {light} {parts[light_id][0]:.0f}")
    over = stage.wait_note("heavy", "end").t
    first = stage.wait_job("one of them starts", light_id, lambda job: job.state != "PENDING").state == "RUNNING"
    after, then = _count(stage, work)
    stage.sleep_until(then + clock.real_s(work.forget_min))
    left, later = _count(stage, work)
    weight = float(lab.slurm.priority_weights.get("fairshare", 0))
    history = model.decayed(before[heavy][0], then - asked, work.half_life_s)
    return {
        "the heavy user's usage after the run": (after[heavy][0] - history)
        / model.decayed(1, then - over, work.half_life_s),
        "the heavy user's factor is lower": shares[heavy][1] < shares[light][1],
        "priority less the sum of its parts": max(abs(total - whole) for total, whole, _ in parts.values()),
        "fairshare part less weight x factor": abs(parts[again_id][2] - weight * shares[heavy][1]),
        "the light user starts first, though second in line": first and stage.job(again_id).state == "PENDING",
        "half-life, from what was left two days later": clock.sim_min(_half_life_s(after, left, heavy, later - then))
        / DAY,
    }


def _half_life_s(after: Mapping[str, tuple[float, float]], left: Mapping[str, tuple[float, float]], user: str,
                 seconds: float) -> float:  # fmt: skip
    """The half-life that explains what is left of a usage after so many seconds."""
    return seconds / math.log2(after[user][0] / left[user][0])


def _count(stage: Stage, work: Workload) -> tuple[dict[str, tuple[float, float]], float]:
    """RawUsage and FairShare of both users, counted now, and the second of it.

    Slurm counts every PriorityCalcPeriod, at least a minute; an operator need not wait for that.
    """
    at = time.time()
    stage.reconfigure()
    return _shares(stage, work), at


def _priorities(stage: Stage) -> dict[str, tuple[float, float, float]]:
    """Priority, the sum of its parts, and the fairshare part of each pending job, as sprio prints them."""
    out = stage.operator("sprio", "--noheader", "--format=%i|%Y|%A|%B|%F|%J|%P|%Q|%S|%N").stdout
    found = {}
    for line in out.splitlines():
        job, total, *parts = line.replace(" ", "").split("|")
        *added, nice = (float(part or 0) for part in parts)
        found[job] = (float(total), sum(added) - nice, float(parts[2]))
    return found


def _shares(stage: Stage, work: Workload) -> dict[str, tuple[float, float]]:
    """RawUsage and FairShare of both users in the account."""
    out = stage.operator("sshare", "--all", "--noheader", "--parsable2", "--format=Account,User,RawUsage,FairShare",
                         f"--accounts={work.account}").stdout  # fmt: skip
    rows = (line.split("|") for line in out.splitlines())
    return {user: (float(usage), float(factor)) for _, user, usage, factor in rows if user}


SCENARIO = Scenario(
    name="fairshare",
    claims=("S7",),
    title="Fairshare: who used much stands behind",
    story="""One user fills the cluster for two days, on a clock where a week lasts a minute. Then both users want all
    of it, and the one who used nothing starts first although second in line. The usage fades by half in a
    week, and with it the difference.""",
    lesson="""Fairshare is no punishment but a memory: the priority of a job depends on what its user used lately,
    compared with the share of the account, and half of it is forgotten in each half-life. The parts of a
    priority add up, and sprio shows them; a job that waits long gains by its age.""",
    scale_s=60 / WEEK_MIN,
    workload=workload,
    predict=predict,
    measure=measure,
)
