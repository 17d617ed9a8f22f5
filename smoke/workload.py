"""A workload of any jobs: read from YAML or from a trace, and held against a lab before anything is submitted.

Times of the YAML are written as Slurm writes them (``90`` is minutes, ``04:00:00`` hours, ``1-12`` days) and are
simulated ones. The lab decides what is possible: a job that no node, partition, QOS or account of it would ever let
run is a mistake of the file, and all of them are reported at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from pathlib import Path

from provisioning.checks.accounting import allowed_qos
from provisioning.lab import Account, Lab, Partition, Qos, User, param
from provisioning.load import LabInvalid, Problem, Reading, build
from provisioning.problems import nearest
from provisioning.render.gres_conf import gpus_by_node
from provisioning.slurmtypes import expand_hosts, parse_time, parse_tres
from provisioning.yamltext import parse, read_text
from smoke.models.replay import Work

EXAMPLE = "smoke/workloads/hundred.yaml"
#: Slurm's controller keeps 10,000 jobs by default; a laptop is busy with half of them.
MOST_JOBS = 5000
HINT = "correct the file; nothing was submitted"


@dataclass(frozen=True)
class Entry:
    """One job as the file has it."""

    user: str = param("name", MISSING, help="a user of the lab")
    runs: str = param("time", MISSING, help="how long it works, such as 90 (minutes) or 04:00:00")
    name: str = param("name", help="its name; without one it is job-NUMBER")
    at: str = param("time", "0", help="when it is submitted, from the start of the workload")
    nodes: int = param("int", 1, bounds=(1, 1024), help="how many nodes")
    gpus: int = param("int", 1, bounds=(0, 64), help="GPUs on each of its nodes")
    limit: str = param("time", help="its time limit; without one it is what the job takes, to the minute")
    qos: str = param("name", help="its QOS; without one it is the account's default")
    partition: str = param("name", help="its partition; without one it is the lab's default")


@dataclass(frozen=True)
class File:
    """The whole file."""

    jobs: tuple[Entry, ...] = field(metadata={"help": "the jobs, one a line: - {user: alice, runs: 30}"})
    description: str = param("text", help="one sentence for people")


@dataclass(frozen=True)
class Job:
    """A job that the lab can run. ``gpus`` are those of each node, ``limit_min`` is in whole minutes."""

    name: str
    user: str
    account: str
    partition: str
    qos: str
    at_min: float
    nodes: int
    gpus: int
    runs_min: float
    limit_min: int

    @property
    def work(self) -> Work:
        """For the model; a job that would run longer is ended at its limit."""
        return Work(self.at_min, self.nodes * self.gpus, min(self.runs_min, self.limit_min))


@dataclass(frozen=True)
class Placed:
    """An entry with its place in the file, for messages."""

    entry: Entry
    path: str
    line: int


def read_yaml(path: Path) -> tuple[list[Placed], str]:
    """The jobs of a YAML file and its description. Raises LabInvalid with everything that is wrong."""
    text = read_text(path, str(path), f"name a .yaml or .swf file, such as {EXAMPLE}")
    return parse_yaml(text, str(path))


def parse_yaml(text: str, file: str) -> tuple[list[Placed], str]:
    """The jobs of a YAML text and its description. Raises LabInvalid with everything that is wrong."""
    try:
        tree, problems = parse(text, file, EXAMPLE, "jobs: and a list")
    except LabInvalid as error:
        raise LabInvalid(error.problems, HINT) from None
    reading = Reading(file, problems, thing="a workload", keys=f"{EXAMPLE} has all keys", like=EXAMPLE)
    found: File = build(File, tree, "", reading)
    placed = []
    for number, entry in enumerate(found.jobs):
        here = f"jobs[{number}]"
        line = reading.lines[here]
        for key in ("at", "runs", "limit"):
            if (value := getattr(entry, key)) and f"{here}.{key}" not in reading.bad and parse_time(value) is None:
                reading.complain(line, f"{here}.{key}", f"{value} has no end", "write a time")
        if entry.runs and f"{here}.runs" not in reading.bad and parse_time(entry.runs) == 0:
            reading.complain(line, f"{here}.runs", "a job that takes no time is none", "write at least 00:01")
        placed.append(Placed(entry, here, line))
    if not placed and not reading.problems:
        reading.complain(1, "jobs", "there is no job", "write one a line: - {user: alice, runs: 30}")
    if reading.problems:
        raise LabInvalid(sorted(reading.problems, key=lambda one: int(one.file.rpartition(":")[2])), HINT)
    return placed, found.description


def fit(placed: Sequence[Placed], lab: Lab, file: str) -> tuple[Job, ...]:
    """The jobs as the lab would run them. Raises LabInvalid with every job that it never would."""
    problems: list[Problem] = []
    jobs: list[Job] = []
    names: dict[str, int] = {}
    if len(placed) > MOST_JOBS:
        many = f"has {len(placed)} jobs, at most {MOST_JOBS} can be played"
        raise LabInvalid([Problem(file, "", many, "--first 1000 plays the first ones")], HINT)
    for number, one in enumerate(placed, start=1):
        name = one.entry.name or f"job-{number}"
        wrong = []
        if name in names:
            wrong.append(("name", f"{name} is the name of two jobs, first in line {names[name]}", "name them apart"))
        names.setdefault(name, one.line)
        try:
            job = _resolve(one.entry, name, lab)
        except _UnknownError as error:
            wrong.append(error.args)
        else:
            wrong += _obstacles(job, lab)
            jobs.append(job)
        problems += [Problem(f"{file}:{one.line}", f"{one.path}.{key}" if one.path else key, problem, remedy)
                     for key, problem, remedy in wrong]  # fmt: skip
    if problems:
        raise LabInvalid(problems, HINT)
    return tuple(sorted(jobs, key=lambda job: job.at_min))


class _UnknownError(Exception):
    """A name that the lab does not have: key, problem, remedy."""


def _resolve(entry: Entry, name: str, lab: Lab) -> Job:
    """Fill in what the lab gives a job that does not say it."""
    user = next((one for one in lab.users if one.name == entry.user), None)
    if user is None:
        raise _UnknownError("user", f"{entry.user} is not a user of the lab {lab.name}",
                            nearest(entry.user, [one.name for one in lab.users]))  # fmt: skip
    known = ["normal", *(one.name for one in lab.qos)]
    if entry.qos and entry.qos not in known:
        raise _UnknownError("qos", f"{entry.qos} is not a QOS of the lab {lab.name}", nearest(entry.qos, known))
    default = next((one for one in lab.partitions if one.default), lab.partitions[0])
    partition = next((one for one in lab.partitions if one.name == (entry.partition or default.name)), None)
    if partition is None:
        raise _UnknownError("partition", f"{entry.partition} is not a partition of the lab {lab.name}",
                            nearest(entry.partition, [one.name for one in lab.partitions]))  # fmt: skip
    account, qos = _account(entry, user, lab)
    runs_s = parse_time(entry.runs) or 0
    limit_s = parse_time(entry.limit) if entry.limit else runs_s
    return Job(name, user.name, account, partition.name, qos, (parse_time(entry.at) or 0) / 60, entry.nodes,
               entry.gpus, runs_s / 60, max(1, math.ceil((limit_s or 0) / 60)))  # fmt: skip


def _account(entry: Entry, user: User, lab: Lab) -> tuple[str, str]:
    """The user's default account, or the first that may use the QOS, and the QOS."""
    accounts = {one.name.lower(): one for one in lab.accounts}
    mine = [user.default_account or user.accounts[0], *user.accounts]
    if not entry.qos:
        default = accounts.get(mine[0].lower())
        return mine[0], user.default_qos or (default.default_qos if default else "") or "normal"
    for name in mine:
        if entry.qos in allowed_qos(name.lower(), accounts):
            return name, entry.qos
    allowed = sorted({qos for name in mine for qos in allowed_qos(name.lower(), accounts)})
    raise _UnknownError("qos", f"no account of {user.name} may use {entry.qos}", nearest(entry.qos, allowed))


def node_gpus(lab: Lab, partition: Partition) -> dict[str, int]:
    """GPUs of each node of a partition."""
    every = gpus_by_node(lab)
    if partition.nodes.upper() == "ALL":
        return every
    return {name: every[name] for name in expand_hosts(partition.nodes) if name in every}


def _obstacles(job: Job, lab: Lab) -> Iterator[tuple[str, str, str]]:
    """Why the lab would never run a job: key, problem, remedy."""
    partition = next(one for one in lab.partitions if one.name == job.partition)
    gpus = node_gpus(lab, partition)
    most, fitting = max(gpus.values(), default=0), sum(count >= job.gpus for count in gpus.values())
    if job.gpus > most:
        yield (
            "gpus",
            f"{job.gpus} GPUs a node; no node of {partition.name} has more than {most}",
            f"write at most {most}",
        )
    elif job.nodes > fitting:
        yield ("nodes", f"{job.nodes} nodes with {job.gpus} GPUs; {partition.name} has {fitting}",
               f"write at most {fitting}")  # fmt: skip
    if partition.max_nodes is not None and job.nodes > partition.max_nodes:
        yield (
            "nodes",
            f"{partition.name} allows {partition.max_nodes} nodes a job",
            f"write at most {partition.max_nodes}",
        )
    if partition.min_nodes is not None and job.nodes < partition.min_nodes:
        yield (
            "nodes",
            f"{partition.name} wants {partition.min_nodes} nodes a job",
            f"write at least {partition.min_nodes}",
        )
    account, qos = job.account.lower(), job.qos
    allowed, denied = ([one.lower() for one in names] for names in (partition.allow_accounts, partition.deny_accounts))
    if (allowed and account not in allowed) or account in denied:
        yield "partition", f"{partition.name} does not let the account {job.account} in", "choose another partition"
    if partition.allow_qos and qos not in partition.allow_qos:
        yield "partition", f"{partition.name} does not take the QOS {qos}", "choose another partition or QOS"
    yield from _limits(job, lab, partition)


def _limits(job: Job, lab: Lab, partition: Partition) -> Iterator[tuple[str, str, str]]:
    """Limits of time and of resources, which Slurm takes from four places."""
    longest = [(f"partition {partition.name}", partition.max_time)]
    bounds: list[tuple[str, Mapping[str, str]]] = []
    for one in lab.qos:
        if one.name in (job.qos, partition.qos):
            longest.append((f"QOS {one.name}", one.max_wall))
            bounds += [(f"QOS {one.name}", parse_tres(text)) for text in _texts(one) if text]
    for account in _line(job.account, lab):
        longest.append((f"account {account.name}", account.max_wall))
        bounds.append((f"account {account.name}", parse_tres(account.grp_tres) if account.grp_tres else {}))
    for where, text in longest:
        bound_s = parse_time(text) if text else None
        if bound_s is not None and job.limit_min * 60 > bound_s:
            yield "limit", f"{job.limit_min} min; the {where} allows {bound_s // 60}", _longer(job, lab, partition)
    asked = {"gres/gpu": job.nodes * job.gpus, "node": job.nodes, "cpu": job.nodes}
    for where, tres in bounds:
        for kind, count in tres.items():
            plain = kind if kind in asked else kind.partition(":")[0]
            if plain in asked and count.isdigit() and asked[plain] > int(count):
                key = "gpus" if plain == "gres/gpu" else "nodes"
                yield key, f"{asked[plain]} {plain} in all; the {where} allows {count}", "ask for less, or another QOS"


def _texts(qos: Qos) -> tuple[str, ...]:
    return qos.max_tres_per_job, qos.max_tres_per_user, qos.grp_tres


def _line(name: str, lab: Lab) -> Iterator[Account]:
    """An account and those above it."""
    by_name, seen = {one.name.lower(): one for one in lab.accounts}, set[str]()
    while (name := name.lower()) in by_name and name not in seen:
        seen.add(name)
        yield by_name[name]
        name = by_name[name].parent


def _longer(job: Job, lab: Lab, partition: Partition) -> str:
    """Partitions that allow the limit."""
    there = [one.name for one in lab.partitions if one.name != partition.name and _allows(one, job.limit_min)]
    return f"a longer partition: {', '.join(there)}" if there else "write a shorter one"


def _allows(partition: Partition, limit_min: int) -> bool:
    bound_s = parse_time(partition.max_time) if partition.max_time else None
    return bound_s is None or limit_min * 60 <= bound_s
