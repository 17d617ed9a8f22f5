"""What a person would look at first when a lab is not well, as one text without secrets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.redact import all_secrets, redact
from provisioning.together import together

LOG_LINES = 25


def _containers(cluster: Cluster) -> str:
    rows = sorted(cluster.containers().values(), key=lambda container: container.service)
    return "\n".join(f"{row.service:14} {row.state:10} {row.health:10} {row.image}" for row in rows)


def _command(cluster: Cluster, service: str, *argv: str) -> Callable[[], str]:
    def run() -> str:
        result = cluster.exec(service, argv, timeout_s=20, check=False)
        return result.stdout + result.stderr

    return run


def bundle(cluster: Cluster) -> str:
    """States of the containers, Slurm's and Ray's own view, and the end of every log. Each part is bounded in time."""
    parts: dict[str, Callable[[], str]] = {
        "containers": lambda: _containers(cluster),
        "sinfo -R": _command(cluster, "slurmctld", "sinfo", "-R"),
        "scontrol show node": _command(cluster, "slurmctld", "scontrol", "show", "node"),
        "squeue": _command(cluster, "slurmctld", "squeue"),
        "sacct -D": _command(cluster, "slurmctld", "sh", "-c", "sacct -D -a -X | tail -40"),
        "ray status": _command(cluster, "ray-head", "timeout", "15", "ray", "status", "--address", "ray-head:6379"),
    }
    for service in cluster.services():
        parts[f"log of {service}"] = lambda service=service: cluster.log_tail(service, LOG_LINES)  # type: ignore[misc]

    def part(name: str) -> str:
        try:
            text = parts[name]()
        except LabError as error:
            text = f"no answer: {error.what}"
        return f"==== {name}\n{text.rstrip()}\n"

    text = "\n".join(together(*(partial(part, name) for name in parts), at_most=4))
    return redact(text.encode(), all_secrets(cluster.settings.generated)).decode()
