"""Checks of the partitions: their nodes, who may use them, times and preemption."""

from __future__ import annotations

import re
from dataclasses import fields

from provisioning import slurm_names, slurmtypes
from provisioning.checks.report import Report
from provisioning.lab import Partition
from provisioning.problems import shown

_BILLING = r"[0-9]+(\.[0-9]+)?[KMGTP]?"


def check(report: Report) -> None:
    """Check all partitions."""
    lab = report.lab
    report.unique("partitions", [partition.name for partition in lab.partitions])
    defaults = [partition.name for partition in lab.partitions if partition.default]
    if "partitions" not in report.broken:
        if not lab.partitions:
            report.add("partitions", "the lab has no partition", "write at least one: name, nodes, default: yes")
        elif len(defaults) != 1:
            which = f"{', '.join(defaults)} are all the default" if defaults else "no partition is the default"
            report.add("partitions", which, "write default: yes in exactly one")
    for index, partition in enumerate(lab.partitions):
        path = f"partitions[{index}]"
        if partition.name.upper() in ("DEFAULT", "ALL"):
            report.add(f"{path}.name", f"{partition.name} has a meaning of its own in Slurm", "choose another name")
        _check_nodes(report, path, partition)
        _check_access(report, path, partition)
        _check_times(report, path, partition)
        _check_preempt(report, path, partition)
        _check_rest(report, path, partition)


def _check_nodes(report: Report, path: str, partition: Partition) -> None:
    if "nodes" in report.broken:
        return
    names = list(report.node_of) if partition.nodes == "ALL" else report.hosts(partition.nodes)
    if unknown := [name for name in names if name not in report.node_of]:
        listed = slurmtypes.compress_hosts(unknown)
        known = slurmtypes.compress_hosts(report.node_of)
        report.add(f"{path}.nodes", f"{shown(listed)} is not in nodes", f"the lab has {known or 'none'}")
        return
    least, most = partition.min_nodes or 1, partition.max_nodes
    if least > len(set(names)) > 0:
        report.add(f"{path}.min_nodes", f"{least} is more than the partition's {len(set(names))} nodes", "write less")
    if most is not None and least > most:
        report.add(f"{path}.max_nodes", f"{most} is less than min_nodes {least}", f"write at least {least}")
    if partition.def_mem_per_cpu and names:
        largest = max(slurmtypes.parse_memory_mb(report.node_of[name].real_memory) for name in names)
        if slurmtypes.parse_memory_mb(partition.def_mem_per_cpu) > largest:
            report.add(f"{path}.def_mem_per_cpu", "is more for one CPU than any node of the partition has",
                       f"write at most {largest}")  # fmt: skip


def _check_access(report: Report, path: str, partition: Partition) -> None:
    accounts = [account.name for account in report.lab.accounts] + ["root"]
    report.refer(f"{path}.allow_accounts", partition.allow_accounts, "accounts", accounts)
    report.refer(f"{path}.deny_accounts", partition.deny_accounts, "accounts", accounts)
    report.refer(f"{path}.allow_qos", partition.allow_qos, "qos", report.qos_names)
    report.refer(f"{path}.qos", [partition.qos] if partition.qos else [], "qos", report.qos_names)
    if partition.allow_accounts and partition.deny_accounts:
        report.add(f"{path}.deny_accounts", "Slurm ignores it beside allow_accounts", "keep one of the two")


def _check_times(report: Report, path: str, partition: Partition) -> None:
    most = slurmtypes.parse_time(partition.max_time) if partition.max_time else None
    if most == 0:
        report.add(f"{path}.max_time", "no job can run for no time", "write at least 1 (minute)")
    if partition.default_time and most is not None:
        usual = slurmtypes.parse_time(partition.default_time)
        if usual is None or usual > most:
            report.add(f"{path}.default_time", f"{partition.default_time} is longer than max_time {partition.max_time}",
                       f"write at most {partition.max_time}")  # fmt: skip


def _check_preempt(report: Report, path: str, partition: Partition) -> None:
    path, modes = f"{path}.preempt_mode", partition.preempt_mode.split(",")
    if {"GANG", "WITHIN"} & set(modes):
        report.add(path, f"{partition.preempt_mode} is for the whole cluster", "write it in slurm.preempt_mode")
    elif len(modes) > 1:
        report.add(path, f"{partition.preempt_mode} is more than one way to preempt", "keep one")
    elif "SUSPEND" in modes and "GANG" not in report.lab.slurm.preempt_mode.split(","):
        report.add(path, "SUSPEND needs GANG in slurm.preempt_mode: nothing would let the job go on", "write it there")


def _check_rest(report: Report, path: str, partition: Partition) -> None:
    if not re.fullmatch(r"|NO|EXCLUSIVE|(YES|FORCE)(:[1-9][0-9]{0,3})?", partition.over_subscribe.upper()):
        report.add(f"{path}.over_subscribe", f"{partition.over_subscribe} is not known to Slurm",
                   "write NO, YES, YES:4, FORCE, FORCE:4 or EXCLUSIVE")  # fmt: skip
    for name, value in slurmtypes.parse_tres(partition.tres_billing_weights).items():
        report.has_tres(f"{path}.tres_billing_weights", name)
        if not re.fullmatch(_BILLING, value):
            report.add(f"{path}.tres_billing_weights", f"{name}={value} is not a weight",
                       "write a number, for mem with a capital suffix: 0.25G")  # fmt: skip
    keys = {one.metadata["slurm"]: one.name for one in fields(Partition) if one.metadata["slurm"]}
    valid = slurm_names.PARTITION | slurm_names.PARTITION_24_11 | slurm_names.PARTITION_26_05
    report.extra(f"{path}.extra", partition.extra, valid, keys, (), line_of_its_own=False)
    if partition.def_mem_per_cpu and (both := {"DefMemPerNode", "DefMemPerGPU"} & set(partition.extra)):
        report.add(f"{path}.extra.{min(both)}", "cannot stand beside def_mem_per_cpu", "keep one of the two")
    if "DefMemPerNode" in partition.extra and "DefMemPerGPU" in partition.extra:
        report.add(f"{path}.extra.DefMemPerGPU", "cannot stand beside DefMemPerNode", "keep one of the two")
