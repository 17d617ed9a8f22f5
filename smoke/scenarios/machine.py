"""What scenarios need to know of a lab: nodes of a shape, who may ask for what, GPUs in use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from provisioning.errors import LabError
from provisioning.lab import Lab, Partition, Qos
from provisioning.render.gres_conf import gpu_devices
from provisioning.slurmtypes import expand_hosts
from smoke.stage import Stage


@dataclass(frozen=True)
class Room:
    """Nodes with the same number of GPUs."""

    nodes: tuple[str, ...]
    gpus: int


def room(lab: Lab, nodes: int, gpus: int) -> Room:
    """The first ``nodes`` nodes with ``gpus`` GPUs. Raises LabError if the lab has fewer."""
    found = [name for line in lab.nodes if gpu_devices(line) == gpus for name in expand_hosts(line.name)]
    if len(found) < nodes:
        raise LabError(
            f"the scenario needs {nodes} nodes with {gpus} GPUs, the lab {lab.name} has {len(found)}", "LAB=default"
        )
    return Room(tuple(found[:nodes]), gpus)


def partition(lab: Lab) -> Partition:
    """The default partition, or the first."""
    return next((one for one in lab.partitions if one.default), lab.partitions[0])


def options(lab: Lab, user: str, gpus: int, limit_min: int = 10) -> list[str]:
    """sbatch options of one node with so many GPUs, for a user with a default account."""
    chosen = [f"--partition={partition(lab).name}", "--nodes=1", f"--time={limit_min}"]
    if gpus:
        chosen.append(f"--gres=gpu:{gpus}")
    person = next(one for one in lab.users if one.name == user)
    account = person.default_account or person.accounts[0]
    return [*chosen, f"--account={account}"]


def preempting(lab: Lab) -> tuple[Qos, Qos, str, str]:
    """A QOS that preempts by requeue and one it may preempt, with a user and an account that may use both."""
    by_name = {one.name: one for one in lab.qos}
    for high in lab.qos:
        for low in (by_name[name] for name in high.preempt if name in by_name):
            if low.preempt_mode not in ("", "cluster", "requeue"):
                continue
            for person in lab.users:
                for name in person.accounts:
                    account = next(one for one in lab.accounts if one.name == name)
                    if {high.name, low.name} <= set(account.qos):
                        return high, low, person.name, account.name
    raise LabError(f"the lab {lab.name} has no QOS that preempts another and a user who may use both", "LAB=default")


def gpus_in_use(stage: Stage, nodes: Sequence[str] = ()) -> list[int]:
    """GPUs in use on each node, in the order of the lab, as sinfo prints GresUsed."""
    out = stage.operator("sinfo", "--noheader", "--Node", "--Format=NodeHost:30,GresUsed:100").stdout
    used = {}
    for line in out.splitlines():
        node, gres = line.split(maxsplit=1)
        used[node] = sum(int(count) for count in re.findall(r"gpu:(?:[^,:()]+:)?(\d+)", gres))
    return [used[node] for node in (nodes or stage.cluster.nodes())]
