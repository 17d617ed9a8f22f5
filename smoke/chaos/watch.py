"""What is looked at while the faults go on, and before and after them: GPUs, processes, memory, Slurm's records."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.together import together
from smoke.audit import audit
from smoke.audit_find import TWICE, lines
from smoke.faults import docker
from smoke.slurm import Row, parse_table
from smoke.stage import Stage

#: Seconds between two audits: each looks into every container.
AUDIT_EVERY_S = 4.0
#: Of each process: its state, its user's number and its name.
CENSUS = ["ps", "-eo", "stat=,uid=,comm="]
#: Ray keeps idle workers at hand, more or fewer; the look itself is a process too.
PASSING = ("ray::IDLE", "ps")
SIZES = {"B": 1.0, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3}
RECORD_FIELDS = "JobID,JobName,State,Submit,Start,End"

#: Processes by user and name, of each service.
Census = dict[str, Counter[str]]


@dataclass
class Watch:
    """Audits one after the other until it is told to stop."""

    cluster: Cluster
    over: threading.Event = field(default_factory=threading.Event)
    #: held while an audit looks into the containers
    looking: threading.Lock = field(default_factory=threading.Lock)
    audits: int = 0
    #: audits that a fault cut short: a container died under them, or slurmctld was away
    cut_short: int = 0
    held_twice: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Look until it is over. Only a GPU that two readings see held twice is a find."""
        while True:
            try:
                with self.looking:
                    finds, _ = audit(self.cluster, running_only=True)
                self.audits += 1
                self.held_twice += lines(find for find in finds if find.kind == TWICE)
            except (LabError, ValueError):  # ValueError: an answer that ended in the middle
                self.cut_short += 1
            if self.over.wait(AUDIT_EVERY_S):
                return


def census(cluster: Cluster) -> tuple[Census, list[str]]:
    """The processes of every container, and those among them that are zombies."""
    found: Census = {}
    zombies = []
    services = cluster.services()
    looks = together(*(partial(cluster.exec, service, CENSUS) for service in services), at_most=4)
    for service, look in zip(services, looks, strict=True):
        found[service] = Counter()
        for state, user, name in (line.split(maxsplit=2) for line in look.stdout.splitlines()):
            if state.startswith("Z"):
                zombies.append(f"{service}: {name}")
            elif name not in PASSING:
                found[service][f"{name} of user {user}"] += 1
    return found, zombies


def extra(before: Census, after: Census) -> list[str]:
    """Processes that are there now and were not before."""
    return [f"{service}: {count} more {name}" for service, now in after.items()
            for name, count in sorted((now - before.get(service, Counter())).items())]  # fmt: skip


def memory(cluster: Cluster) -> dict[str, float]:
    """Bytes that each service's container uses, without the files that the kernel keeps at hand."""
    names = {one.name: service for service, one in cluster.containers().items()}
    text = docker("stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}}", *names)
    return {names[line.split()[0]]: size(line.split()[1]) for line in text.splitlines()}


def size(text: str) -> float:
    """Bytes of ``25.3MiB``, as docker stats writes it."""
    number = text.rstrip("BKMGi")
    return float(number) * SIZES[text[len(number) :]]


def records(stage: Stage, since: int) -> list[Row]:
    """Accounting's rows of all jobs since a second of 1970, of earlier runs too."""
    text = stage.cluster.exec("slurmctld", ["sh", "-c", 'exec sacct -aXD --parsable2 --delimiter="$(printf "\\037")" '
                              f'-S "$(date -d @{since} +%FT%T)" -o {RECORD_FIELDS}'],
                              env={"SLURM_TIME_FORMAT": "%s"}).stdout  # fmt: skip
    return parse_table(text)


def states(stage: Stage) -> dict[str, str]:
    """What slurmctld remembers: the state of each job by its name."""
    text = stage.operator("squeue", "--noheader", "--states=all", "--format=%j|%T").stdout
    return dict(line.rsplit("|", 1) for line in text.splitlines())


def stamps(stage: Stage) -> Mapping[str, list[str]]:
    """What the jobs wrote, by the name of each run's file."""
    found: dict[str, list[str]] = {}
    text = stage.cluster.exec("login", ["sh", "-c", f"cd {stage.folder}/stamps && grep -Hs . * || true"]).stdout
    for line in text.splitlines():
        name, _, said = line.partition(":")
        found.setdefault(name, []).append(said)
    return found
