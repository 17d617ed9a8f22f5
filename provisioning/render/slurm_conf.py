"""slurm.conf and cgroup.conf, see slurm.conf(5) and cgroup.conf(5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from provisioning import slurmtypes
from provisioning.lab import Lab, Nodes, Partition, Slurm, slurm_params

#: What the lab relies on, whatever the YAML says: (parameter, value, why). An empty value follows from the nodes.
FIXED = (
    ("SlurmctldHost", "slurmctld", "the service's name is its host name"),
    (
        "SlurmctldParameters",
        "enable_configless,validate_nodeaddr_threads=16",
        "nodes and login fetch the files from slurmctld; names of nodes that are down are looked up side by side",
    ),
    ("SlurmUser", "slurm", "slurmctld needs no root"),
    ("AuthType", "auth/slurm", "one shared key, no daemon of its own"),
    ("CredType", "auth/slurm", ""),
    ("SlurmctldPort", "6817", ""),
    ("SlurmdPort", "6818", ""),
    ("StateSaveLocation", "/var/spool/slurmctld", "on a volume: queue and job ids survive"),
    ("SlurmdSpoolDir", "/var/spool/slurmd", ""),
    (
        "SlurmctldPidFile",
        "/var/spool/slurmctld/slurmctld.pid",
        "on a volume too: a slurmctld that is killed leaves it",
    ),
    ("SlurmdPidFile", "/run/slurmd.pid", ""),
    ("ProctrackType", "proctrack/linuxproc", "works without cgroups and privileges"),
    ("TaskPlugin", "task/none", "nodes claim more CPUs than the host has: nothing to bind to"),
    ("JobAcctGatherType", "jobacct_gather/linux", ""),
    ("JobAcctGatherFrequency", "task=5", ""),
    ("MpiDefault", "none", ""),
    ("GresTypes", "", ""),
    ("SlurmdParameters", "config_overrides", "a node may claim more than the host has"),
    ("SelectType", "select/cons_tres", "GPUs are consumable"),
    ("SchedulerType", "sched/backfill", ""),
    ("PriorityType", "priority/multifactor", ""),
    ("AccountingStorageType", "accounting_storage/slurmdbd", ""),
    ("AccountingStorageHost", "slurmdbd", ""),
    ("AccountingStorageTRES", "", ""),
    ("JobFileAppend", "1", "a job that goes back into the queue does not lose the log of its first run"),
    ("ReturnToService", "2", "a node that comes back is used again without a hand"),
    ("TreeWidth", "64", "slurmctld talks to each node itself"),
    (
        "JobSubmitPlugins",
        "lua",
        "sbatch --export=NONE needs a right that slurmd has not in a container: see job_submit.lua in the image",
    ),
    ("Prolog", "/usr/local/lib/lab/prolog", "each job has a directory of its own for temporary files, as TMPDIR"),
    ("TaskProlog", "/usr/local/lib/lab/task-prolog", ""),
    ("Epilog", "/usr/local/lib/lab/epilog", "what a job leaves running, and its temporary files, go with it"),
    ("MailProg", "/bin/true", "there is no mail here, and no error line for it"),
)
#: Parameters that the lab writes itself; `extra` may not repeat them.
FIXED_NAMES = frozenset(name for name, _, _ in FIXED)


def _value(value: Any) -> str:
    """The text of a value as slurm.conf writes it."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={text}" if text else key for key, text in value.items())
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _line(params: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_value(value)}" for name, value in params.items())


def gres_names(lab: Lab) -> list[str]:
    """Names of all generic resources of the lab, sorted, such as ``gpu``."""
    return sorted({gres.name for nodes in lab.nodes for gres in slurmtypes.parse_gres(nodes.gres)})


def tracked_tres(lab: Lab) -> list[str]:
    """The TRES that accounting tracks beyond Slurm's own: each GRES, and each of its types."""
    found = set()
    for nodes in lab.nodes:
        for gres in slurmtypes.parse_gres(nodes.gres):
            found.add(f"gres/{gres.name}")
            if gres.type:
                found.add(f"gres/{gres.name}:{gres.type}")
    return sorted(found)


def node_line(nodes: Nodes) -> str:
    """One NodeName line. Memory is rounded down to MB, since a node with less than it claims is invalid."""
    params = slurm_params(nodes)
    params["RealMemory"] = slurmtypes.parse_memory_mb(nodes.real_memory)
    return _line({**params, "State": "UNKNOWN", **nodes.extra})


def partition_line(partition: Partition) -> str:
    """One PartitionName line."""
    params = slurm_params(partition)
    if not partition.default:
        params.pop("Default", None)
    if partition.def_mem_per_cpu:
        params["DefMemPerCPU"] = slurmtypes.parse_memory_mb(partition.def_mem_per_cpu)
    return _line({**params, "State": "UP", **partition.extra})


def _cluster_params(slurm: Slurm) -> Iterable[tuple[str, str]]:
    params = slurm_params(slurm)
    params["DefMemPerCPU"] = slurmtypes.parse_memory_mb(slurm.def_mem_per_cpu)
    params["PriorityCalcPeriod"] = slurm.priority_calc_period
    if not slurm.priority_favor_small:
        params.pop("PriorityFavorSmall", None)
    if slurm.preempt_type == "preempt/none":
        params["PreemptMode"] = "OFF"
        params.pop("PreemptExemptTime", None)
    for name, value in params.items():
        yield name, _value(value)
    for factor, weight in slurm.priority_weights.items():
        yield "PriorityWeight" + {"qos": "QOS", "tres": "TRES"}.get(factor, factor.title().replace("_", "")), weight


def slurm_conf(lab: Lab) -> str:
    """The whole slurm.conf of a lab."""
    lines = [f"# slurm.conf of the lab {lab.name}, made from its YAML: edit that and run make apply"]
    computed = {"GresTypes": ",".join(gres_names(lab)), "AccountingStorageTRES": ",".join(tracked_tres(lab))}
    for name, value, why in FIXED:
        text = computed.get(name, value)
        if text:
            lines.append(f"{name}={text}" if not why else f"# {why}\n{name}={text}")
    lines.append("# from the YAML")
    lines += [f"{name}={value}" for name, value in _cluster_params(lab.slurm)]
    lines += [f"{name}={value}" for name, value in lab.slurm.extra.items()]
    lines += [node_line(nodes) for nodes in lab.nodes]
    lines += [partition_line(partition) for partition in lab.partitions]
    return "\n".join(lines) + "\n"


def cgroup_conf(_lab: Lab) -> str:
    """cgroup.conf: none, since containers get no cgroup file system of their own."""
    return "CgroupPlugin=disabled\n"
