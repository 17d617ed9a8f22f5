"""What a lab must keep beyond the type of each value: references, names, and what Slurm, Compose and Ray would refuse.

``check`` gives everything that is wrong at once; ``warnings_of`` what is allowed but worth a line. Behaviour of Slurm
as in slurm.conf(5) and sacctmgr(1), tried on slurmctld 24.11.
"""

from __future__ import annotations

from provisioning.checks import accounting, nodes, partitions, qos, rayset, slurm, warn
from provisioning.checks.report import Report
from provisioning.lab import Lab
from provisioning.problems import Problem

__all__ = ["check", "warnings_of"]

warnings_of = warn.warnings_of


def check(lab: Lab, file: str = "", broken: frozenset[str] = frozenset()) -> list[Problem]:
    """All problems of a lab whose values have the right types.

    ``broken`` names the sections (nodes, qos, ...) that could not be read whole: references to them are not judged.
    """
    report = Report(lab, file or f"{lab.name}.yaml", broken)
    for part in (nodes, slurm, partitions, qos, accounting, rayset):
        part.check(report)
    return report.problems
