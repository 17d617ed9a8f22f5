"""``make bench-up``: seconds and memory of starting the lab, each beside Ray alone in the same run.

Works on a project of its own and removes it. Prints figures, asserts nothing: tests assert behaviour.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from provisioning import ready
from provisioning.cluster import Cluster, run_local
from provisioning.engine import ensure_engine
from provisioning.images import ensure_images
from provisioning.progress import Progress
from provisioning.secretfiles import ensure_secrets
from provisioning.settings import Settings
from provisioning.up import destroy, down, up
from provisioning.waiting import wait_for

ROUNDS = int(os.environ.get("ROUNDS", "3"))


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    start = time.monotonic()
    action()
    return time.monotonic() - start


def ray_alone(cluster: Cluster) -> None:
    """Plain docker compose up of head and workers, until all are alive."""
    cluster.compose("up", "--detach", "ray-head", *cluster.ray_workers())
    wait_for("ray", lambda: ready.missing_ray(cluster), lambda missing: not missing, timeout_s=120, interval_s=0.2)


def slurm_alone(cluster: Cluster) -> None:
    """Everything but Ray and login, until every node is idle."""
    cluster.compose("up", "--detach", "db", "slurmdbd", "slurmctld", *cluster.nodes())
    wait_for("nodes", lambda: ready.node_states(cluster), lambda now: {node.state for node in now.values()} == {"idle"},
             timeout_s=120, interval_s=0.1)  # fmt: skip


def memory_mb(cluster: Cluster) -> float:
    """Memory of all containers as docker stats counts it."""
    names = [container.name for container in cluster.containers().values()]
    stats = run_local(["docker", "stats", "--no-stream", "--format", "{{.MemUsage}}", *names], timeout_s=60).stdout
    factor = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}
    return sum(float(number) * factor[unit] for number, unit in re.findall(r"^([\d.]+)(KiB|MiB|GiB) /", stats, re.M))


def fresh(settings: Settings) -> Cluster:
    """The project without containers and state, its files rendered."""
    destroy(settings)
    cluster = Cluster.open(settings)
    ensure_secrets(settings.generated / "secrets")
    cluster.write_files()
    return cluster


def main() -> int:
    """Measure and print."""
    settings = replace(Settings.from_env(), project="labbench", dashboard="8279")
    ensure_engine(print)
    ensure_images(settings.slurm, print)
    console = Console(highlight=False)
    rows: dict[str, list[float]] = {name: [] for name in (
        "Ray alone, to all alive", "Slurm alone, to all idle", "make up, nothing kept", "make up on a running lab",
        "make down", "make up after it")}  # fmt: skip
    try:
        for number in range(ROUNDS):
            console.print(f"round {number + 1} of {ROUNDS}")
            rows["Ray alone, to all alive"].append(seconds(lambda: ray_alone(fresh(settings))))
            rows["Slurm alone, to all idle"].append(seconds(lambda: slurm_alone(fresh(settings))))
            destroy(settings)
            rows["make up, nothing kept"].append(seconds(lambda: up(settings)))
            rows["make up on a running lab"].append(seconds(lambda: subprocess.run(
                [sys.executable, "-m", "provisioning", "up"], check=True, stdout=subprocess.DEVNULL,
                env={**os.environ, "PROJECT": settings.project, "DASHBOARD_PORT": settings.dashboard})))  # fmt: skip
            rows["make down"].append(seconds(lambda: down(settings)))
            rows["make up after it"].append(seconds(lambda: up(settings)))
        with Progress() as progress:
            ready.wait_nodes(Cluster.open(settings), progress, 60)
        memory = memory_mb(Cluster.open(settings))
    finally:
        destroy(settings)
    table = Table("what", "median s", "all s")
    for name, values in rows.items():
        table.add_row(name, f"{statistics.median(values):.1f}", ", ".join(f"{value:.1f}" for value in values))
    console.print(table)
    ratios = [
        whole / ray for whole, ray in zip(rows["make up, nothing kept"], rows["Ray alone, to all alive"], strict=True)
    ]
    console.print(f"make up / Ray alone: {statistics.median(ratios):.2f}; memory of the idle lab: {memory:.0f} MB")
    print(json.dumps({**rows, "memory_mb": memory}), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
