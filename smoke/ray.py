"""Ray as a user on the login node sees it: drivers over ray://, jobs over the job CLI, states over the REST API.

Follows Ray's "Ray Jobs CLI" and "Ray Jobs REST API" references. What changes something goes through the login node;
states are read from the host, through the dashboard's published port.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any

from provisioning import ray_api
from provisioning.cluster import Cluster, Result
from provisioning.errors import LabError
from provisioning.waiting import wait_for
from smoke.login import Login

#: States that a submitted job does not leave.
FINAL = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


def json_lines(text: str) -> list[dict[str, Any]]:
    """The lines that are JSON objects; Ray's own log lines stand between them."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


class RayUser:
    """Ray for one user; remembers the jobs it submitted, so that they can be stopped again."""

    def __init__(self, cluster: Cluster, user: str = "alice", folder: str = "smoke") -> None:
        """Commands run on the login node, in ``folder`` of the user's home."""
        self.cluster = cluster
        self.login = Login(cluster, user, folder)
        self.submitted: list[str] = []

    def run(self, script: str, *args: str, timeout_s: int = 60, check: bool = True) -> Result:
        """Run a driver on the login node; it is ended there too if it does not end in time (exit status 124)."""
        argv = ("timeout", str(timeout_s), "python3", script, *args)
        return self.login.run(*argv, timeout_s=timeout_s + 10, check=check)

    def job_submit(self, *entrypoint: str, options: Sequence[str] = (), working_dir: str = ".",
                   name: str = "job") -> str:  # fmt: skip
        """``ray job submit --no-wait``: the client goes away at once. Return the submission id, NAME-and-a-number."""
        job_id = f"{name}-{secrets.token_hex(3)}"
        self.submitted.append(job_id)
        self.login.run("ray", "job", "submit", "--no-wait", "--submission-id", job_id, "--working-dir", working_dir,
                       *options, "--", *entrypoint)  # fmt: skip
        return job_id

    def job_cli(self, *argv: str, check: bool = True) -> str:
        """Any other ``ray job`` command: status, logs, list, stop, delete. Return what it printed."""
        return self.login.run("ray", "job", *argv, check=check).stdout

    def rest(self, path: str) -> Any:
        """The JSON answer of Ray's REST API, such as /api/jobs/."""
        return ray_api.get(self.cluster, path)

    def job(self, job_id: str) -> dict[str, Any]:
        """What the job API knows of a job: status, driver_exit_code, start_time and end_time in ms, and more."""
        answer: dict[str, Any] = self.rest(f"/api/jobs/{job_id}")
        return answer

    def wait_job(self, job_id: str, wanted: Sequence[str] = ("SUCCEEDED",), timeout_s: float = 60) -> dict[str, Any]:
        """Wait until the job has one of the states; give up at once when it has ended in another."""
        job = wait_for(f"Ray job {job_id} {' or '.join(wanted)}", lambda: self.job(job_id),
                       lambda job: job["status"] in wanted or job["status"] in FINAL, timeout_s=timeout_s,
                       show=lambda job: f"{job['status']}: {job['message']}",
                       look_at=f"ray job logs {job_id}; make logs NODE=ray-head")  # fmt: skip
        if job["status"] not in wanted:
            raise LabError(f"Ray job {job_id} is {job['status']}: {job['message']}", f"ray job logs {job_id}")
        return job

    def clean_up(self) -> None:
        """Stop what this object has submitted and what has not ended."""
        for job_id in self.submitted:
            try:
                if self.job(job_id)["status"] not in FINAL:
                    self.job_cli("stop", "--no-wait", job_id, check=False)
            except LabError:
                continue  # it never came into being
