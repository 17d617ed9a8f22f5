#!/usr/bin/env python3
"""A job brings its own files, variables and packages.          python3 ray_env.py [--show]

Submits itself as a job with a runtime_env and prints what the job printed. What to expect, one JSON line:

    file       the text of a file of the working_dir, which was uploaded with the job
    variable   a variable of env_vars
    package    what a package says that only this job has: pip put it into an environment of the job's own
    elsewhere  false: the package is not there for others
    host       a worker, as --entrypoint-num-cpus asks for one; without it a job's script runs on the head

The package comes from a wheel in the working_dir, and --no-index keeps pip from asking a server: this works without a
network. Ray puts the folder's place on the node into RAY_RUNTIME_ENV_CREATE_WORKING_DIR, and pip fills it in.
"""

import argparse
import base64
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

WAIT_S = 60
PACKAGE = "lab_greeting"


def make_wheel(folder):
    """The smallest wheel that pip takes: a package, and what it says about itself."""
    info = f"{PACKAGE}-1.0.dist-info"
    files = {
        f"{PACKAGE}.py": 'TEXT = "hello from a wheel"\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{PACKAGE}-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            # a time of its own: the same wheel each time, so that Ray uses the environment that it has
            wheel.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), text)


def submit():
    """Submit this script with --show, wait for its end, and print its log."""
    from ray.job_submission import JobSubmissionClient

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "wheels").mkdir()
        make_wheel(folder / "wheels")
        (folder / "note.txt").write_text("a file of the working_dir")
        (folder / "ray_env.py").write_text(Path(__file__).read_text())
        client = JobSubmissionClient()  # its address is in RAY_API_SERVER_ADDRESS
        job = client.submit_job(
            entrypoint="python ray_env.py --show",
            entrypoint_num_cpus=1,
            runtime_env={
                "working_dir": str(folder),
                "env_vars": {"LAB_NOTE": "a variable of env_vars"},
                "pip": ["--no-index", "--find-links ${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/wheels", PACKAGE],
            },
        )
    end = time.monotonic() + WAIT_S
    while not client.get_job_status(job).is_terminal() and time.monotonic() < end:
        time.sleep(0.3)
    print(client.get_job_logs(job), end="")
    info = client.get_job_info(job)
    return 0 if info.status == "SUCCEEDED" else f"{job} is {info.status}: {info.message}"


def show():
    """What the job finds."""
    import lab_greeting  # only the job has it

    others = subprocess.run(["/opt/ray/bin/python", "-c", f"import {PACKAGE}"], capture_output=True, check=False)
    found = {"file": Path("note.txt").read_text(), "variable": os.environ["LAB_NOTE"]}
    found |= {"package": lab_greeting.TEXT, "elsewhere": others.returncode == 0, "host": socket.gethostname()}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="A job brings its own files, variables and packages.")
    options.add_argument("--show", action="store_true", help="the job itself")
    sys.exit(show() if options.parse_args().show else submit())
