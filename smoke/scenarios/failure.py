"""Failure (R7, S3, B2): a node dies under both schedulers; who notices when, and what is lost."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from provisioning import ray_api
from provisioning.errors import LabError
from provisioning.lab import Lab
from provisioning.ready import node_states
from provisioning.waiting import wait_for
from smoke import quanta
from smoke.clock import Clock
from smoke.models import failure as model
from smoke.scenario import Scenario
from smoke.scenarios import machine
from smoke.slurm import let_go
from smoke.stage import Stage
from smoke.verdict import Prediction

#: The lab's settings of Ray's health check (compose/), with a moment for a busy laptop.
RAY_PERIOD_S, RAY_TIMEOUT_S, RAY_FAILURES = 0.5, 1.5, 3
#: SlurmdTimeout while the scenario runs: a third of it and the whole is what one waits here.
TIMEOUT_S = 15
#: Seconds that a kill and its bookkeeping take on a busy laptop.
LATE_S = 6.0
#: How long a killed container may take until its daemon is back in service.
BACK_S = 180.0
#: How long a Ray in a job may take from its submission to its first task, and its processes to their end.
RAY_START_S, ENDS_S = 120.0, 60.0
#: A Ray in a job of its own: what starts it, and the driver that hands its payload to a task.
INSIDE = (Path(__file__).parents[1] / "payloads/ray_on_slurm.slurm", Path(__file__).parent / "drivers/inside.py")
READY = "/tmp/scenario-failure.ready"


@dataclass(frozen=True)
class Workload:
    """A job of two nodes, one that saves, one that may not be requeued, one beside them, and one with a Ray of its own.

    The standing Ray has tasks and actors of the same kinds.
    """

    clock: Clock
    nodes: tuple[str, ...]
    worker: str
    timeout_s: int
    work_min: float
    death_min: float
    checkpoint_min: float
    gang_gpus: int


def workload(lab: Lab, clock: Clock) -> Workload:
    """The node dies in the 35th of 60 minutes."""
    room = machine.room(lab, nodes=4, gpus=8)
    if lab.ray.workers.count < 2 or lab.ray.workers.gpus < 4:
        raise LabError("the scenario needs two Ray workers with four GPUs", "LAB=default")
    if not lab.slurm.slurmd_timeout:
        raise LabError("with slurmd_timeout 0 Slurm never notices a dead node", "LAB=default")
    return Workload(clock, room.nodes, "ray-worker-1", min(lab.slurm.slurmd_timeout, TIMEOUT_S), 60, 35, 10, 8)


def predict(lab: Lab, work: Workload) -> list[Prediction]:  # noqa: ARG001 - every scenario's signature
    """Silence from the time-outs; what is lost from the progress at the death and the silence."""
    soonest, mean, latest = model.slurm_notices_s(work.timeout_s)
    latest += LATE_S
    ray_latest = model.ray_notices_s(RAY_PERIOD_S, RAY_TIMEOUT_S, RAY_FAILURES) + LATE_S
    late_min, minutes = work.clock.sim_min(LATE_S), work.clock.sim_min

    def lost(silence_s: float, gpus: int = 1) -> float:
        return model.lost_gpu_min(gpus, work.death_min, minutes(silence_s))

    why = f"the node is asked every third of SlurmdTimeout, {work.timeout_s} s"
    ray_why = "a broken connection tells at once, health checks at the latest"
    saved = model.saved_min(work.death_min, work.checkpoint_min)
    gang = work.gang_gpus
    return [
        Prediction("Slurm: the node is DOWN after", mean, soonest - quanta.RECORD_S, latest, "s", why),
        Prediction.exact("Slurm: jobs of the node that end in NODE_FAIL", 4),
        Prediction.exact("Slurm: two-node job: progress at its restart", model.saved_min(work.death_min), "min"),
        Prediction("Slurm: two-node job: GPU time lost on both nodes", lost(mean, gang), lost(soonest - 1, gang),
                   gang * (lost(latest) + late_min), "GPU-min", why),
        Prediction("Slurm: job with checkpoints: progress at its restart", saved, saved, saved + work.checkpoint_min,
                   "min", "a busy laptop may kill the node a checkpoint later"),
        Prediction.exact("Slurm: job with --no-requeue: it runs again", 0),
        Prediction.exact("Slurm: job on another node: it is disturbed", 0),
        Prediction.exact("Ray in a job: processes that it leaves on its healthy node", 0),
        Prediction("Ray in a job: progress at its restart", saved, saved, saved + 2 * work.checkpoint_min, "min",
                   "its driver saves too, and starts again with the job; it begins seconds before the others"),
        Prediction("Ray: the node is dead after", RAY_PERIOD_S, 0, ray_latest, "s", ray_why),
        Prediction.exact("Ray: the task runs again on another node", 1),
        Prediction("Ray: task: GPU time lost", lost(RAY_PERIOD_S), work.death_min - late_min,
                   lost(ray_latest) + late_min, "GPU-min", ray_why),
        Prediction.exact("Ray: task with max_retries=0: it fails", 1),
        Prediction.exact("Ray: actor counted to 3: what it says next", 1),
        Prediction.exact("Ray: actor that saves: what it says next", 4),
        Prediction.exact("Ray: task on another node: runs", 1),
    ]  # fmt: skip


def measure(stage: Stage, work: Workload) -> Mapping[str, float]:
    """Both deaths at the same time: the two sets of nodes have nothing to do with each other."""
    lab = stage.cluster.lab
    stage.reshape(replace(lab, slurm=replace(lab.slurm, slurmd_timeout=work.timeout_s)))
    # a Ray in a job needs longer than all others to start, and the whole laptop: they follow when its work has begun
    inside = _ray_inside(stage, work)
    slurm, ray = stage.parallel(partial(_slurm, stage, work, inside), partial(_ray, stage, work))
    return {**slurm, **ray}


def _job(
    stage: Stage, work: Workload, name: str, gpus: int, nodes: str, *more: str,
    extra: tuple[str, ...] = (), inside: Sequence[str] = (),
) -> str:  # fmt: skip
    """The command of one job on these nodes; ``more`` are options of its payload."""
    chosen = [*machine.options(stage.cluster.lab, stage.user(), gpus), f"--nodelist={nodes}", "--requeue", *extra]
    return stage.command(name, chosen, [f"--work={work.work_min}", *more], inside)


def _saves(stage: Stage, work: Workload, name: str) -> list[str]:
    return [f"--checkpoint-every={work.checkpoint_min}", f"--state={stage.folder}/{name}.json"]


def _ray_inside(stage: Stage, work: Workload) -> str:
    """Start a job with a Ray of its own on both nodes; return its number when its work has begun."""
    script, driver = map(stage.put, INSIDE)
    command = _job(stage, work, "ray-inside", 1, ",".join(work.nodes[:2]), *_saves(stage, work, "inside"),
                   extra=("--nodes=2", "--mem=1G"), inside=(script, "python3", driver))  # fmt: skip
    [job] = stage.submit(stage.user(), command)
    stage.wait_note("ray-inside", "start", timeout_s=RAY_START_S)
    return job


def _slurm(stage: Stage, work: Workload, ray: str) -> dict[str, float]:
    dies, other = work.nodes[:2]
    job = partial(_job, stage, work)
    jobs = stage.submit(
        stage.user(),
        job("two-nodes", work.gang_gpus // 2, f"{dies},{other}", extra=("--nodes=2",)),
        job("saving", 1, dies, *_saves(stage, work, "saving")),
        job("once", 1, dies, extra=("--no-requeue",)),
        job("beside", 1, other),
    )
    jobs.append(ray)
    names = ("two-nodes", "saving", "once", "beside", "ray-inside")
    begun = max(stage.wait_note(name, "start").t for name in names)
    stage.sleep_until(begun + stage.clock.real_s(work.death_min))
    stage.undo(f"node {dies}", lambda: _node_back(stage, dies))
    died = time.time()
    stage.cluster.kill(dies)
    stage.say(f"{dies} has died")
    wait_for(f"Slurm notices that {dies} is dead", lambda: node_states(stage.cluster)[dies],
             lambda node: node.state == "down", timeout_s=2 * work.timeout_s + 60,
             look_at="make logs NODE=slurmctld")  # fmt: skip
    stage.say(f"Slurm has noticed that {dies} is dead")
    left = _left_behind(stage, other, ray)
    again = {"two-nodes": jobs[0], "saving": jobs[1], "ray-inside": ray}
    for name, number in again.items():
        _again_elsewhere(stage, name, number)
    _node_back(stage, dies)
    for name in (*again, "beside"):
        stage.wait_note(name, "end", timeout_s=stage.clock.real_s(work.work_min) + 60)
    records = stage.sacct(jobs)
    failed = [one for one in records if one.state == "NODE_FAIL"]
    whole = next((one for one in failed if one.name == "two-nodes"), None)
    starts = {name: [note for note in stage.notes(name) if note.event == "start"] for name in names}
    return {
        "Slurm: the node is DOWN after": max(one.end for one in failed) - died,
        "Slurm: jobs of the node that end in NODE_FAIL": len({one.job for one in failed}),
        "Slurm: two-node job: progress at its restart": starts["two-nodes"][1].progress,
        "Slurm: two-node job: GPU time lost on both nodes":
            stage.clock.sim_min((whole.end - whole.start) * whole.gpus) if whole else 0,
        "Slurm: job with checkpoints: progress at its restart": starts["saving"][1].progress,
        "Slurm: job with --no-requeue: it runs again": len(starts["once"]) > 1,
        "Slurm: job on another node: it is disturbed": len(starts["beside"]) > 1,
        "Ray in a job: processes that it leaves on its healthy node": left,
        "Ray in a job: progress at its restart": starts["ray-inside"][1].progress,
    }  # fmt: skip


def _left_behind(stage: Stage, node: str, job: str) -> int:
    """Processes of the Ray in a job on a node, at the latest when Slurm has had the time to end them."""
    name = f"r{job}"  # its directory in /tmp, which all of its command lines name

    def processes() -> int:
        return len(stage.cluster.exec(node, ["pgrep", "-f", f"/tmp/{name}/"], check=False).stdout.split())

    try:
        return wait_for(f"nothing of job {job} runs on {node}", processes, lambda count: not count, timeout_s=ENDS_S,
                        look_at=f"make logs NODE={node}")  # fmt: skip
    except LabError:
        return processes()


def _again_elsewhere(stage: Stage, name: str, job: str) -> None:
    """An operator lets a requeued job go, which Slurm holds back for two minutes, and unties it from the dead node."""

    def started() -> str:
        stage.operator(*let_go(job, "ReqNodeList="), check=False)
        return "" if len([note for note in stage.notes(name) if note.event == "start"]) > 1 else str(stage.job(job))

    wait_for(f"{name} starts again", started, lambda seen: not seen, timeout_s=90, interval_s=1.0, look_at="squeue")


def _node_back(stage: Stage, node: str) -> None:
    """Start the node again and wait until the controller reaches it and it takes jobs.

    The engine may give the container another address, and slurmctld keeps the old one: the node's own registration
    makes it look idle although no job would come through. A reconfigure looks the names up anew.
    """
    stage.cluster.start(node)

    def reached() -> str:
        seen = node_states(stage.cluster)[node]
        said = stage.cluster.exec(node, ["scontrol", "show", "slurmd"], check=False).stdout
        heard = any(line.startswith("Last slurmctld msg") and "NONE" not in line for line in said.splitlines())
        return "" if seen.ready and heard else f"{seen}, {'reached' if heard else 'not reached'} by slurmctld"

    def registered() -> bool:
        return node_states(stage.cluster)[node].ready

    wait_for(f"{node} registers", registered, timeout_s=BACK_S, look_at=f"make logs NODE={node}")
    stage.reconfigure()
    wait_for(f"{node} takes jobs again", reached, lambda missing: not missing, timeout_s=BACK_S,
             look_at=f"make logs NODE={node}")  # fmt: skip


def _ray(stage: Stage, work: Workload) -> dict[str, float]:
    """The driver says when all its work runs; then its worker is killed."""
    stage.cluster.exec("ray-head", ["rm", "-f", READY])
    driver, killed = stage.parallel(partial(_driver, stage, work), partial(_kill_worker, stage, work))
    _worker_back(stage, work.worker)
    died, starts = killed["died"], driver["starts"]
    return {
        "Ray: the node is dead after": driver["noticed"] - died,
        "Ray: the task runs again on another node": driver["moved"] and len(starts["retried"]) == 2,
        "Ray: task: GPU time lost": stage.clock.sim_min(starts["retried"][-1] - starts["retried"][0]),
        "Ray: task with max_retries=0: it fails": driver["failed"],
        "Ray: actor counted to 3: what it says next": driver["plain"],
        "Ray: actor that saves: what it says next": driver["saving"],
        "Ray: task on another node: runs": len(starts["elsewhere"]),
    }


def _driver(stage: Stage, work: Workload) -> dict[str, Any]:
    return stage.driver("failure", work.worker, str(stage.clock.real_s(work.work_min)), READY, timeout_s=240)


def _kill_worker(stage: Stage, work: Workload) -> dict[str, Any]:
    def begun() -> str:
        stage.sleep_until(0)
        return stage.cluster.exec("ray-head", ["cat", READY], check=False).stdout

    since = wait_for("Ray's work runs", begun, timeout_s=90, show=lambda _: "not all of it runs", look_at="make status")
    stage.sleep_until(float(since) + stage.clock.real_s(work.death_min))
    stage.undo(f"Ray worker {work.worker}", lambda: _worker_back(stage, work.worker))
    died = time.time()
    stage.cluster.kill(work.worker)
    stage.say(f"{work.worker} has died")
    return {"died": died}


def _worker_back(stage: Stage, worker: str) -> None:
    """Start the worker again and wait until Ray has it."""
    stage.cluster.start(worker)
    wait_for(f"{worker} is part of Ray again", lambda: ray_api.alive_nodes(stage.cluster),
             lambda alive: worker in alive, timeout_s=BACK_S, show=lambda alive: f"alive: {', '.join(sorted(alive))}",
             look_at=f"make logs NODE={worker}")  # fmt: skip


SCENARIO = Scenario(
    name="failure",
    claims=("R7", "S3", "B2"),
    title="Failure: a node dies under both schedulers",
    story="""A Slurm node and a Ray worker lose their power in the 35th of 60 minutes. Slurm notices by silence, calls
    its jobs NODE_FAIL and puts them back into the queue as a whole, a Ray inside one of them too. Ray runs the lost
    task again on another node and starts the lost actor anew.""",
    lesson="""Both start lost work again; neither brings back what it had not saved. Slurm's unit is the job: a job of
    two nodes loses the healthy half too, and holds all its GPUs until SlurmdTimeout is over. Ray's unit is the
    task or the actor: the rest of the program goes on. Checkpoints turn hours into minutes in both.""",
    scale_s=0.2,
    workload=workload,
    predict=predict,
    measure=measure,
)
