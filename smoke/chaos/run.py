"""One run of chaos: the load begins, faults come one after the other, and what is left is judged."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from provisioning.errors import LabError
from provisioning.waiting import wait_for
from smoke.chaos.inflict import KILLS_SLURMCTLD, inflict, missing, wait_whole
from smoke.chaos.load import Load
from smoke.chaos.plan import Fault
from smoke.chaos.verdict import Settled, grown, overlaps, ran_again, runs, settle
from smoke.chaos.watch import Census, Watch, census, extra, memory, records, stamps, states
from smoke.faults import heal
from smoke.ray import FINAL as RAY_FINAL
from smoke.ray import RayUser
from smoke.slurm import FINAL, let_go
from smoke.stage import PAYLOADS, Stage

#: Bounds after the last fault, in seconds: until all jobs have ended, accounting has it, and no process is left.
DRAIN_S, RECORDED_S, GONE_S = 300, 60, 120
#: A Ray job for which there is room begins sooner.
UNBEGUN_S = 120
#: What chaos does not wait for: the ends of a Ray job, and one that waits although nothing keeps it from beginning.
RAY_SETTLED = RAY_FINAL | {"UNBEGUN"}


@dataclass
class Outcome:
    """What a run counts, by name; ``problems`` are the invariants that did not hold, in words."""

    seed: int
    minutes: float
    faults: list[Fault] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    slowest_recovery_s: float = 0.0
    #: it came to its end: what is not among the problems held
    judged: bool = False
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        kinds = dict(sorted(Counter(fault.kind for fault in self.faults).items()))
        return {"seed": self.seed, "minutes": self.minutes, "faults": len(self.faults), "kinds": kinds, **self.counts,
                "slowest_recovery_s": round(self.slowest_recovery_s, 1), "problems": self.problems}  # fmt: skip


class Chaos:
    """One run on one lab."""

    def __init__(self, stage: Stage, outcome: Outcome, console: Console) -> None:
        """The stage is open: the lab is this run's alone."""
        self.stage, self.outcome, self.console = stage, outcome, console
        self.cluster = stage.cluster
        self.load = Load(self.cluster, stage.folder, outcome.seed)
        self.watch = Watch(self.cluster)
        #: between which instants slurmctld was killed, in seconds since 1970
        self.kills: list[tuple[float, float]] = []

    def play(self, faults: Sequence[Fault]) -> None:
        """Faults under load, then the judgement. After an error and after Ctrl-C the lab is whole, and counted."""
        self._lay_out()
        self.stage.undo("Ray jobs", self.load.stop_ray)
        (before, _), used = census(self.cluster), memory(self.cluster)
        with ThreadPoolExecutor(8) as pool:
            parts = [pool.submit(self.watch.run), pool.submit(self.load.submit_ray),
                     *(pool.submit(self.load.submit_slurm, user) for user in self.load.users)]  # fmt: skip
            try:
                for fault in faults:
                    self._inflict(fault)
            finally:
                self.load.over.set()
                self.watch.over.set()
                self._count_load()  # before what may fail
                self._make_whole()
            for part in parts:
                part.result()
        self._count_load()
        self._drain_slurm()
        self._drain_ray()
        self._judge_gpus(self._judge_jobs())
        self._judge_rest(before, used)
        self.outcome.judged = True

    def _lay_out(self) -> None:
        self.stage.shell(self.stage.user(), f"install -d -m 1777 {self.stage.folder}/stamps")
        self.stage.put(PAYLOADS / "stamps.sh")

    # -- faults

    def _inflict(self, fault: Fault) -> None:
        time.sleep(fault.rest_s)  # load without a fault, not a wait for something
        self.outcome.faults.append(fault)

        def struck(begun: float, done: float) -> None:
            if fault.kind in KILLS_SLURMCTLD:
                self.kills.append((begun, done))

        try:
            with redirect_stdout(io.StringIO()):  # up and down say much, and with --json nothing else may be said
                seconds = inflict(self.cluster, fault, struck, self.watch.looking)
        except LabError as error:
            self._problem(f"{fault}: {error.what}")
            self._make_whole()
            return
        self.outcome.slowest_recovery_s = max(self.outcome.slowest_recovery_s, seconds)
        self.console.print(f"{fault}: whole again after {seconds:.1f} s")

    def _make_whole(self) -> None:
        with redirect_stdout(io.StringIO()):
            heal(self.cluster)
        wait_whole(self.cluster)

    def _problem(self, text: str) -> None:
        self.console.print(text, style="red", markup=False)
        self.outcome.problems.append(text)

    def _count_load(self) -> None:
        jobs, ray = self.load.jobs, self.load.ray_jobs
        self.outcome.counts |= {
            "jobs": sum(bool(one.job) for one in jobs),
            "refused": sum(bool(one.refusal) for one in jobs),
            "unanswered": sum(not one.job and not one.refusal for one in jobs),
            "ray_jobs": sum(bool(one.job) for one in ray),
            "ray_refused": sum(not one.job for one in ray),
            "audits": self.watch.audits,
            "audits_cut_short": self.watch.cut_short,
        }

    # -- afterwards

    def _bounded(self, what: str, left: Callable[[], list[str]], timeout_s: float) -> None:
        """Wait until nothing is left; what is left at the bound is a problem."""
        try:
            wait_for(what, left, lambda found: not found, timeout_s=timeout_s, interval_s=1, show=", ".join)
        except LabError as error:
            self._problem(error.what)

    def _drain_slurm(self) -> None:
        """Wait until every job has ended. Those that wait two minutes after a requeue may start at once."""

        def left() -> list[str]:
            waiting = self.stage.operator("squeue", "--noheader", "--states=PD", "--format=%A|%r").stdout.splitlines()
            for job, reason in (row.split("|") for row in waiting):
                if reason == "BeginTime":
                    self.stage.operator(*let_go(job), check=False)
            return [f"{name} {state}" for name, state in states(self.stage).items()
                    if self.load.mine(name) and state not in FINAL]  # fmt: skip

        self.console.print("waiting until all jobs have ended")
        self._bounded("jobs", left, DRAIN_S)

    def _drain_ray(self) -> None:
        user = RayUser(self.cluster, self.load.users[0], "")

        def known() -> dict[str, str]:
            """A job that a killed head had accepted and not begun is queued, until Ray gives it up after 15 minutes."""
            found = {}
            for row in user.rest("/api/jobs/"):
                if self.load.mine(row["submission_id"] or ""):
                    waits = row["status"] == "PENDING" and time.time() - row["start_time"] / 1000 > UNBEGUN_S
                    found[row["submission_id"]] = "UNBEGUN" if waits else row["status"]
            return found

        def left() -> list[str]:
            now = known()
            accepted = {one.name: "unknown to Ray" for one in self.load.ray_jobs if one.job}
            return [f"{name} {state}" for name, state in (accepted | now).items() if state not in RAY_SETTLED]

        self._bounded("Ray jobs", left, DRAIN_S)
        ended = Counter(known().values())
        self.outcome.counts |= {f"ray_{state.lower()}": ended[state] for state in sorted(RAY_SETTLED)}

    def _judge_jobs(self) -> list[str]:
        """Submissions against records; slurmctld may still be handing some over. Returns the jobs it has forgotten."""
        found = Settled()

        def left() -> list[str]:
            nonlocal found
            found = settle(self.load.jobs, records(self.stage, self.load.run), states(self.stage), self.kills)
            return found.problems

        self._bounded("records", left, RECORDED_S)
        self.outcome.counts |= {"ended": len(found.ended), "queued": len(found.queued), "losses": len(found.lost),
                                "forgotten": len(found.forgotten), "ended_again": len(found.ended_again)}  # fmt: skip
        return found.forgotten

    def _judge_gpus(self, forgotten: list[str]) -> None:
        seen = runs(stamps(self.stage))
        twice = [*self.watch.held_twice, *overlaps(seen, forgotten, self.kills)]
        for row in twice:
            self._problem(f"held twice: {row}")
        self.outcome.counts |= {"runs": len(seen), "ran_again": len(ran_again(seen)), "held_twice": len(twice)}

    def _judge_rest(self, before: Census, used: dict[str, float]) -> None:
        """Nodes, processes and memory beside what there was before."""
        zombies: list[str] = []
        more: list[str] = []

        def left() -> list[str]:
            now, zombies[:] = census(self.cluster)
            more[:] = extra(before, now)
            return [*(f"zombie {row}" for row in zombies), *more]

        self._bounded("processes that were not there before", left, GONE_S)
        lost = missing(self.cluster)
        large = grown(used, memory(self.cluster))
        for row in [*(f"node lost: {row}" for row in lost), *(f"memory grew: {row}" for row in large)]:
            self._problem(row)
        self.outcome.counts |= {"nodes_lost": len(lost), "zombies": len(zombies), "orphans": len(more),
                                "services_grown": len(large)}  # fmt: skip
