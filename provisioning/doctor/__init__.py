"""``make doctor``: find what is wrong and say what to do.

Each check is a function ``Look -> findings`` that knows nothing of the others. All run side by side; one that fails
hides nothing of what the others find.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from provisioning.cluster import Cluster
from provisioning.doctor import agreement, daemons, kept, machine, room
from provisioning.doctor.finding import Finding, from_error
from provisioning.doctor.look import Look
from provisioning.errors import LabError
from provisioning.settings import Settings
from provisioning.together import together

__all__ = ["CHECKS", "Finding", "doctor", "examine", "run_checks"]

Check = Callable[[Look], Iterable[Finding]]
#: In the order in which findings are shown: what others follow from comes first.
CHECKS: dict[str, Check] = {
    "engine": machine.engine,
    "disk": machine.disk,
    "memory": machine.memory,
    "project": machine.owner,
    "port": machine.port,
    "images": machine.images,
    "volumes": kept.volumes,
    "room": room.room,
    "secrets": kept.secrets,
    "rotation": kept.rotation,
    "containers": daemons.containers,
    "answers": daemons.answers,
    "cluster id": kept.cluster_id,
    "Slurm key": agreement.slurm_key,
    "clock": agreement.clock,
    "names": agreement.names,
    "database": daemons.database,
    "accounting": daemons.accounting,
    "slurmctld": daemons.controller,
    "nodes": daemons.nodes,
    "Ray token": agreement.ray_token,
    "Ray": daemons.ray,
}


def _run(name: str, check: Check, look: Look) -> list[Finding]:
    """What a check finds, up to where it fails; its failure is a finding too."""
    found: list[Finding] = []
    try:
        found.extend(check(look))  # what was found before a failure counts
    except LabError as error:
        found.append(from_error(name, error))
    except Exception as error:
        found.append(Finding(name, f"this check does not work here: {type(error).__name__}: {error}",
                             "the other checks hold; make bundle writes down what there is to see"))  # fmt: skip
    return found


def run_checks(look: Look, checks: Mapping[str, Check] = CHECKS) -> list[Finding]:
    """What all checks find, in their order. The same error met by several checks is said once."""
    parts = together(*(partial(_run, name, check, look) for name, check in checks.items()))
    found = [one for part in parts for one in part]
    first: dict[tuple[str, str], Finding] = {}
    for one in found:
        first.setdefault((one.what, one.remedy) if one.where in checks else (one.where, one.what), one)
    return list(first.values())


def examine(cluster: Cluster) -> list[Finding]:
    """What is wrong with a lab now."""
    return run_checks(Look(cluster))


def doctor(settings: Settings) -> int:
    """Print what is wrong and what to do; exit status 1 if anything is."""
    started = time.monotonic()
    cluster = Cluster.open(settings)
    found = examine(cluster)
    for one in found:
        print(one)
    if found:
        print(f"{len(found)} found; after mending, make doctor again")
        return 1
    print(f"nothing is wrong with the lab {cluster.lab.name}, project {settings.project}: {len(CHECKS)} checks in "
          f"{time.monotonic() - started:.1f} s")  # fmt: skip
    return 0
