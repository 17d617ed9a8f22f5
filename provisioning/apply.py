"""``make apply``: make the running lab what its YAML says, in steps; after it the plan is empty.

Follows scontrol(1) (reconfigure, update) and sacctmgr(1). A step that fails ends the apply with what was done and
what was not; a second apply goes on from there, since every apply starts from what is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from provisioning.accounting import add_named_qos, settle_accounting
from provisioning.apply_steps import REASON, Step, make_steps
from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.plan import make_plan
from provisioning.plan_config import LINE_FILES, held_back, parse_config, parse_rows
from provisioning.plan_facts import Facts, files_in_use, read_facts, sacctmgr_run
from provisioning.progress import Progress
from provisioning.ready import wait_nodes, wait_ray, wait_registered
from provisioning.settings import Settings
from provisioning.up import refuse_other_owner
from provisioning.waiting import wait_for

READY_S, REGISTERED_S = 120.0, 60.0
#: How long jobs may take to leave a node: those that just ended, and those that were ended by force.
LEAVE_S, FORCED_LEAVE_S = 5.0, 60.0
#: slurmctld answers once more before it finds that it cannot live with its new files: it must answer this often.
STEADY = 4
#: What could not be asked while a daemon was down is seen, and closed, in a second pass.
PASSES = 2


class Applier:
    """Carries out the steps of one apply on one lab."""

    def __init__(self, cluster: Cluster, progress: Progress, *, force: bool) -> None:
        """``force`` ends jobs on nodes that go."""
        self.cluster = cluster
        self.progress = progress
        self.force = force
        self.former: dict[str, str] = {}

    def run(self, steps: Sequence[Step]) -> None:
        """Raises LabError with the step that failed, those done and those not done."""
        for number, step in enumerate(steps):
            self.progress.waiting("apply", str(step))
            try:
                self._act(step)
            except LabError as error:
                done, left = (", ".join(map(str, part)) or "nothing" for part in (steps[:number], steps[number:]))
                raise LabError(f"{error.what}\n  done: {done}\n  not done: {left}",
                               error.hint or "make apply again goes on from here") from error  # fmt: skip
            finally:
                self.progress.waiting("apply", "")
            self.progress.say("apply", str(step))

    def _act(self, step: Step) -> None:
        match step.action:
            case "drain":
                self._drain(step.on)
            case "let go of":
                self._let_go(step.on)
            case "write files":
                self.former = files_in_use(self.cluster)
                self.cluster.write_files()
            case "make homes":
                self.cluster.exec("login", ["lab-homes"], timeout_s=120)
            case "add qos":
                add_named_qos(self.cluster.lab, sacctmgr_run(self.cluster))
            case "start" | "make anew":
                # a daemon may have to start anew although its container would stay as it is: only its files differ
                self.cluster.compose("up", "--detach", "--no-build", "--no-deps", "--force-recreate", *step.on)
                self._wait_controller()
            case "remove":
                self.cluster.remove(step.on)
            case "reconfigure":
                self._reconfigure()
            case "restart":
                self.cluster.compose("restart", *step.on)
            case "accounting":
                wait_registered(self.cluster, self.progress, REGISTERED_S)
                settle_accounting(self.cluster.lab, sacctmgr_run(self.cluster))
            case "resume":
                self._resume(step.on)
            case "wait":
                wait_nodes(self.cluster, self.progress, READY_S)
                wait_ray(self.cluster, self.progress, READY_S)

    def _scontrol(self, *words: str, check: bool = True) -> str:
        return self.cluster.exec("slurmctld", ["scontrol", *words], check=check, timeout_s=30).stdout

    # -- nodes

    def _lines(self, *argv: str) -> list[str]:
        return self.cluster.exec("slurmctld", argv).stdout.splitlines()

    def _jobs_on(self, nodes: Sequence[str]) -> list[str]:
        return self._lines("squeue", "-h", "-w", ",".join(nodes), "-o", "%A (%u, %T, %N)")

    def _drain(self, nodes: tuple[str, ...]) -> None:
        """No new jobs there; refuse while jobs run, unless forced. A drain by hand keeps its reason."""
        if not nodes:
            return
        rows = parse_rows(self._scontrol("-o", "show", "node"), "NodeName")
        fresh = [name for name in nodes if name in rows and not held_back({name: rows[name]})]
        known = [name for name in nodes if name in rows]
        if fresh:
            self._scontrol("update", f"NodeName={','.join(fresh)}", "State=DRAIN", f"Reason={REASON}")
        if not known:
            return

        def gone(bound: float) -> None:
            wait_for("jobs on nodes that are removed or made anew", lambda: self._jobs_on(known), lambda jobs: not jobs,
                     timeout_s=bound, show=", ".join, look_at="squeue")  # fmt: skip

        try:
            gone(LEAVE_S)
        except LabError:
            if not self.force:
                raise LabError(
                    f"jobs run on nodes that are to be removed or made anew: {', '.join(self._jobs_on(known))}; "
                    f"{', '.join(known)} take no new ones",
                    "make apply when they have ended, or make apply FORCE=1 to end them (batch jobs are requeued)",
                ) from None
            self._scontrol("update", f"NodeName={','.join(known)}", "State=DOWN", f"Reason={REASON}")
            gone(FORCED_LEAVE_S)

    def _let_go(self, users: tuple[str, ...]) -> None:
        """Users with jobs cannot leave accounting, and without their name their jobs are hard to end."""
        jobs = self._lines("squeue", "-h", "-u", ",".join(users), "-o", "%A (%u, %T)")
        if jobs and not self.force:
            raise LabError(f"users that are to be removed have jobs: {', '.join(jobs)}",
                           "wait for them or scancel -u NAME, then make apply; or make apply FORCE=1")  # fmt: skip
        if jobs:
            self._lines("scancel", "-u", ",".join(users))
            wait_for("jobs of users that are removed", lambda: self._lines("squeue", "-h", "-u", ",".join(users)),
                     lambda left: not left, timeout_s=FORCED_LEAVE_S, show=", ".join, look_at="squeue")  # fmt: skip

    def _resume(self, nodes: tuple[str, ...]) -> None:
        """Back into service, once they answer, those that an apply drained."""
        wait_nodes(self.cluster, self.progress, READY_S)
        rows = parse_rows(self._scontrol("-o", "show", "node"), "NodeName")
        ours = [name for name in nodes if rows.get(name, {}).get("Reason", "").startswith(REASON)]
        if ours:
            self._scontrol("update", f"NodeName={','.join(ours)}", "State=RESUME")

    # -- slurmctld

    def _wait_controller(self) -> None:
        wait_for("slurmctld", lambda: self._scontrol("ping"), lambda text: "is UP" in text, timeout_s=60,
                 look_at="make logs NODE=slurmctld")  # fmt: skip

    def _reads_its_files(self) -> bool:
        config = parse_config(self._scontrol("show", "config", check=False))
        return config.get("HASH_VAL", "").startswith("Match")

    def _reconfigure(self) -> None:
        """slurmctld and, through it, the nodes read the files. If it cannot live with them it gets the former back."""
        self._wait_controller()
        told = self.cluster.exec("slurmctld", ["scontrol", "reconfigure"], check=False, timeout_s=90)
        try:
            if told.exit_code:
                raise LabError(f"scontrol reconfigure: {told.last_lines}")
            for _ in range(STEADY):
                wait_for("slurmctld with its new files", self._reads_its_files, timeout_s=5)
        except LabError as error:
            self._restart_or_go_back(error)

    def _restart_or_go_back(self, error: LabError) -> None:
        """What a reconfigure did not do a restart may; what that does not do either is wrong in the files."""
        self.progress.say("slurmctld", f"restarted, since a reconfigure was not enough ({error.what})")
        self.cluster.compose("restart", "slurmctld")
        try:
            for _ in range(STEADY):
                wait_for("slurmctld with its new files", self._reads_its_files, timeout_s=10)
        except LabError:
            log = self.cluster.log_tail("slurmctld", 40)
            said = re.findall(r"(?:fatal|error): .*", log)[-2:]
            self._write_former()
            self.cluster.compose("restart", "slurmctld")
            self._wait_controller()
            raise LabError(
                f"slurmctld does not start with its new files: {'; '.join(said) or 'see its log'}; "
                "it runs with the former ones again",
                "mend the YAML, then make apply",
            ) from None

    def _write_former(self) -> None:
        for path in LINE_FILES:
            if path in self.former:
                self.cluster.write_file(path, self.former[path])


def refuse_other_cluster(cluster: Cluster, facts: Facts) -> None:
    """Raise LabError for a new cluster_name: Slurm's state and accounting are bound to the old one."""
    was, now = (facts.config or {}).get("ClusterName", ""), cluster.lab.slurm.cluster_name
    if was and was != now:
        raise LabError(f"cluster_name {was} cannot become {now} while the lab keeps its state",
                       "make destroy removes the lab with its jobs and homes; then make up")  # fmt: skip


def apply_command(settings: Settings, force: bool) -> int:
    """Close the differences. Raises LabError with what was done and what was not."""
    cluster = Cluster.open(settings)
    refuse_other_owner(cluster)
    with Progress() as progress:
        for _ in range(PASSES):
            facts = read_facts(cluster)
            refuse_other_cluster(cluster, facts)
            plan = make_plan(cluster.lab, facts)
            steps = list(make_steps(cluster.lab, plan, facts))
            if not steps:
                progress.say("apply", "nothing to do: the lab is what its YAML says")
                return 0
            progress.say("apply", f"{len(plan.changes)} differences")
            Applier(cluster, progress, force=force).run(steps)
    left = make_plan(cluster.lab, read_facts(cluster))
    if not left.empty:
        rest = "; ".join([*map(str, left.changes), *left.unknown])
        raise LabError(f"after the apply something still differs: {rest}", "make plan, then make apply again")
    return 0
