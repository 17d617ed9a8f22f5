"""gres.conf, see gres.conf(5): which device files stand for which GPU."""

from __future__ import annotations

from provisioning import slurmtypes
from provisioning.lab import Lab, Nodes


def _files(first: int, count: int) -> str:
    return f"/dev/nvidia{first}" if count == 1 else f"/dev/nvidia[{first}-{first + count - 1}]"


def gpu_devices(nodes: Nodes) -> int:
    """How many GPU device files a node of this line needs."""
    return sum(gres.count for gres in slurmtypes.parse_gres(nodes.gres) if gres.name == "gpu")


def gpus_by_node(lab: Lab) -> dict[str, int]:
    """How many GPUs each Slurm node has, of whatever type."""
    return {name: gpu_devices(line) for line in lab.nodes for name in slurmtypes.expand_hosts(line.name)}


def _lines(nodes: Nodes) -> list[str]:
    """A GPU without File= is dropped by slurmd, so each type gets device files of its own, counted on."""
    lines, first = [], 0
    for gres in slurmtypes.parse_gres(nodes.gres):
        kind = f" Type={gres.type}" if gres.type else ""
        if gres.name == "gpu":
            lines.append(f"NodeName={nodes.name} Name=gpu{kind} File={_files(first, gres.count)} Flags=nvidia_gpu_env")
            first += gres.count
        elif gres.name in ("shard", "mps"):
            devices = gpu_devices(nodes)
            lines.append(f"NodeName={nodes.name} Name={gres.name}{kind} Count={gres.count} File={_files(0, devices)}")
        else:
            lines.append(f"NodeName={nodes.name} Name={gres.name}{kind} Count={gres.count}")
    return lines


def gres_conf(lab: Lab) -> str:
    """The whole gres.conf of a lab."""
    lines = ["AutoDetect=off"] + [line for nodes in lab.nodes for line in _lines(nodes)]
    return "\n".join(lines) + "\n"
