"""State and failure in Ray, small: an actor counts, a task's process is killed: ``which.py COUNTS``."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import ray  # type: ignore[import-not-found,unused-ignore]

BOUND_S = 60


class Counter:
    """Counts in memory."""

    def __init__(self) -> None:
        self.count = 0

    def up(self) -> int:
        """One more."""
        self.count += 1
        return self.count


def die_once(counter: Any) -> int:
    """Kills its own process at the first attempt; returns the number of the attempt."""
    attempt = int(ray.get(counter.up.remote()))
    if attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return attempt


def main() -> dict[str, Any]:
    """One after the other."""
    counts = int(sys.argv[1])
    ray.init(address="auto", log_to_driver=False)
    counter, attempts = (ray.remote(Counter).options(num_cpus=1).remote() for _ in range(2))
    ray.get(attempts.up.remote(), timeout=BOUND_S)  # both processes are up
    start = time.monotonic()
    said = [ray.get(counter.up.remote(), timeout=BOUND_S) for _ in range(counts)]
    call_s = (time.monotonic() - start) / counts
    fresh = ray.remote(Counter).options(num_cpus=1).remote()
    attempt = ray.get(ray.remote(die_once).options(num_cpus=1).remote(fresh), timeout=BOUND_S)
    return {"said": said[-1], "call_s": call_s, "attempts": attempt}


if __name__ == "__main__":
    print(json.dumps(main()))
