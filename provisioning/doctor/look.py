"""What the checks look at. Each thing is asked for once, by the first check that wants it; the others wait for it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from provisioning.cluster import Cluster, Container
from provisioning.errors import LabError
from provisioning.plan_config import parse_rows
from provisioning.together import together

T = TypeVar("T")

AGENT = Path(__file__).with_name("inside.py")
#: Where the daemons of a container read their secrets.
KEY_FILE, TOKEN_FILE = "/etc/slurm/slurm.key", "/etc/lab-ray/token"
SLURM_SERVICES = ("slurmdbd", "slurmctld", "login")
#: How long a command in a container may take: longer is a finding of its own.
ANSWER_S = 15


@dataclass(frozen=True)
class Inside:
    """What a container's own view is: how far its clock is ahead of this machine's, names, digests of files."""

    ahead_s: float
    addresses: Mapping[str, str]
    digests: Mapping[str, str]


class Look:
    """One look at a lab. Every method may raise LabError, which is then what a check has found."""

    def __init__(self, cluster: Cluster) -> None:
        """Nothing is asked yet."""
        self.cluster = cluster
        self._asked: dict[str, Future[Any]] = {}
        self._lock = threading.Lock()

    def _once(self, key: str, ask: Callable[[], T]) -> T:
        with self._lock:
            first = key not in self._asked
            future: Future[T] = self._asked.setdefault(key, Future())
        if first:
            try:
                future.set_result(ask())
            except BaseException as error:
                future.set_exception(error)
        return future.result()

    def containers(self) -> Mapping[str, Container]:
        """The project's containers by service, running or not."""
        return self._once("containers", self.cluster.containers)

    def inspected(self) -> Mapping[str, Mapping[str, Any]]:
        """Docker's whole record of each container."""
        self.containers()  # an engine that does not answer is asked once
        return self._once("inspect", self.cluster.inspect)

    def running(self, *services: str) -> list[str]:
        """Those of the services whose container runs; of all if none are named."""
        containers = self.containers()
        return [name for name in services or self.cluster.services()
                if name in containers and containers[name].state == "running"]  # fmt: skip

    def slurm_services(self) -> list[str]:
        """Services that hold Slurm's key."""
        return [*SLURM_SERVICES, *self.cluster.nodes()]

    def ray_services(self) -> list[str]:
        """Services that hold Ray's token."""
        return ["ray-head", *self.cluster.ray_workers(), "login", *self.cluster.nodes()]

    def names_needed(self, service: str) -> list[str]:
        """Names that a service must be able to look up."""
        if service in ("slurmctld", "login", *self.cluster.nodes()):
            return ["slurmctld", "ray-head", *(["slurmdbd"] if service == "slurmctld" else []), *self.cluster.nodes()]
        return {"slurmdbd": ["db"], "db": []}.get(service, ["ray-head"])

    def inside(self, service: str) -> Inside:
        """A container's own view; names are asked only of services that run, others are another finding."""
        return self._once(f"inside {service}", lambda: self._inside(service))

    def _inside(self, service: str) -> Inside:
        names = ",".join(self.running(*self.names_needed(service))) if self.names_needed(service) else ""
        argv = ["python3", "-I", "-", names, KEY_FILE, TOKEN_FILE]
        before = time.time()
        done = self.cluster.exec(service, argv, stdin=AGENT.read_text(encoding="utf-8"), timeout_s=ANSWER_S)
        after = time.time()
        try:
            seen = json.loads(done.stdout)
        except ValueError as error:
            raise LabError(f"{service}: python3 answers {done.last_lines!r}", "make down, then make up") from error
        # it read its clock somewhere between the two: within that span there is no difference to speak of
        ahead = max(0.0, seen["time"] - after) - max(0.0, before - seen["time"])
        return Inside(ahead, seen["addresses"], seen["digests"])

    def insides(self, services: Sequence[str]) -> dict[str, Inside]:
        """The views of those that run and answer; who does not answer is found by a check of its own."""

        def one(service: str) -> Inside | None:
            try:
                return self.inside(service)
            except LabError:
                return None

        names = self.running(*services)
        views = together(*(partial(one, name) for name in names), at_most=6)
        return {name: seen for name, seen in zip(names, views, strict=True) if seen is not None}

    def answer(self, service: str, *argv: str, timeout_s: float = ANSWER_S) -> str:
        """What a command in a container prints."""
        return self.cluster.exec(service, argv, timeout_s=timeout_s).stdout

    def node_rows(self) -> Mapping[str, Mapping[str, str]]:
        """``scontrol show node`` by node."""
        return self._once("nodes", lambda: parse_rows(self.answer("slurmctld", "scontrol", "-o", "show", "node"),
                                                      "NodeName"))  # fmt: skip

    def secret(self, name: str) -> bytes | None:
        """One of the lab's secrets as the next start would hand it out; None if there is none."""
        path = self.cluster.settings.generated / "secrets" / name
        return path.read_bytes() if path.is_file() else None
