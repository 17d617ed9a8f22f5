"""Slurm's commands as a user types them, with their answers as data.

Follows sbatch(1), squeue(1), sacct(1), scancel(1) and scontrol(1). Fields are found by name, never by column, and a
separator that no field holds is asked for.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from provisioning.errors import LabError
from provisioning.slurmtypes import expand_hosts, parse_tres
from provisioning.waiting import wait_for
from smoke.login import Door, Login

SEPARATOR = "\x1f"
#: States that a job does not leave by itself (a requeued job is PENDING again).
FINAL = frozenset({"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
                   "OUT_OF_MEMORY", "REVOKED"})  # fmt: skip
#: Reasons for which a job stays PENDING until somebody changes the job or the cluster.
HOPELESS = frozenset({"AccountNotAllowed", "BadConstraints", "DependencyNeverSatisfied", "InvalidAccount", "InvalidQOS",
                      "JobHeldAdmin", "JobHeldUser", "PartitionDown", "PartitionInactive", "PartitionNodeLimit",
                      "PartitionTimeLimit", "QOSNotAllowed", "launch_failed_requeued_held"})  # fmt: skip
#: Lets a requeued job start at once, which 24.11 holds back for two minutes; "$@" may be more changes of the job.
#: A requeue is a new submission, and slurmd compares whole seconds: what starts in the second in which its last run was
#: ended there fails with "Job credential revoked". While that run is cleaned up, a change of the job would take the
#: start from that run's record. Fails then: try again.
LET_GO = """
job=$1; shift
SLURM_TIME_FORMAT=%s squeue --noheader --job="$job" --format="%T %V" | {
    read -r state requeued
    test "$state" = RUNNING ||
    { test "$state" = PENDING && test "$(date +%s)" -gt "$requeued" && scontrol update job="$job" StartTime=now "$@"; }
}
"""
SACCT_FIELDS = (
    "JobID,JobName,User,Account,Partition,QOS,State,ExitCode,DerivedExitCode,Submit,Eligible,Start,End,ElapsedRaw,"
    "AllocTRES,NodeList,NNodes,Restarts,TimelimitRaw"
)
SQUEUE_FIELDS = {"id": "%i", "partition": "%P", "name": "%j", "user": "%u", "state": "%T", "time": "%M", "nodes": "%D",
                 "reason": "%r", "node_list": "%N", "qos": "%q", "priority": "%Q", "start": "%S"}  # fmt: skip

Row = dict[str, str]


def parse_records(text: str) -> list[list[tuple[str, str]]]:
    """The ``Key=value`` pairs of each line of ``scontrol --oneliner``, in order; keys may come several times."""
    starts = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_/:]*)=")
    records = []
    for line in text.splitlines():
        found = list(starts.finditer(line))
        ends = [one.start() for one in found[1:]] + [len(line)]
        if found:
            records.append([(one[1], line[one.end() : end].strip()) for one, end in zip(found, ends, strict=True)])
    return records


def parse_table(text: str) -> list[Row]:
    """Rows of a table whose first line names the columns."""
    lines = [line.split(SEPARATOR) for line in text.splitlines() if line.strip()]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def parse_indices(text: str) -> tuple[int, ...]:
    """``0-2,7`` as numbers."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def let_go(job: str, *changes: str) -> list[str]:
    """The operator's command that lets a requeued job start at once, if it does not run; fails while that is early."""
    return ["sh", "-c", LET_GO, "sh", job, *changes]


@dataclass(frozen=True)
class Job:
    """What ``scontrol show job`` says; ``fields`` has every field by Slurm's name, the first of several.

    By node: ``grants`` are the indices of GPUs that it has alone, ``shares`` of those that it has shards of.
    """

    fields: Mapping[str, str]
    grants: Mapping[str, tuple[int, ...]]
    shares: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The job's number."""
        return self.fields["JobId"]

    @property
    def state(self) -> str:
        """The job's state, such as RUNNING."""
        return self.fields["JobState"]

    @property
    def reason(self) -> str:
        """Why it is pending, or why it failed; None where there is nothing to say."""
        return self.fields.get("Reason", "")

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes it holds or held."""
        names = self.fields.get("NodeList", "")
        return expand_hosts(names) if names not in ("", "(null)") else []

    @property
    def tres(self) -> dict[str, str]:
        """What it was given: cpu, mem, node, gres/gpu and so on."""
        given = self.fields.get("AllocTRES", "")
        return parse_tres(given) if given not in ("", "(null)") else {}

    def __str__(self) -> str:
        """The state, with the reason if there is one."""
        return self.state if self.reason in ("", "None") else f"{self.state} ({self.reason})"


def parse_job(record: Sequence[tuple[str, str]]) -> Job:
    """One job of ``scontrol --details --oneliner show job``.

    GPUs have indices, ``gpu:a100:2(IDX:0-1)``; shards a part of each GPU in turn, ``shard:2(0/4,2/4)``.
    """
    fields: Row = {}
    grants: dict[str, tuple[int, ...]] = {}
    shares: dict[str, tuple[int, ...]] = {}
    hosts: list[str] = []
    for key, value in record:
        fields.setdefault(key, value)
        if key == "Nodes":
            hosts = expand_hosts(value)
        elif key == "GRES" and hosts:
            held = [index for part in re.findall(r"gpu(?::[^:(,]+)?:\d+\(IDX:([^)]*)\)", value)
                    for index in parse_indices(part)]  # fmt: skip
            grants.update({host: tuple(held) for host in hosts if held})
            parts = re.search(r"shard(?::[^:(,]+)?:\d+\((\d+/\d+(?:,\d+/\d+)*)\)", value)
            of = [gpu for gpu, part in enumerate(parts[1].split(",")) if not part.startswith("0/")] if parts else []
            shares.update({host: tuple(of) for host in hosts if of})
    return Job(fields, grants, shares)


class Slurm:
    """Slurm for one user; remembers the jobs it submitted, so that they can be taken away again."""

    def __init__(self, door: Door, user: str = "alice", folder: str = "smoke") -> None:
        """Commands run on the login node, in ``folder`` of the user's home."""
        self.login = Login(door, user, folder)
        self.submitted: list[str] = []

    def submit(self, *script: str, options: Sequence[str] = (), wrap: str = "", text: str = "") -> str:
        """sbatch a script with its arguments, a command line (``wrap``) or a script's ``text``; return the job's id.

        Raises LabError with Slurm's own words if it is refused.
        """
        what = ["--wrap", wrap] if wrap else list(script)
        answer = self.login.run("sbatch", "--parsable", *options, *what, stdin=text or None)
        self.submitted.append(answer.stdout.strip().split(";")[0])
        return self.submitted[-1]

    def run(self, *argv: str, options: Sequence[str] = (), timeout_s: float = 60, check: bool = True) -> str:
        """Run a command on nodes with srun and return what it printed."""
        return self.login.run("srun", *options, *argv, timeout_s=timeout_s, check=check).stdout

    def job(self, job_id: str) -> Job:
        """The job as the controller knows it. Raises LabError if it has been forgotten (MinJobAge) or never was."""
        return self.jobs(job_id)[0]

    def jobs(self, job_id: str = "") -> list[Job]:
        """Every job that the controller remembers, or the tasks of one array."""
        argv = ["scontrol", "--details", "--oneliner", "show", "job", *([job_id] if job_id else [])]
        return [parse_job(one) for one in parse_records(self.login.run(*argv).stdout) if one[0][0] == "JobId"]

    def queue(self, *options: str) -> list[Row]:
        """squeue; columns by the names of SQUEUE_FIELDS."""
        columns = SEPARATOR.join(SQUEUE_FIELDS.values())
        short = shlex.join(["squeue", *options])
        answer = self.login.run("squeue", "--noheader", *options, "--format", columns, note=short)
        return [dict(zip(SQUEUE_FIELDS, line.split(SEPARATOR), strict=True)) for line in answer.stdout.splitlines()]

    def sacct(self, *job_ids: str, options: Sequence[str] = ("--allocations",),
              fields: str = SACCT_FIELDS) -> list[Row]:  # fmt: skip
        """Accounting records, a requeued job's earlier ones too, oldest first; times are seconds since 1970."""
        which = ["--jobs", ",".join(job_ids)] if job_ids else []
        form = ("--duplicates", "--parsable2", f"--delimiter={SEPARATOR}", "--format", fields)
        short = shlex.join(["sacct", *options, *which])
        answer = self.login.run("env", "SLURM_TIME_FORMAT=%s", "sacct", *options, *which, *form, note=short)
        return parse_table(answer.stdout)

    def wait_state(self, job_id: str, wanted: Collection[str], timeout_s: float = 30) -> Job:
        """Wait until the job is in one of the states; give up at once when it cannot get there any more."""

        def stuck(job: Job) -> bool:
            if job.state in wanted:
                return False
            return job.state in FINAL or (job.state == "PENDING" and job.reason in HOPELESS)

        job = wait_for(f"job {job_id} {' or '.join(sorted(wanted))}", lambda: self.job(job_id),
                       lambda job: job.state in wanted or stuck(job), timeout_s=timeout_s, interval_s=0.2,
                       look_at=f"scontrol show job {job_id}; make logs NODE=slurmctld")  # fmt: skip
        if stuck(job):
            raise LabError(f"job {job_id} is {job}, it cannot become {' or '.join(sorted(wanted))}",
                           f"scontrol show job {job_id}, and its log {job.fields.get('StdOut', '')}")  # fmt: skip
        return job

    def wait_recorded(self, job_id: str, states: Collection[str] = FINAL, timeout_s: float = 15) -> Row:
        """Wait for the job's accounting record in one of the states (the first word of State); return the latest."""

        def latest() -> Row:
            rows = self.sacct(job_id)
            return rows[-1] if rows else {"State": "no record yet"}

        return wait_for(f"accounting record of job {job_id}", latest, lambda row: row["State"].split()[0] in states,
                        timeout_s=timeout_s, show=lambda row: row["State"],
                        look_at=f"sacct -j {job_id}; make logs NODE=slurmdbd")  # fmt: skip

    def start_requeued(self, job_id: str, timeout_s: float = 30) -> None:
        """Have the operator start a job that was put back into the queue, which Slurm holds back for two minutes."""
        wait_for(f"the operator starts job {job_id} again",
                 lambda: self.login.door.exec("slurmctld", let_go(job_id), check=False),
                 lambda done: done.exit_code == 0, timeout_s=timeout_s, show=lambda done: done.stderr,
                 look_at=f"scontrol show job {job_id}")  # fmt: skip

    def cancel(self, *job_ids: str) -> None:
        """Cancel jobs; one that has ended is no error."""
        if job_ids:
            self.login.run("scancel", *job_ids)

    def clean_up(self) -> None:
        """Cancel what this object has submitted and what has not ended."""
        if self.submitted:
            self.login.run("scancel", "--quiet", *self.submitted, check=False, note="")
