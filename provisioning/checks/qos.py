"""Checks of the QOS: who preempts whom, and limits that can be kept."""

from __future__ import annotations

from provisioning.checks.report import Report
from provisioning.lab import Qos


def check(report: Report) -> None:
    """Check all QOS."""
    lab = report.lab
    report.unique("qos", [qos.name for qos in lab.qos])
    for index, qos in enumerate(lab.qos):
        path = f"qos[{index}]"
        report.refer(f"{path}.preempt", qos.preempt, "qos", report.qos_names)
        for key in ("max_tres_per_user", "max_tres_per_job", "grp_tres"):
            report.limit(f"{path}.{key}", getattr(qos, key))
        if qos.preempt_mode == "suspend" and "GANG" not in lab.slurm.preempt_mode.split(","):
            report.add(f"{path}.preempt_mode", "suspend needs GANG in slurm.preempt_mode", "write SUSPEND,GANG there")
        jobs, submit = qos.max_jobs_per_user, qos.max_submit_jobs_per_user
        if jobs is not None and submit is not None and jobs > submit:
            report.add(f"{path}.max_jobs_per_user", f"{jobs} can never run: max_submit_jobs_per_user is {submit}",
                       f"write at most {submit}")  # fmt: skip
    _check_cycles(report, lab.qos)


def _check_cycles(report: Report, every: tuple[Qos, ...]) -> None:
    """Slurm refuses QOS that preempt each other, over however many steps."""
    preempts = {qos.name.lower(): [name.lower() for name in qos.preempt] for qos in every}
    for index, qos in enumerate(every):
        start = qos.name.lower()
        came_from: dict[str, str] = {}
        waiting = [start]
        while waiting:
            here = waiting.pop()
            for name in preempts.get(here, ()):
                if name not in came_from:
                    came_from[name] = here
                    waiting.append(name)
        if start in came_from:
            chain = [start]
            while (back := came_from[chain[0]]) != start:
                chain.insert(0, back)
            if start == min(chain):
                told = " preempts ".join([start, *chain])
                report.add(f"qos[{index}].preempt", f"preemption runs in a circle: {told}", "take one of them out")
