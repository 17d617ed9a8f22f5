"""A driver of a Ray inside a Slurm job: one task with a GPU runs the command line; its exit status is the driver's."""

from __future__ import annotations

import os
import subprocess
import sys

import ray  # type: ignore[import-not-found,unused-ignore]

ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="ERROR")


@ray.remote(num_gpus=1, max_retries=0)  # type: ignore[untyped-decorator,unused-ignore]
def run(argv: list[str]) -> int:
    """Run a command; return its exit status."""
    return subprocess.run(argv, check=False).returncode


sys.exit(ray.get(run.remote(sys.argv[1:])))
