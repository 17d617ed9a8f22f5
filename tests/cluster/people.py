"""People of the lab as the tests play them: many jobs in one command, the queue in one look, nothing left behind."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from provisioning.accounting import Change, settle_accounting
from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.lab import Lab
from provisioning.load import load_text
from provisioning.plan_facts import sacctmgr_run
from provisioning.waiting import wait_for
from smoke.slurm import SACCT_FIELDS, Row, Slurm

#: Options of every job, so small that any number of them fits beside each other; later options win.
SMALL = "--cpus-per-task=1 --mem=50M --time=10 --output=/dev/null"
#: What a job does if nothing else is said: longer than any test.
SLEEP = "sleep 600"
#: Options alone, or options and the command line of the job.
Ask = str | tuple[str, str]


class Person(Slurm):
    """One user in their home; ``leave`` takes every job away."""

    def __init__(self, cluster: Cluster, user: str) -> None:
        super().__init__(cluster, user, folder="")

    def sh(self, script: str, *, check: bool = True, timeout_s: float = 60) -> str:
        """Both outputs of a shell script on the login node. Raises LabError if it fails."""
        done = self.login.run("bash", "-c", f"exec 2>&1\n{script}", check=check, timeout_s=timeout_s)
        return done.stdout

    def batch(self, asks: Mapping[str, Ask]) -> dict[str, str]:
        """Submit jobs in order, by name; return their ids. Raises LabError with Slurm's words for the first refused."""
        said = self._submit(asks)
        if refused := {name: text for name, text in said.items() if not text.isdigit()}:
            raise LabError(f"refused: {refused}")
        return said

    def refusals(self, asks: Mapping[str, Ask]) -> dict[str, str]:
        """What Slurm says to jobs that it must not take. Raises LabError if it takes one."""
        said = self._submit(asks)
        if taken := [name for name, text in said.items() if text.isdigit()]:
            raise LabError(f"accepted: {', '.join(taken)}")
        return said

    def _submit(self, asks: Mapping[str, Ask]) -> dict[str, str]:
        """A job's id, or what sbatch said when it failed, by name."""
        lines = []
        for name, ask in asks.items():
            options, command = (ask, SLEEP) if isinstance(ask, str) else ask
            argv = ["sbatch", "--parsable", f"--job-name={name}", *shlex.split(f"{SMALL} {options}"), "--wrap", command]
            lines.append(f"said=$({shlex.join(argv)} 2>&1) && echo $said || echo refused: $said")
        answers = self.login.run("bash", "-c", "\n".join(lines)).stdout.splitlines()
        self.submitted += [text for text in answers if text.isdigit()]
        return dict(zip(asks, answers, strict=True))

    def seen(self, *job_ids: str) -> dict[str, str]:
        """Each job (or array task) as ``RUNNING``, or as ``PENDING Resources`` while it waits."""
        rows = self.queue("--states=all", "--array", "--jobs", ",".join(job_ids))
        return {row["id"]: " ".join([row["state"], *([row["reason"]] if row["state"] == "PENDING" else [])])
                for row in rows}  # fmt: skip

    def wait_seen(self, wanted: Mapping[str, str], timeout_s: float = 40) -> None:
        """Wait until the jobs are what ``wanted`` says, all at the same moment; only the state counts if that is all
        that is said."""

        def right(seen: Mapping[str, str]) -> bool:
            return all(want in (seen.get(job, ""), seen.get(job, "").split(" ")[0]) for job, want in wanted.items())

        wait_for(f"jobs {wanted}", lambda: self.seen(*wanted), right, timeout_s=timeout_s, look_at="squeue")

    def records(self, job_id: str) -> dict[str, Row]:
        """Accounting of a job and its steps, by id without the job's: ``""``, ``.batch``, ``.0``."""
        rows = self.sacct(job_id, options=(), fields=f"{SACCT_FIELDS},NTasks")
        return {row["JobID"].removeprefix(job_id): row for row in rows}

    def wait_preempted(self, job_id: str) -> Row:
        """Wait for the first run's record to say PREEMPTED, and return it."""
        return wait_for(f"job {job_id} was preempted", lambda: self.sacct(job_id)[0],
                        lambda row: row["State"] == "PREEMPTED", timeout_s=15, show=lambda row: row["State"],
                        look_at=f"sacct -D -j {job_id}")  # fmt: skip

    def leave(self) -> None:
        """Cancel everything and wait until no node holds any of it."""
        if not self.submitted:
            return
        jobs = ",".join(self.submitted)
        self.clean_up()
        wait_for(f"{self.login.user}'s jobs are gone", lambda: self.queue("--jobs", jobs), lambda rows: not rows,
                 timeout_s=60)  # fmt: skip
        self.submitted.clear()


#: QOS and an account that exist while a test needs them, as an administrator would add them to the YAML.
#: `urgent` stands before the QOS that it preempts, and `teamA` has a capital letter: both are to work.
MORE_QOS = """
  - {name: urgent, priority: 1000, preempt: [young, graced]}
  - {name: young, priority: 10, preempt_mode: requeue, preempt_exempt_time: 00:00:08}
  - {name: graced, priority: 10, preempt_mode: requeue, grace_time: 3}
  - {name: free, priority: 10, usage_factor: 0}
  - {name: dev, priority: 50, max_wall: 02:00:00, max_tres_per_user: gres/gpu=2}
  - {name: regular, priority: 40, max_wall: 20:00:00, max_tres_per_user: gres/gpu=8}
  - {name: long, priority: 30, max_wall: 4-04:00:00, max_tres_per_user: gres/gpu=4}
  - {name: strict, max_wall: 02:00:00, max_tres_per_user: gres/gpu=2, flags: [DenyOnLimit]}
  - {name: group, grp_tres: gres/gpu=2}
  - {name: megabytes, max_tres_per_job: mem=2000}
  - {name: gigabytes, max_tres_per_job: mem=2G}
  - {name: few, max_jobs_per_user: 1, max_submit_jobs_per_user: 3}
"""
MORE_ACCOUNTS = """
  - {name: teamA, grp_tres: gres/gpu=2, default_qos: normal, qos: [normal]}
  - {name: even, default_qos: normal, qos: [normal, free]}
"""
_NAMES = "urgent, young, graced, free, dev, regular, long, strict, group, megabytes, gigabytes, few"


def lab_with_more(text: str) -> Lab:
    """The default lab's YAML with the additions above."""
    for old, new in (
        ("\nqos:", f"\nqos:{MORE_QOS}"),
        ("\naccounts:", f"\naccounts:{MORE_ACCOUNTS}"),
        ("    qos: [normal, low, high, debug, capped]", f"    qos: [normal, low, high, debug, capped, {_NAMES}]"),
        ("    accounts: [research, teaching]", "    accounts: [research, teaching, teamA, even]"),
        ("    accounts: [teaching, research]", "    accounts: [teaching, research, teamA, even]"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    return load_text(text, "default.yaml")


def settle(cluster: Cluster, lab: Lab) -> list[Change]:
    """Make the running accounting what a lab says. Raises LabError if a difference is left."""
    return settle_accounting(lab, sacctmgr_run(cluster))


@contextmanager
def more_accounting(cluster: Cluster) -> Iterator[Lab]:
    """The lab with more QOS and accounts, until the end of the block."""
    lab = lab_with_more((cluster.settings.root / "provisioning/labs/default.yaml").read_text(encoding="utf-8"))
    try:
        settle(cluster, lab)
        yield lab
    finally:
        settle(cluster, cluster.lab)
