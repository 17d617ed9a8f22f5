"""Checks of the cluster-wide part of slurm.conf."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields

from provisioning import slurm_names, slurmtypes
from provisioning.checks.report import Report
from provisioning.lab import MAX32, Slurm
from provisioning.problems import nearest
from provisioning.render.slurm_conf import FIXED_NAMES

WEIGHTS = ("age", "assoc", "fairshare", "job_size", "partition", "qos", "tres")
#: Of SelectTypeParameters, exactly one says what is counted.
COUNTED = {"CR_CPU", "CR_CPU_Memory", "CR_Core", "CR_Core_Memory", "CR_Socket", "CR_Socket_Memory"}
#: Words of SchedulerParameters and PreemptParameters that take no number.
FLAGS = {
    "allow_zero_lic", "assoc_limit_stop", "bf_allow_magnetic_slot", "bf_busy_nodes", "bf_continue",
    "bf_hetjob_immediate", "bf_licenses", "bf_one_resv_per_job", "bf_running_job_reserve", "bf_topopt_enable",
    "defer", "defer_batch", "disable_hetjob_steps", "disable_job_shrink", "enable_hetjob_steps",
    "enable_job_state_cache", "enable_user_top", "extra_constraints", "ignore_constraint_validation", "Ignore_NUMA",
    "ignore_prefer_validation", "no_backup_scheduling", "no_env_cache", "nohold_on_prolog_fail", "pack_serial_at_end",
    "requeue_on_resume_failure", "requeue_setup_env_fail", "spec_cores_first", "time_min_as_soft_limit",
    "whole_hetjob", "reclaim_licenses", "send_user_signal", "strict_order", "youngest_first",
}  # fmt: skip
#: Words that take something else than one number: bf_hetjob_prio=min|avg|max, reduce_completing_frag[=part].
FREE = {"bf_hetjob_prio", "reduce_completing_frag"}
#: Parameters that would contradict those the lab writes.
FIXED_HERE = ("SlurmctldAddr", "SlurmdUser", "PluginDir", "AuthInfo",
              "SlurmctldLogFile", "SlurmdLogFile", "AccountingStoragePort", "AccountingStoragePass")  # fmt: skip


def check(report: Report) -> None:
    """Check names, words and how the settings go together."""
    slurm = report.lab.slurm
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", slurm.cluster_name):
        report.add("slurm.cluster_name", f"{slurm.cluster_name} is no name of a cluster",
                   "use lower case letters, digits, _ and -, first a letter")  # fmt: skip
    _check_select(report, slurm)
    _check_preempt(report, slurm)
    _check_weights(report, slurm)
    _check_times(report, slurm)
    report.words("slurm.accounting_storage_enforce", slurm.accounting_storage_enforce, slurm_names.ENFORCE)
    report.words("slurm.private_data", slurm.private_data, slurm_names.PRIVATE)
    _check_words(report, "scheduler_parameters", slurm.scheduler_parameters.items(), slurm_names.SCHEDULER)
    _check_words(report, "preempt_parameters", slurm.preempt_parameters.items(), slurm_names.PREEMPT)
    if not re.fullmatch(r"|[0-9]{1,3}(-[0-9]{1,3})?(,[0-9]{1,3}(-[0-9]{1,3})?)*", slurm.requeue_exit):
        report.add("slurm.requeue_exit", f"{slurm.requeue_exit} are no exit codes", "write 99, or 1-4,99")
    elif any(int(code) > 255 for code in re.findall("[0-9]+", slurm.requeue_exit)):
        report.add("slurm.requeue_exit", "an exit code is at most 255", "write 99, or 1-4,99")
    keys = {one.metadata["slurm"]: f"slurm.{one.name}" for one in fields(Slurm) if one.metadata["slurm"]}
    keys |= {"PriorityWeight" + name.title().replace("_", ""): f"slurm.priority_weights.{name}" for name in WEIGHTS}
    keys |= {"NodeName": "nodes", "PartitionName": "partitions"}
    valid = slurm_names.CLUSTER | slurm_names.CLUSTER_24_11 | slurm_names.CLUSTER_26_05
    fixed = [*FIXED_NAMES, *FIXED_HERE]
    for name in {"DefMemPerNode", "DefMemPerGPU"} & set(slurm.extra):
        report.add(f"slurm.extra.{name}", "cannot stand beside slurm.def_mem_per_cpu", "leave it out")
    report.extra("slurm.extra", slurm.extra, valid, keys, fixed, line_of_its_own=True)


def _check_select(report: Report, slurm: Slurm) -> None:
    path, words = "slurm.select_type_parameters", slurm.select_type_parameters.split(",")
    report.words(path, words, slurm_names.SELECT)
    if set(words) <= slurm_names.SELECT and len(COUNTED & set(words)) != 1:
        report.add(path, "must have exactly one word for what is counted", f"write one of {', '.join(sorted(COUNTED))}")
    if slurm.def_mem_per_cpu and report.node_of and "nodes" not in report.broken:
        default = slurmtypes.parse_memory_mb(slurm.def_mem_per_cpu)
        largest = max(slurmtypes.parse_memory_mb(nodes.real_memory) for nodes in report.node_of.values())
        if default > largest:
            report.add("slurm.def_mem_per_cpu", f"{default} MB for one CPU is more than any node has",
                       f"write at most {largest}")  # fmt: skip


def _check_preempt(report: Report, slurm: Slurm) -> None:
    path, modes = "slurm.preempt_mode", set(filter(None, slurm.preempt_mode.split(",")))
    what = modes - {"GANG", "WITHIN"}
    if len(what) > 1:
        report.add(path, f"{slurm.preempt_mode} is more than one way to preempt", "keep one")
    if "SUSPEND" in modes and "GANG" not in modes:
        report.add(path, "SUSPEND needs GANG, which lets the suspended job go on later", "write SUSPEND,GANG")
    if slurm.preempt_type != "preempt/none" and not what - {"OFF"}:
        report.add(path, f"{slurm.preempt_type} needs a way to preempt", "write REQUEUE, CANCEL or SUSPEND,GANG, "
                   "or preempt_type: preempt/none")  # fmt: skip
    if "WITHIN" in modes and slurm.preempt_type != "preempt/qos":
        report.add(path, "WITHIN is for preempt/qos", "leave WITHIN out")


def _check_weights(report: Report, slurm: Slurm) -> None:
    for name, value in slurm.priority_weights.items():
        path = f"slurm.priority_weights.{name}"
        if name not in WEIGHTS:
            report.add(path, "is no factor of the priority", nearest(name, WEIGHTS))
        elif name == "tres":
            try:
                for tres in slurmtypes.parse_tres(value):
                    report.has_tres(path, tres)
            except ValueError as error:
                report.add(path, str(error), "write name=value with commas between, such as cpu=100,gres/gpu=1000")
        elif not re.fullmatch("[0-9]{1,10}", value) or int(value) > MAX32:
            report.add(path, f"{value[:40]!r} is not a weight", f"write a whole number, 0 to {MAX32}")


def _check_times(report: Report, slurm: Slurm) -> None:
    for name, least in (("priority_calc_period", 1), ("priority_max_age", 1), ("priority_decay_half_life", 0)):
        text = str(getattr(slurm, name))
        seconds = slurmtypes.parse_time(text) if text else None
        if seconds is None or seconds < least:
            report.add(f"slurm.{name}", f"{text or 'an empty text'} is not possible here",
                       "write a time, such as 5 (minutes) or 7-0 (days)")  # fmt: skip


def _check_words(report: Report, key: str, words: Iterable[tuple[str, str]], valid: frozenset[str]) -> None:
    """Slurm ignores what it does not know in these two without a word, so a slip would go unnoticed."""
    for name, value in words:
        path = f"slurm.{key}.{name}"
        if name not in valid:
            report.add(path, "is not known to Slurm", nearest(name, valid) or "see slurm.conf(5)")
        elif name in FLAGS and value:
            report.add(path, f"is a flag and takes no value, not {value[:40]!r}", f"write {name}: ''")
        elif name in FREE:
            if not re.fullmatch("[A-Za-z0-9_.]*", value):
                report.add(path, f"{value[:40]!r} is not one plain word", "see slurm.conf(5)")
        elif name not in FLAGS and not re.fullmatch("[0-9]{1,10}|-1", value):
            report.add(path, f"{value[:40]!r} is not a whole number", "see slurm.conf(5) for its unit")
        elif name in ("bf_interval", "bf_window", "bf_resolution") and value == "0":
            report.add(path, "0 is refused by Slurm", "write at least 1")
