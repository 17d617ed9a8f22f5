"""``python -m smoke ray-on-slurm [OPTIONS] -- DRIVER [ARGUMENTS]``: a Ray driver inside a Slurm allocation.

Files of this machine that the driver's command line names are copied along. What happens on the nodes stands in
payloads/ray_on_slurm.slurm.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from smoke.slurm import FINAL, Job, Slurm

SCRIPT = Path(__file__).parent / "payloads" / "ray_on_slurm.slurm"


def submit(slurm: Slurm, driver: Sequence[str], *, nodes: int = 1, gpus: int = 1, options: Sequence[str] = ()) -> str:
    """Submit a driver with ``gpus`` GPUs on each of ``nodes`` nodes; return the job's id. Its log is log_of(id)."""
    local = [Path(part) for part in driver if Path(part).is_file()]
    slurm.login.put([SCRIPT, *local], folders=("logs",))
    command = [Path(part).name if Path(part) in local else part for part in driver]
    gres = [f"--gres=gpu:{gpus}"] if gpus else []
    return slurm.submit(SCRIPT.name, *command, options=[f"--nodes={nodes}", *gres, "--output", log_of("%j"), *options])


def log_of(job_id: str) -> str:
    """The job's log, in the folder of the user's login."""
    return f"logs/ray-{job_id}.out"


def exit_code(job: Job) -> int:
    """The driver's exit code; 128 and the signal if the job was ended by one, 1 if it ended without either."""
    code, _, signal = job.fields["ExitCode"].partition(":")
    return int(code) or (128 + int(signal) if int(signal or 0) else int(job.state != "COMPLETED"))


def main(argv: list[str]) -> int:
    """Submit, wait, print the log; the exit status is the driver's."""
    options = argparse.ArgumentParser(prog="python -m smoke ray-on-slurm", description=__doc__.split("\n\n")[0])
    options.add_argument("--user", default="alice", help="who submits")
    options.add_argument("--nodes", type=int, default=1, help="nodes of the job")
    options.add_argument("--gpus", type=int, default=1, help="GPUs on each node")
    options.add_argument("--timeout-s", type=float, default=600, help="cancel the job if it has not ended by then")
    options.add_argument("--sbatch", action="append", default=[], metavar="OPTION", help="such as --sbatch=--mem=16G")
    options.add_argument("driver", nargs="+", help="the driver's command line, after --")
    args = options.parse_args(argv)
    slurm = Slurm(Cluster.open(), args.user)
    try:
        job_id = submit(slurm, args.driver, nodes=args.nodes, gpus=args.gpus, options=args.sbatch)
        print(f"job {job_id}, its log is {slurm.login.folder}/{log_of(job_id)}", flush=True)
        job = slurm.wait_state(job_id, FINAL, timeout_s=args.timeout_s)
    except (LabError, KeyboardInterrupt):
        slurm.clean_up()
        raise
    print(slurm.login.read(log_of(job_id)), end="")
    print(f"job {job_id} is {job}, exit code {job.fields['ExitCode']}", file=sys.stderr)
    return exit_code(job)
