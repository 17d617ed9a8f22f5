"""``python -m smoke drill [NAME]``: plant a fault, and let the learner find and mend it.

A drill breaks one thing for real, tells what a user would complain about, and knows by itself whether it is mended.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.settings import Settings
from provisioning.waiting import wait_for
from smoke.scenario import one_line

#: Jobs of drills carry this comment; only they are cancelled.
COMMENT = "drill"
#: How long a lab may take until a plant shows, or is gone.
SETTLE_S = 45.0


@dataclass(frozen=True)
class Drill:
    """One fault: ``trouble`` says what is still wrong, in words for the learner, and nothing once it is mended."""

    name: str
    title: str
    story: str
    hints: tuple[str, ...]
    plant: Callable[[Cluster], None]
    trouble: Callable[[Cluster], str]
    mend: Callable[[Cluster], None]


def operator(cluster: Cluster, *argv: str, check: bool = True) -> str:
    """What a command of Slurm says to the operator."""
    return cluster.exec("slurmctld", argv, check=check).stdout


def submit(cluster: Cluster, user: str, *options: str, wrap: str = "sleep 1") -> str:
    """Submit one of the drill's jobs as a user and return its id."""
    argv = ["sbatch", "--parsable", f"--comment={COMMENT}", "--output=/dev/null", *options, "--wrap", wrap]
    return cluster.exec("login", argv, user=user, workdir=f"/home/{user}").stdout.strip().split(";")[0]


def _jobs(cluster: Cluster, *options: str) -> dict[str, str]:
    rows = operator(cluster, "squeue", "--noheader", *options, "--format=%A|%k|%r").splitlines()
    return {job: reason for job, comment, reason in (row.split("|") for row in rows) if comment == COMMENT}


def waiting_jobs(cluster: Cluster) -> dict[str, str]:
    """The drill's jobs that wait, with Slurm's reason."""
    return _jobs(cluster, "--states=PD")


def cancel_jobs(cluster: Cluster) -> None:
    """Cancel the drill's jobs, whatever they do."""
    if mine := _jobs(cluster):
        operator(cluster, "scancel", *mine, check=False)


def start(drill: Drill, cluster: Cluster) -> None:
    """Plant the fault and wait until it shows. Raises LabError if the lab has it already."""
    if found := drill.trouble(cluster):
        raise LabError(f"this drill is on already: {found}", f"make drill NAME={drill.name} DO=mend takes it away")
    drill.plant(cluster)
    wait_for(f"drill {drill.name} shows", lambda: drill.trouble(cluster), timeout_s=SETTLE_S, look_at="make status")


def mend(drill: Drill, cluster: Cluster) -> None:
    """Take the fault and the drill's jobs away, and wait until the lab is well."""
    drill.mend(cluster)
    cancel_jobs(cluster)
    wait_for(f"drill {drill.name} is over", lambda: drill.trouble(cluster), lambda found: not found,
             timeout_s=SETTLE_S, look_at="make status")  # fmt: skip


def _start(drill: Drill, cluster: Cluster) -> int:
    start(drill, cluster)
    print(f"{drill.title}\n{one_line(drill.story)}")
    print(f"Find it and mend it. make drill NAME={drill.name} DO=check says whether it is mended, DO=hint helps, "
          "DO=mend ends the drill.")  # fmt: skip
    return 0


def _hint(drill: Drill, _cluster: Cluster) -> int:
    for number, hint in enumerate(drill.hints, 1):
        print(f"{number}. {one_line(hint)}")
    return 0


def _check(drill: Drill, cluster: Cluster) -> int:
    if found := drill.trouble(cluster):
        print(f"not yet: {found}")
        return 1
    print("mended")
    return 0


def _mend(drill: Drill, cluster: Cluster) -> int:
    mend(drill, cluster)
    print("the fault and the drill's jobs are gone")
    return 0


ACTIONS: dict[str, Callable[[Drill, Cluster], int]] = {"start": _start, "hint": _hint, "check": _check, "mend": _mend}


def main(argv: Sequence[str] | None = None) -> int:
    """The command; 1 if a check finds the fault still there, 2 if there is no such drill."""
    from smoke.drills import DRILLS

    parser = argparse.ArgumentParser(prog="python -m smoke drill", description="a fault to find and mend")
    parser.add_argument("name", nargs="?", help="which one; without it they are listed")
    parser.add_argument("--do", choices=ACTIONS, default="start", help="start (default), hint, check or mend")
    given = parser.parse_args(argv)
    if not given.name:
        for drill in DRILLS.values():
            print(f"{drill.name:16} {drill.title}")
        return 0
    if given.name not in DRILLS:
        print(f"error: no drill {given.name!r}\n  next: there are {', '.join(DRILLS)}", file=sys.stderr)
        return 2
    return ACTIONS[given.do](DRILLS[given.name], Cluster.open(Settings.from_env()))
