#!/usr/bin/env python3
"""Say which GPUs this process was given, as one line of JSON. The same file runs under both schedulers:

    srun --partition=gpu --gres=gpu:2 python3 gpu_probe.py
    ray job submit --working-dir . --entrypoint-num-gpus 2 -- python gpu_probe.py

What to expect: "gpus" has as many entries as were asked for. Slurm counts them per job on the node, Ray per node of its
pool, and both pass them on in CUDA_VISIBLE_DEVICES. "devices" are the device files that can be opened: Slurm's nodes
have them (fake ones), Ray's workers have none, because Ray only counts. Nothing stops a process from
opening a device it was not given: that takes cgroups, which this lab does without.

With --hold S the process stays for S seconds, so that another one can be looked at beside it.
"""

import argparse
import json
import os
import socket
import time
from pathlib import Path


def opens(path):
    """True if this process can open the device."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError:
        return False
    return True


def torch_name():
    """The GPU's name according to torch, or why there is none."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "torch finds no driver (the GPUs are fake)"


def probe():
    """What this process was given."""
    env = os.environ
    visible = env.get("CUDA_VISIBLE_DEVICES")
    ray_job = json.loads(env.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}")  # set for the driver of a submitted job
    return {
        "host": socket.gethostname(),
        "scheduler": "ray" if ray_job else "slurm" if "SLURM_JOB_ID" in env else "none",
        "job": ray_job["metadata"]["job_submission_id"] if ray_job else env.get("SLURM_JOB_ID", ""),
        "CUDA_VISIBLE_DEVICES": visible,
        "gpus": [part for part in (visible or "").split(",") if part],
        "devices": [str(path) for path in sorted(Path("/dev").glob("nvidia[0-9]*")) if opens(path)],
        "cpus": int(env.get("SLURM_CPUS_ON_NODE") or os.cpu_count() or 0),
        "torch": torch_name(),
        "time": round(time.time(), 3),
    }


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="Say which GPUs this process was given.")
    options.add_argument("--hold", type=float, default=0.0, help="stay so many seconds")
    hold_s = options.parse_args().hold
    print(json.dumps(probe()), flush=True)
    time.sleep(hold_s)
