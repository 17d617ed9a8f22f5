"""The scheduler's own quanta, in real seconds, from the lab's parameters. See slurm.conf(5), SchedulerParameters.

The main scheduler runs when a job is submitted or ends; it goes down the line in order of priority and stops at the
first job that does not fit. Whoever passes that one waits for the backfill scheduler, every ``bf_interval``. Records of
accounting have whole seconds.
"""

from __future__ import annotations

from provisioning.lab import Lab

#: Time from an event (submission, end of a job) to the start it allows, as measured on a busy laptop, and generously.
PASS_S = 2.0
#: Resolution of the time stamps of accounting.
RECORD_S = 1.0


def _parameter(lab: Lab, name: str, default: float) -> float:
    return float(lab.slurm.scheduler_parameters.get(name, default))


def backfill_s(lab: Lab) -> float:
    """The longest wait for a backfill pass, and the pass itself."""
    return _parameter(lab, "bf_interval", 30) + PASS_S


def resolution_s(lab: Lab) -> float:
    """Backfill plans on a grid of this width."""
    return _parameter(lab, "bf_resolution", 60)


def start_s(lab: Lab) -> float:
    """From the moment resources suffice for the first in line to its start: an event triggers a pass, if one is not
    missed; then backfill's next one does it."""
    return min(PASS_S + RECORD_S, backfill_s(lab))
