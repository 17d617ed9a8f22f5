"""What drills about nodes share: a node with GPUs to break, and a job that needs every such node."""

from __future__ import annotations

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.lab import Lab
from smoke.drill import operator, submit
from smoke.scenarios import machine
from smoke.workload import node_gpus

#: What ``sinfo -o %T`` says of a node that gets no jobs, without its flags; see sinfo(1), NODE STATE CODES.
OUT = ("drained", "draining", "drain", "inval", "down", "fail")


def gpu_nodes(lab: Lab) -> list[str]:
    """The nodes of the default partition that have the most GPUs. Raises LabError if none has two."""
    counts = node_gpus(lab, machine.partition(lab))
    most = max(counts.values(), default=0)
    if most < 2:
        raise LabError(f"the drill needs a node with two GPUs, the lab {lab.name} has none", "LAB=default")
    return [name for name, count in counts.items() if count == most]


def victim(cluster: Cluster) -> str:
    """The node that a drill breaks: the last of them."""
    return gpu_nodes(cluster.lab)[-1]


def resume(cluster: Cluster) -> None:
    """Give the node back, if it is out of use."""
    node = victim(cluster)
    if out_of_use(cluster, node):
        operator(cluster, "scontrol", "update", f"NodeName={node}", "State=RESUME")


def out_of_use(cluster: Cluster, node: str) -> str:
    """Why a node gets no jobs, or nothing: ``c4 is drained: reason``."""
    state, _, reason = operator(cluster, "sinfo", "-hN", "-n", node, "-o", "%T|%E").splitlines()[0].partition("|")
    return f"{node} is {state.rstrip('*$~#%!@^-')}: {reason}" if state.startswith(OUT) else ""


def submit_over_all(cluster: Cluster) -> None:
    """The first user's job over every one of these nodes."""
    lab = cluster.lab
    nodes, user = gpu_nodes(lab), lab.users[0].name
    options = [one for one in machine.options(lab, user, 1, 5) if not one.startswith("--nodes=")]
    submit(cluster, user, "--job-name=wide", f"--nodelist={','.join(nodes)}", "--mem=100M", *options)
