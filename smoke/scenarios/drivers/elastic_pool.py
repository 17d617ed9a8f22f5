"""Two stages in turn on the whole pool: ``elastic_pool.py ROLLOUT_GPU_MIN TRAINING_GPU_MIN GPUS SECONDS_A_MINUTE``."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import ray  # type: ignore[import-not-found,unused-ignore]

#: GPUs of one actor; a few large ones, because a laptop starts their processes one after the other.
EACH = 4
BOUND_S = 30


class Part:
    """A part of the pool, which changes its role."""

    def here(self) -> bool:
        """It has started."""
        return True

    def rollout(self, seconds: float) -> None:
        """Generate."""
        time.sleep(seconds)

    def train(self, seconds: float) -> None:
        """Learn from what was generated."""
        time.sleep(seconds)


def main() -> dict[str, Any]:
    """Seconds of both stages; the pool is there before the clock starts, as Slurm's jobs are."""
    rollout, training, gpus, scale = (float(word) for word in sys.argv[1:5])
    ray.init(address="auto", log_to_driver=False)
    free = float(ray.available_resources().get("GPU", 0))
    if free < gpus:
        return {"error": f"Ray's pool has {free:g} idle GPUs, the scenario needs {gpus:g}"}
    parts = [ray.remote(Part).options(num_gpus=EACH, num_cpus=0).remote() for _ in range(int(gpus // EACH))]
    ray.get([part.here.remote() for part in parts], timeout=BOUND_S)
    start = time.monotonic()
    ray.get([part.rollout.remote(rollout / gpus * scale) for part in parts], timeout=BOUND_S + rollout * scale)
    handed_over = time.monotonic()
    ray.get([part.train.remote(training / gpus * scale) for part in parts], timeout=BOUND_S + training * scale)
    end = time.monotonic()
    for part in parts:
        ray.kill(part)
    return {"seconds": end - start, "rollout_s": handed_over - start, "training_s": end - handed_over}


if __name__ == "__main__":
    print(json.dumps(main()))
