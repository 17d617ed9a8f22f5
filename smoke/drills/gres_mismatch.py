"""A node that finds fewer GPUs than it was promised to have: gres.conf and slurm.conf disagree."""

from __future__ import annotations

from dataclasses import replace

from provisioning.cluster import Cluster
from provisioning.lab import Lab, Nodes
from provisioning.render.gres_conf import gres_conf
from provisioning.slurmtypes import expand_hosts, parse_gres
from smoke.drill import Drill, operator
from smoke.drills.nodes import out_of_use, resume, submit_over_all, victim

FILE = "etc/slurm/gres.conf"


def one_gpu_less(lab: Lab, node: str) -> Lab:
    """The lab as it would be if the node had lost one GPU."""
    lines: list[Nodes] = []
    for line in lab.nodes:
        names = expand_hosts(line.name)
        if node not in names:
            lines.append(line)
            continue
        gres = parse_gres(line.gres)
        lost = max((one for one in gres if one.name == "gpu"), key=lambda one: one.count)
        fewer = ",".join(str(replace(one, count=one.count - 1) if one is lost else one) for one in gres)
        rest = [name for name in names if name != node]
        lines += [replace(line, name=name) for name in rest] + [replace(line, name=node, gres=fewer)]
    return replace(lab, nodes=tuple(lines))


def plant(cluster: Cluster) -> None:
    """Write a gres.conf in which the node has one GPU less than slurm.conf says, and have it read."""
    node = victim(cluster)
    cluster.write_file(FILE, gres_conf(one_gpu_less(cluster.lab, node)))
    operator(cluster, "scontrol", "reconfigure")
    submit_over_all(cluster)


def trouble(cluster: Cluster) -> str:
    """The wrong file first: as long as it is there, the node cannot come back."""
    if FILE in cluster.stale_files():
        return f"{FILE} is not what the YAML says; {out_of_use(cluster, victim(cluster))}".rstrip("; ")
    return out_of_use(cluster, victim(cluster))


def mend(cluster: Cluster) -> None:
    """Write the right file, have it read, and give the node back; it stays drained until somebody says so."""
    if FILE in cluster.stale_files():
        cluster.write_files()
        operator(cluster, "scontrol", "reconfigure")
    resume(cluster)


DRILL = Drill(
    name="gres-mismatch",
    title="A node is invalid",
    story="""After a repair one node has come back, says the technician. A user's job over all GPU nodes waits all the
    same, and sinfo shows a state that nobody has seen before.""",
    hints=(
        "sinfo -R gives the reason: gres/gpu count reported lower than configured.",
        """slurm.conf promises a number of GPUs (scontrol show node NODE: CfgTRES), gres.conf tells slurmd which device
        files they are (on the node: scontrol show config names the file). The two do not agree.""",
        "make plan shows which line of gres.conf is not what the YAML says; make apply writes it and has it read.",
        """The node finds all its GPUs again, but it stays drained: as operator (make shell AS=root)
        scontrol update NodeName=NODE State=RESUME.""",
    ),
    plant=plant,
    trouble=trouble,
    mend=mend,
)
