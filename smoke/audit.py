"""``python -m smoke audit [--json]``: does anybody hold a GPU that is not theirs? Exit status 1 if so.

Three sources are compared: what Slurm has granted (scontrol), what each Ray cluster believes (its API, that of a Ray
inside a job too), and what processes carry. A fault must be there in two readings: jobs start and end all the time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.together import together
from smoke.audit_find import Belief, Find, Reading, agreed, lines, process
from smoke.slurm import parse_job, parse_records

AGENT = Path(__file__).with_name("audit_agent.py")
#: Seconds between two readings: longer than a job's processes need to start or end on a busy machine.
BETWEEN_S = 1.5


def ask(cluster: Cluster, service: str) -> dict[str, Any]:
    """What runs in one container. Raises LabError if it cannot be asked: an audit with a gap would say nothing."""
    text = cluster.exec(service, ["python3", "-I", "-S", "-"], stdin=AGENT.read_text(encoding="utf-8")).stdout
    answer: dict[str, Any] = json.loads(text)
    return answer


def belief(node: dict[str, Any], stale_s: float) -> Belief:
    """One Ray node as audit_agent.py reports it."""
    workers = {int(pid): (tuple(slots), task) for pid, (slots, task) in node["workers"].items()}
    return Belief(node["gpus"], workers, stale_s)


def read(cluster: Cluster, *, running_only: bool = False) -> Reading:
    """One look at everything; Slurm comes last, so that it knows every job of the processes that were seen.

    With ``running_only`` a container that is known to stand still is left out: nothing in it uses a GPU.
    """
    slurm_nodes, ray_nodes = cluster.nodes(), ["ray-head", *cluster.ray_workers()]
    if running_only:
        running = {name for name, one in cluster.containers().items() if one.state == "running"}
        slurm_nodes, ray_nodes = ([name for name in names if name in running] for names in (slurm_nodes, ray_nodes))
    services = [*slurm_nodes, *ray_nodes]
    answers = dict(zip(services, together(*(partial(ask, cluster, name) for name in services), at_most=8), strict=True))
    text = cluster.exec("slurmctld", ["scontrol", "--details", "--oneliner", "show", "job"]).stdout
    jobs = [parse_job(record) for record in parse_records(text) if record[0][0] == "JobId"]
    beliefs = {node_id: belief(node, one["stale_s"]) for answer in answers.values() for one in answer["clusters"]
               for node_id, node in (one["nodes"] or {}).items()}  # fmt: skip
    seen = {name: [process(row) for row in answer["processes"]] for name, answer in answers.items()}
    users = {0: "root", 1000: "ray", **{user.uid: user.name for user in cluster.lab.users}}
    return Reading(jobs, {name: seen[name] for name in slurm_nodes}, {name: seen[name] for name in ray_nodes}, beliefs,
                   users)  # fmt: skip


def audit(cluster: Cluster, *, running_only: bool = False) -> tuple[list[Find], Reading]:
    """The finds that stay, and the last reading. Nothing found at first sight is the quick case: one reading."""
    reading = read(cluster, running_only=running_only)
    first = reading.finds()
    if not first:
        return [], reading
    time.sleep(BETWEEN_S)
    reading = read(cluster, running_only=running_only)
    now = reading.finds()
    firm, rays = [find for find in agreed(first, now) if not find.stale_s], []
    for _ in range(2):
        asked = [find for find in now if find.stale_s]
        if not asked:
            break
        # until Ray's API speaks of a later time than the last reading's, also on a busy machine
        time.sleep(1 + 2 * max(find.stale_s for find in asked))
        reading = read(cluster, running_only=running_only)
        now = reading.finds()
        firm, rays = agreed(firm, now), [find for find in agreed(asked, now) if find.stale_s and not find.unsure]
        if not any(find.unsure for find in now):
            break
    return [*firm, *rays], reading


def summary(reading: Reading) -> dict[str, int]:
    """How much was looked at."""
    rows = [one for nodes in (reading.slurm_nodes, reading.ray_nodes) for found in nodes.values() for one in found]
    return {
        "jobs": len(reading.holding),
        "gpus_granted": sum(len(gpus) for job in reading.holding for gpus in job.grants.values()),
        "gpus_shared": len({(node, gpu) for job in reading.holding for node, of in job.shares.items() for gpu in of}),
        "raylets": sum(bool(one.raylet) for one in rows),
        "processes": len(rows),
        "nodes": len(reading.slurm_nodes) + len(reading.ray_nodes),
    }


def as_json(finds: Sequence[Find], reading: Reading) -> str:
    """For programs: one entry for each (node, GPU) pair."""
    rows = [{"kind": find.kind, "node": find.node, "gpu": find.gpu, "what": find.what, "next": find.advice}
            for find in finds]  # fmt: skip
    return json.dumps({"clean": not finds, "finds": rows, **summary(reading)}, indent=2)


def main(argv: list[str]) -> int:
    """Audit the lab and say what is wrong."""
    options = argparse.ArgumentParser(prog="python -m smoke audit", description=__doc__.split("\n\n")[0])
    options.add_argument("--json", action="store_true", help="for programs: every (node, GPU) pair with a fault")
    args = options.parse_args(argv)
    cluster = Cluster.open()
    if not cluster.containers():
        raise LabError(f"the lab {cluster.settings.project} is not up", "make up")
    finds, reading = audit(cluster)
    if args.json:
        print(as_json(finds, reading))
        return int(bool(finds))
    for line in lines(finds):
        print(line)
    seen = summary(reading)
    if not finds:
        print(f"clean: {seen['gpus_granted']} GPUs granted and {seen['gpus_shared']} shared, to {seen['jobs']} jobs; "
              f"{seen['raylets']} Ray nodes, {seen['processes']} processes in {seen['nodes']} containers")  # fmt: skip
    return int(bool(finds))
