"""``make status``: one screen of what the lab is doing."""

from __future__ import annotations

import re

from rich.console import Console
from rich.table import Table

from provisioning import ray_api
from provisioning.cluster import Cluster
from provisioning.doctor.room import room_findings, rooms
from provisioning.errors import LabError
from provisioning.plan_config import parse_rows
from provisioning.settings import Settings
from provisioning.together import begin


def gpus_in(tres: str) -> int:
    """How many GPUs a TRES text has, such as ``cpu=8,mem=32G,gres/gpu=1``."""
    found = re.search(r"(?:^|,)gres/gpu=(\d+)", tres)
    return int(found.group(1)) if found else 0


def _nodes_table(cluster: Cluster) -> Table:
    table = Table(title="Slurm nodes", title_justify="left")
    for column in ("node", "state", "GPUs used", "GPUs free", "CPUs used", "reason"):
        table.add_column(column)
    text = cluster.exec("slurmctld", ["scontrol", "-o", "show", "node"], timeout_s=15).stdout
    for name, node in parse_rows(text, "NodeName").items():
        total, used = gpus_in(node.get("CfgTRES", "")), gpus_in(node.get("AllocTRES", ""))
        table.add_row(name, node["State"].lower(), str(used), str(total - used),
                      f"{node['CPUAlloc']} of {node['CPUTot']}", node.get("Reason", ""))  # fmt: skip
    return table


def _jobs_table(cluster: Cluster) -> Table:
    table = Table(title="Jobs in the queue", title_justify="left")
    for column in ("job", "user", "partition", "QOS", "state", "elapsed", "nodes", "GPUs", "reason or nodes"):
        table.add_column(column)
    form = "%i|%u|%P|%q|%T|%M|%D|%b|%R"
    for line in cluster.exec("slurmctld", ["squeue", "-h", "-o", form], timeout_s=15).stdout.splitlines()[:20]:
        table.add_row(*line.split("|", 8))
    return table


def _ray_table(cluster: Cluster) -> Table:
    table = Table(title="Ray nodes", title_justify="left")
    for column in ("node", "CPUs", "GPUs", "memory"):
        table.add_column(column)
    for name, total in sorted(ray_api.alive_nodes(cluster).items()):
        table.add_row(name, f"{total.get('CPU', 0):.0f}", f"{total.get('GPU', 0):.0f}",
                      f"{total.get('memory', 0) / 2**30:.1f} GiB")  # fmt: skip
    return table


def status(settings: Settings) -> int:
    """Print the screen; exit status 1 if the lab is not up or a part does not answer."""
    cluster, console = Cluster.open(settings), Console(highlight=False)
    containers = cluster.containers()
    if not containers:
        raise LabError(f"the lab {settings.project} is not up", "make up")
    console.print(f"lab {cluster.lab.name}, project {settings.project}, Slurm "
                  f"{containers[min(containers)].labels.get('lab.slurm', '?')}")  # fmt: skip
    failed = False
    (room,) = begin([lambda: list(room_findings(settings.project, rooms(settings)))])
    for make in (_nodes_table, _jobs_table, _ray_table):
        try:
            console.print(make(cluster))
        except LabError as error:
            console.print(f"error: {error.what}\n  next: {error.hint}", markup=False)
            failed = True
    try:
        for one in room.result():
            console.print(str(one), markup=False)
            failed = True
    except LabError as error:
        console.print(f"error: {error.what}\n  next: {error.hint}", markup=False)
        failed = True
    idle = [name for name in cluster.services() if name not in containers or containers[name].state != "running"]
    if idle:
        console.print(f"not running: {', '.join(idle)}; make up starts them", markup=False)
        failed = True
    console.print(f"dashboard http://{cluster.dashboard} (make token prints its token); make shell is the login node")
    return int(failed)
