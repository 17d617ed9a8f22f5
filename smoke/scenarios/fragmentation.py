"""Fragmentation (P1, R8): a quarter of the GPUs is idle, and nobody can use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provisioning.lab import Lab
from smoke import quanta
from smoke.clock import Clock
from smoke.models import fragmentation as model
from smoke.scenario import Scenario
from smoke.scenarios import machine
from smoke.stage import Stage
from smoke.verdict import Prediction


@dataclass(frozen=True)
class Workload:
    """Small jobs that hold ``taken[i]`` GPUs of node i for ``lengths_min[i]``, and a gang of whole nodes."""

    clock: Clock
    nodes: tuple[str, ...]
    per_node: int
    taken: tuple[int, ...]
    lengths_min: tuple[float, ...]
    gang_nodes: int
    gang_min: float
    ray_taken: tuple[int, ...]
    ray_per_worker: int


def workload(lab: Lab, clock: Clock) -> Workload:
    """The course's four nodes: 5, 6, 6 and 7 of 8 taken."""
    room = machine.room(lab, nodes=4, gpus=8)
    return Workload(clock, room.nodes, room.gpus, (5, 6, 6, 7), (20, 30, 60, 70), 2, 10,
                    (5, 6), int(lab.ray.workers.gpus))  # fmt: skip


def predict(lab: Lab, work: Workload) -> list[Prediction]:
    """Idle GPUs from the shapes; the gang starts when the second of the nodes is empty."""
    start = model.gang_start(work.lengths_min, work.gang_nodes)
    late = work.clock.sim_min(quanta.start_s(lab))
    why = "a start waits for a pass of the scheduler, and accounting has whole seconds"
    ray_idle = sum(model.idle_gpus(work.ray_per_worker, work.ray_taken))
    return [
        Prediction.exact("idle GPUs", sum(model.idle_gpus(work.per_node, work.taken))),
        Prediction.exact("idle share", 100 * model.idle_share(work.per_node, work.taken), "%"),
        Prediction.exact("nodes with 8 idle GPUs", model.nodes_that_qualify(work.per_node, work.taken, work.per_node)),
        Prediction.exact("gang pends with Resources", 1),
        Prediction("gang's wait", start, start - work.clock.sim_min(quanta.RECORD_S), start + late, "min", why),
        Prediction.exact("Ray: idle GPUs", ray_idle),
        Prediction.exact("Ray: the group is placed beside small tasks", 0),
        Prediction.exact("Ray: it is placed once they end", 1),
        Prediction.exact("Ray: small tasks inside a group made first", 0),
        Prediction.exact("Ray: small tasks that run once it is removed", len(work.ray_taken)),
    ]


def measure(stage: Stage, work: Workload) -> Mapping[str, float]:
    """Small jobs first, then the gang; then the same shape on Ray's pool."""
    user = stage.user()
    shape = list(zip(work.nodes, work.taken, work.lengths_min, strict=True))
    small = stage.submit(user, *(
        stage.command(f"small-{node}", [*machine.options(stage.cluster.lab, user, gpus), f"--nodelist={node}"],
                      [f"--work={length}"]) for node, gpus, length in shape))  # fmt: skip
    begun = [stage.wait_note(f"small-{node}", "start").t for node in work.nodes]
    [gang] = stage.submit(user, stage.command(
        "gang", [*machine.options(stage.cluster.lab, user, work.per_node), f"--nodes={work.gang_nodes}"],
        [f"--work={work.gang_min}"]))  # fmt: skip
    reason = stage.wait_job("has a reason", gang, lambda seen: seen.reason not in ("None", "Priority")).reason
    idle = [work.per_node - used for used in machine.gpus_in_use(stage)]
    stage.say(f"idle on each node: {' + '.join(map(str, idle))} = {sum(idle)}; the gang waits: {reason}")
    ray = stage.driver("fragmentation", *map(str, work.ray_taken))
    [record] = stage.wait_over(gang, timeout_s=work.clock.real_s(max(work.lengths_min) + work.gang_min) + 60)
    stage.wait_over(*small)
    return {
        "idle GPUs": sum(idle),
        "idle share": 100 * sum(idle) / (work.per_node * len(idle)),
        "nodes with 8 idle GPUs": sum(one >= work.per_node for one in idle),
        "gang pends with Resources": reason == "Resources",
        "gang's wait": work.clock.sim_min(record.start - min(begun)),
        "Ray: idle GPUs": ray["idle"],
        "Ray: the group is placed beside small tasks": ray["placed_beside"],
        "Ray: it is placed once they end": ray["placed_after"],
        "Ray: small tasks inside a group made first": ray["invaded"],
        "Ray: small tasks that run once it is removed": ray["ran_after"],
    }


SCENARIO = Scenario(
    name="fragmentation",
    claims=("P1", "R8"),
    title="Fragmentation: idle, but not together",
    story="""Small jobs hold 5, 6, 6 and 7 of the 8 GPUs of four nodes. A job that wants two whole nodes waits with
    the reason Resources although 8 GPUs are idle. Ray's placement group waits in the same way, but one that
    was made first is not invaded by small tasks.""",
    lesson="""A scheduler counts nodes that qualify, not idle GPUs. A quarter of the cluster stood idle, and the large
    job waited for the second of the small ones to end. Cures keep small jobs together: a partition of their
    own, honest time limits for backfill, or, in Ray, a placement group that is made before the small tasks
    come.""",
    scale_s=0.5,
    workload=workload,
    predict=predict,
    measure=measure,
    quick=True,
)
