"""How each kind of fault is done and taken away again, and how long the lab may take until it is whole."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.ready import missing_ray, node_states, registered
from provisioning.up import READY_TIMEOUT_S, down, up
from provisioning.waiting import wait_for
from smoke import faults
from smoke.chaos.plan import Fault

#: Bound of every recovery: as long as a whole lab may take to start.
BACK_S = READY_TIMEOUT_S
#: Kinds in which slurmctld dies without a chance to save its queue.
KILLS_SLURMCTLD = ("slurmctld-kill", "all-kill")


@contextmanager
def all_killed(cluster: Cluster, _target: str) -> Iterator[None]:
    """Every container is killed at once; ``up`` brings them back."""
    faults.kill_all(cluster)
    try:
        yield
    finally:
        up(cluster.settings)


@contextmanager
def all_down(cluster: Cluster, _target: str) -> Iterator[None]:
    """``down``, then ``up``: every container is stopped and made anew."""
    down(cluster.settings)
    try:
        yield
    finally:
        up(cluster.settings)


HOW: Mapping[str, Callable[[Cluster, str], AbstractContextManager[None]]] = {
    "node-kill": faults.killed,
    "node-freeze": faults.frozen,
    "node-anew": faults.removed,
    "node-cut": faults.cut_off,
    "slurmctld-kill": faults.killed,
    "slurmdbd-kill": faults.killed,
    "db-kill": faults.killed,
    "ray-head-kill": faults.killed,
    "ray-worker-kill": faults.killed,
    "ray-worker-freeze": faults.frozen,
    "all-kill": all_killed,
    "down-up": all_down,
}


def inflict(cluster: Cluster, fault: Fault, struck: Callable[[float, float], None],
            looking: AbstractContextManager[object]) -> float:  # fmt: skip
    """Do one fault, take it away, wait until the lab is whole; return the seconds that this took.

    ``struck`` is told, in seconds since 1970, between which two instants the fault came about. ``looking`` is held
    while it does: an engine that is starting a command in a container that it freezes may never thaw it.
    Raises LabError if the lab is not whole within BACK_S, naming what is missing.
    """
    with ExitStack() as there:
        with looking:
            begun = time.time()
            there.enter_context(HOW[fault.kind](cluster, fault.target))
            struck(begun, time.time())
        time.sleep(fault.hold_s)  # how long the fault lasts, not a wait for something
        over = time.monotonic()
    wait_whole(cluster)
    return time.monotonic() - over


def wait_whole(cluster: Cluster) -> None:
    """Wait until every node takes jobs, accounting has heard of all and every Ray node is alive."""
    wait_for("the lab is whole", lambda: missing(cluster), lambda found: not found, timeout_s=BACK_S, interval_s=0.5,
             show=", ".join, look_at="make doctor")  # fmt: skip


def unsent_records(cluster: Cluster) -> int:
    """Records that slurmctld keeps in its memory until slurmdbd takes them, see sdiag(1): a kill would lose them."""
    said = cluster.exec("slurmctld", ["sdiag"], check=False).stdout
    found = re.search(r"DBD Agent queue size:\s*(\d+)", said)
    return int(found[1]) if found else 0


def missing(cluster: Cluster) -> list[str]:
    """What is not there, in words."""
    states = node_states(cluster)
    found = [str(states[name]) if name in states else f"{name} unknown to slurmctld" for name in cluster.nodes()
             if name not in states or not states[name].ready or states[name].held_back]  # fmt: skip
    if not registered(cluster):
        found.append("accounting")
    elif waiting := unsent_records(cluster):
        found.append(f"{waiting} records on their way to slurmdbd")
    try:
        found += [f"{name} not alive in Ray" for name in missing_ray(cluster)]
    except LabError as error:
        found.append(error.what)
    return found
