"""Two jobs of two halves, part by part and as gangs: ``gang_deadlock.py GPUS_OF_A_HALF SECONDS``."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import ray  # type: ignore[import-not-found,unused-ignore]
from ray.util.placement_group import (  # type: ignore[import-not-found,unused-ignore]
    placement_group,
    remove_placement_group,
)
from ray.util.scheduling_strategies import (  # type: ignore[import-not-found,unused-ignore]
    PlacementGroupSchedulingStrategy,
)

PATIENCE_S = 3
BOUND_S = 30


def until(wanted: float) -> float:
    """The free GPUs, given a moment to come to ``wanted``: nodes report with a short delay."""
    end = time.monotonic() + BOUND_S
    while (free := float(ray.available_resources().get("GPU", 0))) != wanted and time.monotonic() < end:
        time.sleep(0.1)
    return free


class Half:
    """One half of a job."""

    def here(self) -> bool:
        """It has started."""
        return True

    def work(self, seconds: float) -> bool:
        """Both halves work at the same time."""
        time.sleep(seconds)
        return True


def half(gpus: float, group: Any = None, bundle: int = 0) -> Any:
    """An actor that holds half the pool, inside a placement group or not."""
    where = {"scheduling_strategy": PlacementGroupSchedulingStrategy(group, bundle)} if group else {}
    return ray.remote(Half).options(num_gpus=gpus, num_cpus=0, **where).remote()


def alone(gpus: float, total: float) -> dict[str, Any]:
    """A1, B1, A2, B2: the first two are placed."""
    parts = {"A": [half(gpus)], "B": [half(gpus)]}
    ray.get([jobs[0].here.remote() for jobs in parts.values()], timeout=BOUND_S)
    for halves in parts.values():
        halves.append(half(gpus))
    asked = {job: halves[1].here.remote() for job, halves in parts.items()}
    ready, waiting = ray.wait(list(asked.values()), num_returns=len(asked), timeout=PATIENCE_S)
    held = total - until(0)
    for one in [one for halves in parts.values() for one in halves]:
        ray.kill(one)
    until(total)
    return {"stuck": len(waiting), "held": held, "ended_alone": len(ready)}


def together(gpus: float, seconds: float, total: float) -> dict[str, Any]:
    """A placement group for each job, asked for at the same time."""
    start = time.monotonic()
    groups = {job: placement_group([{"GPU": gpus}] * 2, strategy="SPREAD", name=job) for job in "AB"}
    wait_s, ended, held = 0.0, 0, -1.0
    for job, group in groups.items():
        if not group.wait(BOUND_S):
            break
        wait_s = time.monotonic() - start
        halves = [half(gpus, group, number) for number in range(2)]
        ray.get([one.here.remote() for one in halves], timeout=BOUND_S)
        if job == "A":
            held = total - until(0) - 2 * gpus
        ended += all(ray.get([one.work.remote(seconds) for one in halves], timeout=BOUND_S + seconds))
        remove_placement_group(group)
    both_s = time.monotonic() - start
    until(total)
    return {"ended": ended, "held_by_waiting": held, "wait_s": wait_s, "both_s": both_s}


def main() -> dict[str, Any]:
    """First the lock, then the cure."""
    gpus, seconds = float(sys.argv[1]), float(sys.argv[2])
    ray.init(address="auto", log_to_driver=False)
    total = float(ray.cluster_resources().get("GPU", 0))
    if (free := until(total)) != total:
        return {"error": f"{total - free:g} of {total:g} GPUs of Ray's pool are in use; a scenario needs all of them"}
    return {**alone(gpus, total), **together(gpus, seconds, total)}


if __name__ == "__main__":
    print(json.dumps(main()))
