"""When a lab is ready: every node idle, accounting answers and is as the YAML says, every Ray node alive."""

from __future__ import annotations

from dataclasses import dataclass

from provisioning import ray_api
from provisioning.accounting import add_named_qos, named_qos, settle_accounting
from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.plan_facts import sacctmgr_run
from provisioning.progress import Progress
from provisioning.slurmtypes import expand_hosts
from provisioning.together import together
from provisioning.waiting import wait_for

#: States in which a node takes jobs (planned: idle, and kept for a job that waits), and those in which an operator
#: holds it back on purpose.
USABLE = frozenset({"idle", "planned", "mixed", "allocated", "completing"})
HELD_BACK = frozenset({"drained", "draining", "reserved", "maint", "drain"})


@dataclass(frozen=True)
class NodeState:
    """A line of sinfo: ``state`` without the flag at its end, the flag (``*`` does not answer), and the reason."""

    name: str
    state: str
    flag: str
    reason: str

    @property
    def ready(self) -> bool:
        """Whether it takes jobs, or waits for an operator."""
        return not self.flag.strip("-+") and (self.state in USABLE or self.held_back)

    @property
    def held_back(self) -> bool:
        """Whether it waits for an operator: drained by hand, or by Slurm, which leaves it so after what was wrong is
        mended. A node that still has less than it claims is ``inval`` instead."""
        return self.state in HELD_BACK

    def __str__(self) -> str:
        """For a message: ``c1 down* (Not responding)``."""
        reason = "" if self.reason in ("", "none") else f" ({self.reason})"
        return f"{self.name} {self.state}{self.flag}{reason}"


def parse_sinfo(text: str) -> dict[str, NodeState]:
    """The answer of ``sinfo -hN -o '%N|%T|%E'`` by node; see sinfo(1), NODE STATE CODES."""
    found = {}
    for line in text.splitlines():
        name, state, reason = line.split("|", 2)
        bare = state.rstrip("*~#!%$@^-+")
        found[name] = NodeState(name, bare, state[len(bare) :], reason)
    return found


def node_states(cluster: Cluster) -> dict[str, NodeState]:
    """What slurmctld says of each node now."""
    return parse_sinfo(cluster.exec("slurmctld", ["sinfo", "-hN", "-o", "%N|%T|%E"], timeout_s=15).stdout)


def _missing_nodes(cluster: Cluster, states: dict[str, NodeState]) -> list[str]:
    # sinfo leaves out a node that is in no partition: it takes no jobs and is not waited for
    used = {name for one in cluster.lab.partitions for name in expand_hosts(one.nodes)}
    return [
        str(states[name]) if name in states else f"{name} unknown to slurmctld"
        for name in cluster.nodes()
        if (name in used or "ALL" in used) and (name not in states or not states[name].ready)
    ]


def wait_nodes(cluster: Cluster, progress: Progress, timeout_s: float) -> None:
    """Wait until every node takes jobs. Raises LabError naming those that do not, with the end of their logs."""

    def show(states: dict[str, NodeState]) -> str:
        text = ", ".join(_missing_nodes(cluster, states))
        progress.waiting("slurm", text)
        return text

    try:
        states = wait_for(
            "nodes",
            lambda: node_states(cluster),
            lambda now: not _missing_nodes(cluster, now),
            timeout_s=timeout_s,
            show=show,
            look_at="make logs NODE=<name>, then make up again",
        )
    except LabError as error:
        raise LabError(f"{error.what}{_logs(cluster, error.what)}", error.hint) from error
    held = [str(state) for state in states.values() if state.held_back]
    idle = len(states) - len(held)
    progress.waiting("slurm", "")
    progress.say("slurm", f"{idle} nodes ready")
    if held:
        cure = "scontrol update NodeName=NAME State=RESUME"
        progress.say("slurm", f"out of use until an operator says so ({cure}): {', '.join(held)}")


def _logs(cluster: Cluster, message: str) -> str:
    """The end of the log of the first service that a message names."""
    for service in [*cluster.nodes(), *cluster.ray_workers(), "slurmdbd", "db", "ray-head", "slurmctld"]:
        if f"{service} " in message or f"{service}:" in message:
            return f"\n  last lines of {service}:\n    " + cluster.log_tail(service).replace("\n", "\n    ")
    return ""


def registered(cluster: Cluster) -> bool:
    """Whether slurmdbd answers and knows the cluster's controller."""
    rows = cluster.exec("slurmctld", ["sacctmgr", "-nP", "show", "cluster", "format=Cluster,ControlHost"], timeout_s=15)
    for line in rows.stdout.splitlines():
        name, _, host = line.partition("|")
        if name == cluster.lab.slurm.cluster_name and host:
            return True
    return False


def wait_registered(cluster: Cluster, progress: Progress, timeout_s: float) -> None:
    """Wait until slurmdbd answers and knows the cluster."""
    progress.waiting("slurm", "slurmdbd")
    wait_for("slurmdbd: the cluster is not registered in accounting", lambda: registered(cluster), timeout_s=timeout_s,
             look_at="make logs NODE=slurmdbd, make logs NODE=slurmctld")  # fmt: skip


def provision_accounting(cluster: Cluster, progress: Progress) -> None:
    """Make accounting what the YAML says."""
    changes = settle_accounting(cluster.lab, sacctmgr_run(cluster))
    progress.say("accounting", f"{len(changes)} changes made" if changes else "as the YAML says")


def start_accounting_first(cluster: Cluster, progress: Progress, timeout_s: float) -> None:
    """Start the database alone and make the QOS that partitions name, if there are any.

    slurmctld of 26.05 ends at its first start if a partition names a QOS that does not exist, and leaves a state that
    it cannot start from again.
    """
    if not named_qos(cluster.lab):
        return
    progress.say("accounting", "partitions name QOS: these are made before slurmctld starts")
    cluster.compose("up", "--detach", "--no-build", "db", "slurmdbd")
    run = sacctmgr_run(cluster)
    wait_for("slurmdbd", lambda: run(["sacctmgr", "-nP", "show", "qos", "format=Name"]), timeout_s=timeout_s,
             look_at="make logs NODE=slurmdbd, make logs NODE=db")  # fmt: skip
    add_named_qos(cluster.lab, run)


def missing_ray(cluster: Cluster) -> list[str]:
    """Ray nodes that are not alive. Raises LabError if the head does not answer."""
    alive = ray_api.alive_nodes(cluster)
    return [name for name in ["ray-head", *cluster.ray_workers()] if name not in alive]


def wait_ray(cluster: Cluster, progress: Progress, timeout_s: float) -> None:
    """Wait until every Ray node is alive."""

    def show(missing: list[str]) -> str:
        text = ", ".join(f"{name} not alive" for name in missing)
        progress.waiting("ray", text)
        return text

    progress.waiting("ray", "head")
    try:
        wait_for("ray", lambda: missing_ray(cluster), lambda missing: not missing, timeout_s=timeout_s, show=show,
                 look_at="make logs NODE=ray-head, then make up again")  # fmt: skip
    except LabError as error:
        raise LabError(f"{error.what}{_logs(cluster, error.what)}", error.hint) from error
    progress.waiting("ray", "")
    progress.say("ray", f"head and {len(cluster.ray_workers())} workers alive")


def wait_ready(cluster: Cluster, progress: Progress, *, timeout_s: float, accounting: bool = True) -> None:
    """Wait for Slurm and Ray side by side. Raises LabError for the first part that is not ready in time."""

    def slurm() -> None:
        wait_registered(cluster, progress, timeout_s)
        if accounting:
            provision_accounting(cluster, progress)
        wait_nodes(cluster, progress, timeout_s)

    together(slurm, lambda: wait_ray(cluster, progress, timeout_s))
