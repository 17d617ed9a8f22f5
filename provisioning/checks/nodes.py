"""Checks of the nodes: names that Slurm, Compose and DNS take, and GRES that gres.conf can describe."""

from __future__ import annotations

import re

from provisioning import slurm_names, slurmtypes
from provisioning.checks.report import Report
from provisioning.lab import FIXED_SERVICES, Nodes

MAX_NODES, MAX_GPUS = 64, 64
HOST = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
RESERVED = {*FIXED_SERVICES, "localhost", "default", "all"}
#: Parameters that would take the node away from the container that stands for it.
FIXED = ("NodeName", "NodeAddr", "NodeHostname", "BcastAddr", "Port", "State", "Reason", "Procs")


def check(report: Report) -> None:
    """Check all node lines."""
    lab, seen = report.lab, dict[str, int]()
    if not lab.nodes and "nodes" not in report.broken:
        report.add("nodes", "the lab has no node", "write at least one: name, cpus, real_memory")
    for index, nodes in enumerate(lab.nodes):
        path = f"nodes[{index}]"
        for name in report.hosts(nodes.name):
            _check_name(report, f"{path}.name", name)
            if name in seen:
                where = "twice in this line" if seen[name] == index else f"also in nodes[{seen[name]}]"
                report.add(f"{path}.name", f"the node {name} is {where}", "name each node once")
            seen.setdefault(name, index)
        _check_gres(report, path, nodes)
        keys = {"CPUs": "cpus", "RealMemory": "real_memory", "Gres": "gres", "Features": "features", "Weight": "weight"}
        valid = slurm_names.NODE | slurm_names.NODE_26_05
        report.extra(f"{path}.extra", nodes.extra, valid, keys, FIXED, line_of_its_own=False)
    if len(seen) > MAX_NODES:
        report.add("nodes", f"the lab has {len(seen)} nodes, each is a container", f"at most {MAX_NODES}")


def _check_name(report: Report, path: str, name: str) -> None:
    if not re.fullmatch(HOST, name):
        report.add(path, f"{name[:70]} cannot be the host name of a container",
                   "use lower case letters, digits and -, first a letter, last no -, at most 63")  # fmt: skip
    elif name in RESERVED or re.fullmatch(r"ray-worker-[0-9]+", name):
        report.add(path, f"{name} is the name of another part of the lab", "choose another name, such as c1")


def _check_gres(report: Report, path: str, nodes: Nodes) -> None:
    path = f"{path}.gres"
    found = slurmtypes.parse_gres(nodes.gres)
    gpus = sum(gres.count for gres in found if gres.name == "gpu")
    for gres in found:
        if gres.count < 1:
            report.add(path, f"{gres} has none of it", "write at least 1, or leave it out")
        if gres.name in ("mps", "craynetwork"):
            report.add(path, f"{gres.name} needs hardware that the lab does not have", "use shard:N to share GPUs")
        others = [one for one in found if one is not gres and one.name == gres.name]
        if any(one.type == gres.type for one in others):
            report.add(
                path, f"{gres.name}:{gres.type} is there twice".replace(": ", " "), "write it once, with the sum"
            )
        elif others and not gres.type:
            report.add(path, f"{gres.name} is there with and without a type", "give each a type, such as gpu:a100:4")
    if gpus > MAX_GPUS:
        report.add(path, f"a node with {gpus} GPUs", f"at most {MAX_GPUS}, each needs a device file")
    shards = sum(gres.count for gres in found if gres.name == "shard")
    if shards and not gpus:
        report.add(path, "shards need GPUs on the same node", "write gpu:a100:8,shard:32")
    elif shards and shards % gpus:
        report.add(path, f"{shards} shards do not spread evenly over {gpus} GPUs", f"write a multiple of {gpus}")
    if any(gres.name == "shard" and gres.type for gres in found):
        report.add(path, "shards take no type here", f"write shard:{shards}")
    for gres in found:
        if gres.name not in ("gpu", "shard", "mps", "craynetwork") and gres.count > 65533:
            report.add(path, f"{gres} is too many", "at most 65533")
