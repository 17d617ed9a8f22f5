"""The stage of a scenario: submits its jobs as users of the lab, reads the scheduler's records, leaves nothing behind.

Times are epoch seconds: from ``sacct --duplicates`` (whole seconds, see sacct(1)) and from what the payload writes.
"""

from __future__ import annotations

import fcntl
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from provisioning.accounting import apply_accounting, desired_accounting, plan_accounting, settle_accounting
from provisioning.cluster import Cluster, Result
from provisioning.errors import LabError
from provisioning.lab import Lab
from provisioning.plan_facts import sacctmgr_run
from provisioning.waiting import wait_for
from smoke.clock import Clock
from smoke.parts import Parts
from smoke.records import QUEUED, Note, Queued, Record, record_of
from smoke.slurm import FINAL, Job, Slurm, parse_job, parse_records

PAYLOADS = Path(__file__).resolve().parent / "payloads"
PAYLOAD = PAYLOADS / "compressed_job.py"
DRIVERS = Path(__file__).resolve().parent / "scenarios" / "drivers"
#: Jobs of a scenario carry this comment; only they are cancelled.
COMMENT = "scenario"
DRIVER_PID = "/tmp/scenario-driver.pid"
#: Prints a file once it has so many lines of a kind, after two seconds at the latest. Looking from within costs a
#: hundredth of a command that enters the container each time; several at once would slow down what they look at.
LOOK = """
for look in $(seq 20); do
    test "$(grep -cE "$2" "$1" 2>/dev/null)" -ge "$3" 2>/dev/null && break
    sleep 0.1
done
cat "$1"
"""


@dataclass
class Stage(Parts):
    """What a measurement works with."""

    cluster: Cluster
    clock: Clock
    name: str
    say: Callable[[str], None] = print
    jobs: list[str] = field(default_factory=list)
    #: Whether the lab is this scenario's.
    taken: bool = False
    _undo: list[tuple[str, Callable[[], object]]] = field(default_factory=list)
    _lock: IO[str] | None = None

    @property
    def folder(self) -> str:
        """A folder that login and all nodes see."""
        return f"/scratch/scenario-{self.name}"

    # -- before and after

    def open(self) -> None:
        """Take the lab for this scenario alone. Raises LabError, and has changed nothing, if somebody else uses it."""
        self._take_lock()
        self._must_be_idle()
        self.taken = True
        self.undo("folder", lambda: self.cluster.exec("login", ["rm", "-rf", self.folder]))
        self.cluster.exec("login", ["rm", "-rf", self.folder])
        self.shell(self.user(), f"install -d -m 1777 {self.folder}")
        self.put(PAYLOAD, "job.py")

    def _take_lock(self) -> None:
        self.cluster.settings.generated.mkdir(parents=True, exist_ok=True)
        self._lock = (self.cluster.settings.generated / "scenario.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._drop_lock()
            raise LabError("another scenario runs on this lab", "wait until it is over") from error

    def _drop_lock(self) -> None:
        if self._lock:
            self._lock.close()

    def _must_be_idle(self) -> None:
        others = self.queue()
        if others:
            users = sorted({job.user for job in others})
            raise LabError(
                f"the lab has {len(others)} jobs of {', '.join(users)}; a scenario needs an empty queue",
                "wait until they are over, cancel them with scancel, or bring up a second lab with PROJECT=",
            )
        idle = self.operator("sinfo", "--noheader", "--Node", "--format=%N %t").stdout.split()
        states = zip(idle[::2], idle[1::2], strict=True)
        # planned is idle too: kept for a job that waited, until backfill's next round
        busy = sorted({f"{node} {state}" for node, state in states if state not in ("idle", "plnd")})
        if busy:
            raise LabError(f"not every node is idle: {', '.join(busy)}", "make status names the reason")

    def undo(self, what: str, action: Callable[[], object]) -> None:
        """Do ``action`` when the scenario is over, however it ends; the last one first."""
        self._undo.append((what, action))

    def close(self) -> None:
        """Cancel the scenario's jobs, wait until they are gone, undo what was changed. Raises LabError at the end.

        A lab that was not taken, since somebody else uses it, is left alone.
        """
        problems = []
        self._over.clear()  # the parts have ended; what undoes may wait again
        try:
            if self.taken:
                self.cancel_all()
        except LabError as error:
            problems.append(error.what)
        for what, action in reversed(self._undo):
            try:
                action()
            except Exception as error:  # whatever it is, the others are undone
                problems.append(f"{what}: {error}")
        self._undo.clear()
        self.taken = False
        self._drop_lock()
        if problems:
            raise LabError(f"the scenario could not restore everything: {'; '.join(problems)}", "make status")

    def cancel_all(self, timeout_s: float = 40) -> None:
        """Cancel what this scenario submitted and wait until the queue is free of it."""

        def mine() -> list[str]:
            rows = self.operator("squeue", "--noheader", "--states=all", "--format=%A|%k|%T").stdout.splitlines()
            fields = (row.split("|") for row in rows)
            return sorted({job for job, comment, state in fields if comment == COMMENT and state not in FINAL})

        left = mine()
        if left:
            self.operator("scancel", *left, check=False)
        wait_for("jobs of the scenario are gone", mine, lambda jobs: not jobs, timeout_s=timeout_s,
                 show=lambda jobs: f"still there: {', '.join(jobs)}",
                 look_at="squeue; make logs NODE=slurmctld")  # fmt: skip

    def reshape(self, changed: Lab) -> None:
        """Make the running lab another one until the scenario is over: its slurm.conf and its accounting."""
        lab = self.cluster.lab
        self.undo("the lab's settings", self._become_itself)
        changes = plan_accounting(desired_accounting(changed), desired_accounting(lab))
        apply_accounting(changes, sacctmgr_run(self.cluster))
        self._take_files(changed)

    def _become_itself(self) -> None:
        """From whatever a change that was cut short has left."""
        settle_accounting(self.cluster.lab, sacctmgr_run(self.cluster))
        self._take_files(self.cluster.lab)

    def _take_files(self, lab: Lab) -> None:
        if Cluster(self.cluster.settings, lab).write_files():
            self.reconfigure()
            self.wait_login()

    def reconfigure(self) -> None:
        """Let the daemons read their files anew; slurmctld then also counts usage and priorities anew."""
        self.operator("scontrol", "reconfigure")

    def wait_login(self) -> None:
        """Wait until commands of the login node reach the controller, which has started anew at a reconfigure."""
        wait_for("the login node answers", lambda: self.cluster.exec("login", ["sinfo", "--noheader"]).exit_code == 0,
                 timeout_s=40, look_at="make logs NODE=login")  # fmt: skip

    # -- people

    def user(self, number: int = 0) -> str:
        """The lab's users in the order of the YAML."""
        return self.cluster.lab.users[number].name

    def slurm(self, user: str = "") -> Slurm:
        """Slurm's commands as a user types them."""
        return Slurm(self.cluster, user or self.user(), folder="")

    def shell(self, user: str, script: str, *, stdin: str | None = None, timeout_s: float = 60) -> str:
        """Run shell commands as a user on the login node and return what they printed."""
        login = self.slurm(user).login
        return login.run("sh", "-ec", script, stdin=stdin, timeout_s=timeout_s, workdir="/scratch").stdout

    def operator(self, *argv: str, check: bool = True) -> Result:
        """Run one Slurm command as the operator."""
        return self.cluster.exec("slurmctld", argv, env={"SLURM_TIME_FORMAT": "%s"}, check=check)

    # -- jobs

    def put(self, source: Path, name: str = "") -> str:
        """Copy a program into the folder, for everybody to run; return its path there."""
        path = f"{self.folder}/{name or source.name}"
        self.shell(self.user(), f"cat > {path}; chmod 755 {path}", stdin=source.read_text(encoding="utf-8"))
        return path

    def command(self, name: str, options: Sequence[str], payload: Sequence[str], inside: Sequence[str] = ()) -> str:
        """The sbatch command of one job that runs the payload; its log is NAME.log in the folder.

        ``inside`` is a batch script, with its first arguments, that starts the payload in the end.
        """
        argv = ["sbatch", "--parsable", f"--job-name={name}", f"--comment={COMMENT}", f"--chdir={self.folder}",
                f"--output={self.folder}/{name}.out", "--open-mode=append", "--cpus-per-task=1", "--mem=200M", *options,
                *inside, f"{self.folder}/job.py", f"--scale={self.clock.second_per_min}",
                f"--log={self.folder}/{name}.log", *payload]  # fmt: skip
        return shlex.join(argv)

    def submit(self, user: str, *commands: str) -> list[str]:
        """Submit jobs as one user, in order, in one go. Raises LabError with Slurm's own words."""
        out = self.shell(user, "\n".join(commands))
        jobs = [line.split(";")[0] for line in out.split()]
        self.jobs += jobs
        return jobs

    def queue(self) -> list[Queued]:
        """What squeue says now; jobs that are being cleaned up are in it."""
        text = self.operator("squeue", "--noheader", f"--format={QUEUED}").stdout
        return [Queued(*line.split("|")) for line in text.splitlines() if line.strip()]

    def job(self, job: str) -> Job:
        """What ``scontrol show job`` says, in the operator's eyes."""
        self.sleep_until(0)
        text = self.operator("scontrol", "--details", "--oneliner", "show", "job", job).stdout
        return parse_job(parse_records(text)[0])

    def wait_job(self, what: str, job: str, ok: Callable[[Job], bool], timeout_s: float = 30) -> Job:
        """Wait until ``ok`` accepts a job."""
        return wait_for(f"job {job}: {what}", lambda: self.job(job), ok, timeout_s=timeout_s, interval_s=0.1,
                        look_at=f"scontrol show job {job}")  # fmt: skip

    def sacct(self, jobs: Sequence[str] = ()) -> list[Record]:
        """Every run of the scenario's jobs (or of these), in order of start."""
        self.sleep_until(0)
        rows = self.slurm().sacct(*(jobs or self.jobs), options=("--allocations", "--allusers"))
        found = [record_of(row) for row in rows]
        return sorted(found, key=lambda one: (one.start or 1e12, one.job))

    def wait_over(self, *jobs: str, timeout_s: float = 90) -> list[Record]:
        """Wait until accounting has the last run of each job, and return all runs."""

        def last_is_over(records: list[Record]) -> bool:
            last = {one.job: one for one in records}
            return len(last) == len(set(jobs)) and all(one.over for one in last.values())

        return wait_for("jobs end", lambda: self.sacct(jobs), last_is_over, timeout_s=timeout_s, interval_s=0.5,
                        show=lambda rows: ", ".join(f"{one.name} {one.state}" for one in rows),
                        look_at="squeue; make logs NODE=slurmctld")  # fmt: skip

    def notes(self, name: str) -> list[Note]:
        """What the payload of a job wrote so far."""
        return self._notes(["cat", f"{self.folder}/{name}.log"])

    def _notes(self, argv: list[str]) -> list[Note]:
        """The whole lines that a command on the login node prints."""
        self.sleep_until(0)
        text = self.cluster.exec("login", argv, check=False).stdout
        lines = text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]
        return [Note(**json.loads(line)) for line in lines]

    def all_notes(self) -> list[Note]:
        """What the payloads of all jobs wrote, in order of time."""
        text = self.cluster.exec("login", ["sh", "-c", f"cat {self.folder}/*.log"], check=False).stdout
        return sorted((Note(**json.loads(line)) for line in text.splitlines()), key=lambda note: note.t)

    def wait_note(self, name: str, *events: str, count: int = 1, timeout_s: float = 60) -> Note:
        """Wait for the ``count``-th line of these kinds."""
        look = ["sh", "-c", LOOK, "sh", f"{self.folder}/{name}.log", f'"event": "({"|".join(events)})"', str(count)]

        def seen() -> list[Note]:
            return [note for note in self._notes(look) if note.event in events]

        found = wait_for(f"{name}: {', '.join(events)}", seen, lambda notes: len(notes) >= count,
                         timeout_s=timeout_s, interval_s=0,
                         show=lambda notes: f"{len(notes)} of {count}", look_at="squeue")  # fmt: skip
        return found[count - 1]

    # -- Ray

    def driver(self, name: str, *args: str, timeout_s: float = 90) -> dict[str, Any]:
        """Run a driver of scenarios/drivers on Ray's head and return the JSON of its last line."""
        source = (DRIVERS / f"{name}.py").read_text(encoding="utf-8")
        env = {"HOME": "/var/lib/ray", "RAY_ADDRESS": "", "PYTHONWARNINGS": "ignore"}
        keep_pid = f'echo $$ > {DRIVER_PID}; exec timeout "$@"'
        argv = ["sh", "-c", keep_pid, "sh", str(round(timeout_s)), "python3", "-", *args]
        self.undo("Ray driver", self.end_blocking_calls)
        done = self.cluster.exec("ray-head", argv, user="ray", workdir="/var/lib/ray", env=env, stdin=source,
                                 timeout_s=timeout_s + 10)  # fmt: skip
        lines = done.stdout.strip().splitlines()
        if not lines:
            raise LabError(f"the Ray driver {name} said nothing: {done.last_lines}", "make logs NODE=ray-head")
        answer: dict[str, Any] = json.loads(lines[-1])
        if "error" in answer:
            raise LabError(f"the Ray driver {name}: {answer['error']}", "make status")
        return answer

    def end_blocking_calls(self) -> None:
        """End a driver that outlived its caller; what it holds in Ray goes with it."""
        script = f"test -e {DRIVER_PID} && kill $(cat {DRIVER_PID}) 2>/dev/null; rm -f {DRIVER_PID}"
        self.cluster.exec("ray-head", ["sh", "-c", script], user="ray", check=False)
