"""Ray as a user on the login node sees it: drivers over ray://, jobs over the job CLI, states over the REST API.

Follows Ray's "Ray Jobs CLI" and "Ray Jobs REST API" references. What changes something goes through the login node;
states are read from the host, through the dashboard's published port.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from provisioning import ray_api
from provisioning.cluster import Cluster, Result
from provisioning.errors import LabError
from provisioning.lab import Lab
from provisioning.slurmtypes import parse_memory_mb
from provisioning.waiting import wait_for
from smoke.login import Login

#: States that a submitted job does not leave.
FINAL = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
#: A job's script is run by an actor of this name.
SUPERVISOR = "_ray_internal_job_actor_"


def too_large(lab: Lab, asked: Mapping[str, float]) -> str:
    """Why no Ray node of the lab has this, or an empty text."""
    sizes: list[dict[str, float]] = [
        {"CPU": nodes.cpus, "GPU": nodes.gpus, "memory": parse_memory_mb(nodes.memory) * 1024.0**2,
         **{name: float(amount) for name, amount in nodes.resources.items()}}
        for nodes in (lab.ray.head, lab.ray.workers)
    ]  # fmt: skip
    if any(all(size.get(name, 0) >= amount for name, amount in asked.items()) for size in sizes):
        return ""
    most = {name: max(size.get(name, 0) for size in sizes) for name in asked}
    shown = (", ".join(f"{amount:g} {name}" for name, amount in of.items()) for of in (asked, most))
    return "it asks for {}; the most that a node has is {}".format(*shown)


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

    def job_name(self, name: str) -> str:
        """NAME-and-a-number, for a job that is stopped at the end."""
        self.submitted.append(f"{name}-{secrets.token_hex(3)}")
        return self.submitted[-1]

    def job_submit(self, *entrypoint: str, options: Sequence[str] = (), working_dir: str = ".",
                   name: str = "job") -> str:  # fmt: skip
        """``ray job submit --no-wait``: the client goes away at once. Return the submission id, NAME-and-a-number."""
        job_id = self.job_name(name)
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

    def never(self, job_id: str) -> str:
        """Why a job that is PENDING can never start: it asks for more than a node of the lab has. Usually empty.

        What it asks for is written at the actor that is to run its script.
        """
        named = f"filter_keys=name&filter_predicates=%3D&filter_values={SUPERVISOR}{job_id}"
        actors = self.rest(f"/api/v0/actors?detail=1&{named}")["data"]["result"]["result"]
        return too_large(self.cluster.lab, actors[0]["required_resources"]) if actors else ""

    def wait_job(self, job_id: str, wanted: Sequence[str] = ("SUCCEEDED",), timeout_s: float = 60) -> dict[str, Any]:
        """Wait until the job has one of the states; give up at once when it ended in another or can never start."""

        def look() -> tuple[dict[str, Any], str]:
            job = self.job(job_id)
            return job, self.never(job_id) if job["status"] == "PENDING" else ""

        job, never = wait_for(f"Ray job {job_id} {' or '.join(wanted)}", look,
                              lambda seen: seen[0]["status"] in wanted or seen[0]["status"] in FINAL or bool(seen[1]),
                              timeout_s=timeout_s, show=lambda seen: f"{seen[0]['status']}: {seen[0]['message']}",
                              look_at=f"ray job logs {job_id}; make logs NODE=ray-head")  # fmt: skip
        if never and job["status"] not in wanted:
            raise LabError(f"Ray job {job_id} can never start: {never}", f"python3 ray_why.py --cancel {job_id}")
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
