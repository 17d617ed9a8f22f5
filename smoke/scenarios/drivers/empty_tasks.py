"""The time for many tasks that do nothing: ``empty_tasks.py NUMBER``."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import ray  # type: ignore[import-not-found,unused-ignore]

#: CPUs a task asks for: a few workers at a time are enough, and a laptop need not start a process for each CPU.
CPUS = 8
BOUND_S = 60


def nothing() -> None:
    """Return at once."""


def main() -> dict[str, Any]:
    """Seconds for all tasks, with the workers' processes up."""
    number = int(sys.argv[1])
    ray.init(address="auto", log_to_driver=False)
    task = ray.remote(nothing).options(num_cpus=CPUS)
    ray.get([task.remote() for _ in range(20)], timeout=BOUND_S)
    start = time.monotonic()
    ray.get([task.remote() for _ in range(number)], timeout=BOUND_S)
    return {"seconds": time.monotonic() - start}


if __name__ == "__main__":
    print(json.dumps(main()))
