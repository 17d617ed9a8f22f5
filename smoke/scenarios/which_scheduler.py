"""Which scheduler (B4): granularity, gang, state, failure; each cell of the table with the figure it rests on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from provisioning.lab import Lab
from smoke.clock import Clock
from smoke.models import gang
from smoke.models import granularity as cost
from smoke.scenario import Scenario
from smoke.scenarios import granularity, machine
from smoke.stage import COMMENT, Stage
from smoke.verdict import Prediction, figure

#: A task that is worth a job of its own is at least this much work.
SHARE = 0.9


@dataclass(frozen=True)
class Workload:
    """How many empty jobs and tasks, how far is counted, and two halves of Ray's pool."""

    clock: Clock
    jobs: int
    tasks: int
    counts: int
    half_gpus: int
    per_node: int


def workload(lab: Lab, clock: Clock) -> Workload:
    """Few of each: the order of size is what counts."""
    pool = lab.ray.workers.count * lab.ray.workers.gpus
    return Workload(clock, 20, 300, 3, pool // 2, machine.room(lab, nodes=2, gpus=8).gpus)


def predict(lab: Lab, work: Workload) -> list[Prediction]:  # noqa: ARG001 - every scenario's signature
    """The figures of the other scenarios, in short."""
    wide = "it depends on the machine; the order of size is what counts"
    found = {}
    for name, key in (("Slurm", "sbatch each"), ("Ray", "Ray tasks")):
        found[name] = [cost.shortest_task(one, SHARE) for one in granularity.REFERENCE_S[key]]
    alone = gang.play(2, ("A", "B", "A", "B"), gang=False)
    return [
        *(Prediction(f"granularity: {name}: shortest task of which 90 % is work", middle, low, high, "s", wide)
          for name, (middle, low, high) in found.items()),
        Prediction.exact("gang: Slurm: GPUs held by a job that cannot start as a whole", 0),
        Prediction.exact("gang: Ray without a group: GPUs held by jobs that cannot", len(alone.stuck) * work.half_gpus),
        Prediction.exact("gang: Ray with a group: GPUs held by the one that waits", 0),
        Prediction.exact("state: Slurm: a third step counts, in memory, to", 1),
        Prediction.exact("state: Slurm: a third step counts, in a file, to", work.counts),
        Prediction.exact("state: Ray: a third call counts, in an actor, to", work.counts),
        Prediction("state: Ray: a call of an actor", 2, 0.1, 200, "ms", wide),
        Prediction.exact("failure: Slurm: a job whose process is killed runs so often", 1),
        Prediction.exact("failure: Ray: a task whose process is killed runs so often", 2),
    ]  # fmt: skip


def measure(stage: Stage, work: Workload) -> Mapping[str, float]:
    """One after the other, so that they do not share the machine."""
    slurm_s = granularity.jobs_cost(stage, work.jobs, array=False)
    ray_s = stage.driver("empty_tasks", str(work.tasks))["seconds"] / work.tasks
    shortest = {name: cost.shortest_task(one, SHARE) for name, one in (("Slurm", slurm_s), ("Ray", ray_s))}
    held = _held_by_a_waiting_job(stage, work)
    halves = stage.driver("gang_deadlock", str(work.half_gpus), "1", timeout_s=100)
    memory, file = _steps_count(stage, work)
    ray = stage.driver("which", str(work.counts))
    runs = _killed_job_runs(stage)
    for line in table(shortest, held, halves, (memory, file), ray, runs):
        stage.say(line)
    return {
        **{f"granularity: {name}: shortest task of which 90 % is work": one for name, one in shortest.items()},
        "gang: Slurm: GPUs held by a job that cannot start as a whole": held,
        "gang: Ray without a group: GPUs held by jobs that cannot": halves["held"],
        "gang: Ray with a group: GPUs held by the one that waits": halves["held_by_waiting"],
        "state: Slurm: a third step counts, in memory, to": memory,
        "state: Slurm: a third step counts, in a file, to": file,
        "state: Ray: a third call counts, in an actor, to": ray["said"],
        "state: Ray: a call of an actor": 1000 * ray["call_s"],
        "failure: Slurm: a job whose process is killed runs so often": runs,
        "failure: Ray: a task whose process is killed runs so often": ray["attempts"],
    }


def table(shortest: Mapping[str, float], held: float, halves: Mapping[str, float], steps: tuple[float, float],
          ray: Mapping[str, float], runs: float) -> list[str]:  # fmt: skip
    """Four questions, and the answer of each scheduler with its figure."""
    rows = [
        ("", "Slurm", "Ray"),
        ("granularity", f"tasks from {figure(shortest['Slurm'])} s", f"tasks from {figure(shortest['Ray'])} s"),
        ("gang", f"always: {figure(held)} held", f"by a group, else {figure(halves['held'])} held"),
        ("state", f"files: {figure(steps[1])}, memory: {figure(steps[0])}", f"actors: {figure(ray['said'])}"),
        ("failure", f"job over, {figure(runs)} run", f"task again, {figure(ray['attempts'])} runs"),
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _held_by_a_waiting_job(stage: Stage, work: Workload) -> float:
    """GPUs that a job of all nodes holds while one GPU of them is taken."""
    user, lab = stage.user(), stage.cluster.lab
    nodes = len(stage.cluster.nodes())
    one = stage.command("one", machine.options(lab, user, 1), ["--work=100000"])
    [small] = stage.submit(user, one)
    stage.wait_note("one", "start")
    options = [*machine.options(lab, user, work.per_node), f"--nodes={nodes}"]
    [whole] = stage.submit(user, stage.command("whole", options, ["--work=1"]))
    stage.wait_job("has a reason", whole, lambda seen: seen.reason not in ("None", "Priority"))
    held = sum(machine.gpus_in_use(stage)) - 1
    stage.operator("scancel", small, whole)
    stage.wait_over(small)
    return float(held)


def _batch(stage: Stage, name: str, script: str) -> str:
    """Submit a few shell commands as a job; its output is NAME.out in the folder."""
    user = stage.user()
    argv = ["sbatch", "--parsable", f"--job-name={name}", f"--comment={COMMENT}", f"--chdir={stage.folder}",
            f"--output={stage.folder}/{name}.out", "--mem=50M", *machine.options(stage.cluster.lab, user, 0),
            "--wrap", script]  # fmt: skip
    [job] = stage.submit(user, shlex.join(argv))
    return job


def _steps_count(stage: Stage, work: Workload) -> tuple[float, float]:
    """How far the last of some steps of one job has counted: in its memory, and in a file."""
    step = 'n=$((n + 1)); echo x >> count; echo "$n $(wc -l < count)"'
    steps = f"for i in $(seq {work.counts}); do srun --ntasks=1 sh -c {shlex.quote(step)}; done"
    stage.wait_over(_batch(stage, "steps", steps))
    memory, file = stage.cluster.exec("login", ["tail", "-1", f"{stage.folder}/steps.out"]).stdout.split()
    return float(memory), float(file)


def _killed_job_runs(stage: Stage) -> float:
    """How often a job runs whose process is killed."""
    records = stage.wait_over(_batch(stage, "killed", "kill -KILL $$"))
    return float(len(records))


SCENARIO = Scenario(
    name="which-scheduler",
    claims=("B4",),
    title="Which scheduler for which load?",
    story="""Four questions are put to both schedulers in small: how short may a task be, what does a job hold that
    cannot start as a whole, where does state live, and what happens when a process is killed. Each answer is
    a figure that is measured here. They make the table, in which every cell has its own.""",
    lesson="""Slurm for what is large, long, and starts and ends as a whole; Ray for many small parts that share state
    and may fail one by one. Most work is both: a Slurm job as the frame, Ray inside it. What must survive a
    failure belongs into a file in either.""",
    scale_s=0.5,
    workload=workload,
    predict=predict,
    measure=measure,
)
