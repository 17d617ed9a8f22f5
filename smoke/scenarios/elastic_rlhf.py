"""Elastic pool (R9): two stages in turn, on two fixed halves in Slurm and on one pool in Ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from provisioning.lab import Lab
from smoke import quanta
from smoke.clock import Clock
from smoke.models import rlhf as model
from smoke.scenario import Scenario
from smoke.scenarios import machine
from smoke.stage import Stage
from smoke.verdict import Prediction

#: The share of its time that handing over may cost, as the course says.
HAND_OVER = 0.15


@dataclass(frozen=True)
class Workload:
    """The stages, and the two nodes that are the fixed halves."""

    clock: Clock
    stages: model.Work
    nodes: tuple[str, ...]

    @property
    def half(self) -> int:
        """GPUs of a half."""
        return self.stages.gpus // 2


def workload(lab: Lab, clock: Clock) -> Workload:
    """The course's 160 and 80 GPU-minutes on 16 GPUs."""
    return Workload(clock, model.Work(160, 80, 16), machine.room(lab, nodes=2, gpus=8).nodes)


def predict(lab: Lab, work: Workload) -> list[Prediction]:  # noqa: ARG001 - every scenario's signature
    """Halves use half; the pool is slower than the ideal by the hand-over at most."""
    static, elastic = model.static_min(work.stages), model.elastic_min(work.stages)
    slowest = model.elastic_min(work.stages, HAND_OVER)
    used = 100 * work.stages.used(static)
    record = quanta.RECORD_S / work.clock.real_s(static)
    three = "within 3 % of the model"
    seconds = "3 %, and accounting has whole seconds"
    hand_over = f"a hand-over may cost up to {100 * HAND_OVER:.0f} %"
    return [
        Prediction.within("fixed halves: time", static, 0.03, "min", three),
        Prediction.within("fixed halves: GPU time used", used, 0.03 + record, "%", seconds),
        Prediction("one pool: time", elastic, elastic, slowest, "min", hand_over),
        Prediction("one pool: GPU time used", 100, 100 * work.stages.used(slowest), 100, "%", hand_over),
        Prediction.within("faster by", static / elastic, 0.03, "times", three),
    ]  # fmt: skip


def measure(stage: Stage, work: Workload) -> Mapping[str, float]:
    """Both at the same time: the two sets of GPUs have nothing to do with each other."""
    (static_min, burned_gpu_min), (pool_min, _) = stage.parallel(
        partial(_halves, stage, work), partial(_pool, stage, work)
    )
    return {
        "fixed halves: time": static_min,
        "fixed halves: GPU time used": 100 * work.stages.total_gpu_min / burned_gpu_min,
        "one pool: time": pool_min,
        "one pool: GPU time used": 100 * work.stages.used(pool_min),
        "faster by": static_min / pool_min,
    }


def _pool(stage: Stage, work: Workload) -> tuple[float, float]:
    """Minutes of both stages in Ray, and of the first alone."""
    sizes = (work.stages.rollout_gpu_min, work.stages.training_gpu_min, work.stages.gpus, stage.clock.second_per_min)
    seen = stage.driver("elastic_pool", *map(str, sizes))
    return stage.clock.sim_min(seen["seconds"]), stage.clock.sim_min(seen["rollout_s"])


def _halves(stage: Stage, work: Workload) -> tuple[float, float]:
    """Rollout on one node, training on the other after it; both keep their GPUs to the end."""
    user, lab, stages = stage.user(), stage.cluster.lab, work.stages
    rolled, trained = f"{stage.folder}/rollout.done", f"{stage.folder}/training.done"
    options = machine.options(lab, user, work.half)
    jobs = stage.submit(
        user,
        stage.command("rollout", [*options, f"--nodelist={work.nodes[0]}"],
                      [f"--work={stages.rollout_gpu_min / work.half}", f"--done={rolled}", f"--until={trained}"]),
        stage.command("training", [*options, f"--nodelist={work.nodes[1]}"],
                      [f"--work={stages.training_gpu_min / work.half}", f"--after={rolled}", f"--done={trained}"]),
    )  # fmt: skip
    records = stage.wait_over(*jobs, timeout_s=stage.clock.real_s(model.static_min(stages)) + 40)
    seconds = stage.notes("training")[-1].t - stage.notes("rollout")[0].t
    burned_s = sum((one.end - one.start) * one.gpus for one in records)
    return stage.clock.sim_min(seconds), stage.clock.sim_min(burned_s)


SCENARIO = Scenario(
    name="elastic-rlhf",
    claims=("R9",),
    title="Elastic pool: two stages in turn on the same GPUs",
    story="""Rollout (160 GPU-min) and training (80 GPU-min) take turns on 16 GPUs. As two Slurm jobs each has a fixed
    half, which idles while the other works: 30 min, 50 % used. In Ray both stages use the whole pool in
    turn: 15 min.""",
    lesson="""Stages that wait for each other waste exactly the share they do not hold at the moment; two fixed halves
    use half, whatever the sizes. Slurm gives a job its GPUs for its whole life, which is right for one large
    job; a pool that changes hands every few minutes is what Ray is for. The price is the hand-over.""",
    scale_s=1.0,
    workload=workload,
    predict=predict,
    measure=measure,
)
