"""What is: the files in use, the containers, what slurmctld and slurmdbd say, the homes. Read only."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from provisioning.accounting import Accounting, read_accounting
from provisioning.accounting_read import Run
from provisioning.cluster import COMPOSE_FILE, Cluster, Container
from provisioning.errors import LabError
from provisioning.plan_config import Row, parse_config, parse_rows
from provisioning.render import render
from provisioning.together import begin

T = TypeVar("T")
HASH_LABEL = "com.docker.compose.config-hash"


@dataclass(frozen=True)
class Facts:
    """One look at the lab. What could not be asked is None, and ``silent`` says why."""

    files: Mapping[str, str] = field(default_factory=dict)
    containers: Mapping[str, Container] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    config: Row | None = None
    partitions: Mapping[str, Row] = field(default_factory=dict)
    nodes: Mapping[str, Row] = field(default_factory=dict)
    accounting: Accounting | None = None
    slurmdbd_conf: str | None = None
    homes: Mapping[str, str] | None = None
    silent: tuple[str, ...] = ()


def sacctmgr_run(cluster: Cluster) -> Run:
    """Runs sacctmgr beside slurmdbd, so that accounting can be read and mended while slurmctld is down."""

    def run(argv: list[str], stdin: str | None = None, /) -> str:
        return cluster.exec("slurmdbd", argv, stdin=stdin, timeout_s=120).stdout

    return run


@contextlib.contextmanager
def _beside(folder: Path, text: str) -> Iterator[Path]:
    """A file beside the generated Compose file, so that its relative paths hold."""
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".plan-", suffix=".yaml", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        yield Path(file.name)


def service_hashes(cluster: Cluster) -> dict[str, str]:
    """Compose's hash of each service's definition as the YAML wants it; the containers carry theirs as a label."""
    with _beside(cluster.settings.generated, render(cluster.lab)[COMPOSE_FILE]) as path:
        done = cluster.compose("config", "--hash", "*", generated=path, timeout_s=60, check=False)
    if done.exit_code:
        raise LabError(f"docker compose config: {done.last_lines}", "make check")
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line.strip())


def files_in_use(cluster: Cluster) -> dict[str, str]:
    """The rendered files as they lie in the generated folder."""
    paths = {name: cluster.settings.generated / name for name in render(cluster.lab)}
    return {name: path.read_text(encoding="utf-8") for name, path in paths.items() if path.is_file()}


def _homes(cluster: Cluster) -> dict[str, str]:
    paths = ["/home", *(f"/home/{user.name}" for user in cluster.lab.users)]
    text = cluster.exec("login", ["stat", "-c", "%n %u", *paths], check=False).stdout
    pairs = (line.rsplit(maxsplit=1) for line in text.splitlines())
    return {path.removeprefix("/home/"): uid for path, uid in pairs}


def _slurmdbd_conf(cluster: Cluster) -> str:
    text = cluster.exec("slurmdbd", ["cat", "/etc/slurm/slurmdbd.conf"]).stdout
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("StoragePass=")) + "\n"


def read_facts(cluster: Cluster) -> Facts:
    """Look at everything, side by side. Raises LabError if the lab was never started or the engine does not answer."""
    containers = cluster.containers()
    if not containers:
        raise LabError(f"the lab {cluster.settings.project} is not up", "make up")
    silent: list[str] = []

    def asked(service: str, ask: Callable[[], T]) -> T | None:
        if service not in containers or containers[service].state != "running":
            silent.append(f"{service} does not run")
            return None
        try:
            return ask()
        except LabError as error:
            silent.append(error.what)
            return None

    def scontrol(*words: str) -> Callable[[], str]:
        return lambda: cluster.exec("slurmctld", ["scontrol", *words], timeout_s=20).stdout

    def begun(ask: Callable[[], T]) -> Future[T]:
        return begin([ask])[0]

    def asked_now(service: str, ask: Callable[[], T]) -> Future[T | None]:
        return begun(lambda: asked(service, ask))

    hashes = begun(lambda: service_hashes(cluster))
    config = asked_now("slurmctld", scontrol("show", "config"))
    partitions = asked_now("slurmctld", scontrol("-o", "show", "partition"))
    nodes = asked_now("slurmctld", scontrol("-o", "show", "node"))
    accounting = asked_now("slurmdbd", lambda: read_accounting(sacctmgr_run(cluster)))
    slurmdbd_conf = asked_now("slurmdbd", lambda: _slurmdbd_conf(cluster))
    homes = asked_now("login", lambda: _homes(cluster))
    everything: list[Future[Any]] = [hashes, config, partitions, nodes, accounting, slurmdbd_conf, homes]
    wait(everything)  # each may add to those who are silent
    text = config.result()
    return Facts(
        files=files_in_use(cluster), containers=containers, hashes=hashes.result(),
        config=None if text is None else parse_config(text),
        partitions=parse_rows(partitions.result() or "", "PartitionName"),
        nodes=parse_rows(nodes.result() or "", "NodeName"), accounting=accounting.result(),
        slurmdbd_conf=slurmdbd_conf.result(), homes=homes.result(), silent=tuple(dict.fromkeys(silent)),
    )  # fmt: skip
