"""Modes of preemption (P6, P7): requeue, cancel, protection, suspended GPUs, and work that is not counted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from provisioning.errors import LabError
from provisioning.lab import Lab, Qos
from smoke import quanta
from smoke.clock import Clock
from smoke.scenario import Scenario
from smoke.scenarios import machine
from smoke.stage import Stage
from smoke.verdict import Prediction

#: QOS that exist only while the scenario runs.
CANCELLED, PROTECTED, FREE = "scenario-cancel", "scenario-protected", "scenario-free"
#: How long a suspended job's GPUs are watched, in real seconds.
WATCH_S = 5.0


@dataclass(frozen=True)
class Workload:
    """A victim on each of four nodes; jobs of a second user under a QOS that counts and one that does not."""

    clock: Clock
    nodes: tuple[str, ...]
    per_node: int
    user: str
    account: str
    low: str
    high: str
    exempt_min: float
    counted_cpus: int
    counted_min: float

    @property
    def exempt_s(self) -> int:
        """The protection in whole real seconds, as Slurm keeps it."""
        return max(1, round(self.clock.real_s(self.exempt_min)))


def workload(lab: Lab, clock: Clock) -> Workload:
    """Victims of all GPUs of a node each; 30 min of protection."""
    high, low, user, account = machine.preempting(lab)
    room = machine.room(lab, nodes=4, gpus=8)
    return Workload(clock, room.nodes, room.gpus, user, account, low.name, high.name, 30, 16, 10)


def staged(lab: Lab, work: Workload) -> Lab:
    """The lab with three more QOS, which every account may use."""
    extra = (
        Qos(name=CANCELLED, preempt_mode="cancel"),
        Qos(name=PROTECTED, preempt_mode="requeue", preempt_exempt_time=f"00:00:{work.exempt_s:02d}"),
        Qos(name=FREE, usage_factor=0.0),
    )
    qos = [
        replace(one, preempt=(*one.preempt, CANCELLED, PROTECTED)) if one.name == work.high else one for one in lab.qos
    ]
    accounts = tuple(replace(one, qos=(*one.qos, CANCELLED, PROTECTED, FREE)) for one in lab.accounts)
    return replace(lab, qos=(*qos, *extra), accounts=accounts)


def predict(lab: Lab, work: Workload) -> list[Prediction]:
    """Each mode as slurm.conf(5) and sacctmgr(1) describe it."""
    late = quanta.start_s(lab) + quanta.RECORD_S
    why = "a start waits for a pass of the scheduler, and accounting has whole seconds"
    used = work.counted_cpus * work.clock.real_s(work.counted_min)
    seconds = work.counted_cpus * 2.0
    return [
        Prediction("REQUEUE: the urgent job's wait", 0, 0, late, "s", why),
        Prediction.exact("REQUEUE: the victim is in the queue again", 1),
        Prediction("CANCEL: the urgent job's wait", 0, 0, late, "s", why),
        Prediction.exact("CANCEL: the victim is in the queue again", 0),
        Prediction("protected: the victim's age when it is preempted", work.exempt_s, work.exempt_s - quanta.RECORD_S,
                   work.exempt_s + quanta.backfill_s(lab) + late, "s", "from then on, the next pass of the scheduler"),
        Prediction.exact("suspended: GPUs it still holds", work.per_node),
        Prediction.exact("suspended: an urgent job that needs them starts", 0),
        Prediction("usage of work that counts", used, used - seconds, used + seconds, "CPU-s", "whole seconds"),
        Prediction.exact("usage of the same work with UsageFactor=0", 0, "CPU-s"),
    ]  # fmt: skip


def measure(stage: Stage, work: Workload) -> Mapping[str, float]:
    """The four victims at once; the two counted jobs beside them."""
    lab = stage.cluster.lab
    stage.reshape(staged(lab, work))
    other = next((one for one in lab.users if one.name != work.user), None)
    if other is None:
        raise LabError("the scenario needs a second user, whose usage nobody else adds to", "LAB=default")
    base = [f"--partition={machine.partition(lab).name}", "--nodes=1", "--time=10"]
    whole = [*base, f"--account={work.account}", f"--gres=gpu:{work.per_node}"]
    names = {"requeue": work.low, "cancel": CANCELLED, "protected": PROTECTED, "suspended": FREE}
    on = dict(zip(names, work.nodes, strict=True))
    victims = dict(zip(names, stage.submit(work.user, *(
        stage.command(name, [*whole, f"--qos={qos}", f"--nodelist={on[name]}"], ["--work=100000"])
        for name, qos in names.items())), strict=True))  # fmt: skip
    for name in names:
        stage.wait_note(name, "start")
    stage.operator("scontrol", "suspend", victims["suspended"])
    stage.wait_job("is suspended", victims["suspended"], lambda job: job.state == "SUSPENDED")
    urgent = dict(zip(names, stage.submit(work.user, *(
        stage.command(f"urgent-{name}", [*whole, f"--qos={work.high}", f"--nodelist={on[name]}"], ["--work=5"])
        for name in names)), strict=True))  # fmt: skip
    counted = _usage(stage, work, other.name, base)
    time.sleep(WATCH_S)
    [held] = machine.gpus_in_use(stage, [on["suspended"]])
    blocked = stage.job(urgent["suspended"]).state
    stage.operator("scancel", urgent["suspended"])
    stage.operator("scontrol", "resume", victims["suspended"])
    rows = {one.job: one for one in stage.wait_over(urgent["requeue"], urgent["cancel"], urgent["protected"])}
    runs = stage.sacct([victims["protected"]])
    states = {name: stage.job(victims[name]).state for name in ("requeue", "cancel")}

    def wait_s(name: str) -> float:
        return rows[urgent[name]].start - rows[urgent[name]].submit

    return {
        "REQUEUE: the urgent job's wait": wait_s("requeue"),
        "REQUEUE: the victim is in the queue again": states["requeue"] in ("PENDING", "RUNNING"),
        "CANCEL: the urgent job's wait": wait_s("cancel"),
        "CANCEL: the victim is in the queue again": states["cancel"] in ("PENDING", "RUNNING"),
        "protected: the victim's age when it is preempted": runs[0].end - runs[0].start,
        "suspended: GPUs it still holds": held,
        "suspended: an urgent job that needs them starts": blocked != "PENDING",
        **counted,
    }


def _usage(stage: Stage, work: Workload, user: str, base: list[str]) -> dict[str, float]:
    """The same work one after the other under a QOS that counts and one that does not; usage is counted at its end."""
    account = next(one for one in stage.cluster.lab.users if one.name == user).accounts[0]
    options = [*base, f"--account={account}", f"--cpus-per-task={work.counted_cpus}"]

    def raw() -> float:
        out = stage.operator("sshare", "--noheader", "--parsable2", "--format=User,RawUsage", f"--accounts={account}",
                             f"--users={user}").stdout  # fmt: skip
        return next(float(line.split("|")[1]) for line in out.splitlines() if line.startswith(f"{user}|"))

    found = []
    for name, qos in (("counted", work.low), ("free", FREE)):
        before = raw()
        [job] = stage.submit(user, stage.command(name, [*options, f"--qos={qos}"], [f"--work={work.counted_min}"]))
        stage.wait_over(job)
        found.append(raw() - before)
    return {"usage of work that counts": found[0], "usage of the same work with UsageFactor=0": found[1]}


SCENARIO = Scenario(
    name="preemption-modes",
    claims=("P6", "P7"),
    title="Modes of preemption: how soft can it be?",
    story="""Four jobs are preempted in four ways: one goes back into the queue, one is cancelled, one is protected
    while it is young, and one is suspended. The suspended one keeps its GPUs, so an urgent job that needs
    them waits all the same. Beside them the same work runs under a QOS that counts it as usage, and under
    one that does not.""",
    lesson="""REQUEUE suits jobs that save their state, CANCEL those that are cheap to submit again. A minimum run time
    keeps a job from being preempted before it has done anything. Suspending stops processes but frees no
    GPU: their memory stays full, and Slurm does not hand them out. Who accepts to be preempted can be paid
    with a UsageFactor below 1.""",
    scale_s=0.4,
    workload=workload,
    predict=predict,
    measure=measure,
)
