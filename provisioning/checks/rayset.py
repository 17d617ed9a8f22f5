"""Checks of the Ray set, the published port, the time zone and the lab's own name."""

from __future__ import annotations

import ipaddress
import re
import zoneinfo

from provisioning import slurmtypes
from provisioning.checks.report import Report
from provisioning.hostzone import HOST
from provisioning.lab import RayNodes
from provisioning.problems import nearest, shown

#: The least object store that Ray starts with.
LEAST_STORE_MB = 75
_AMOUNT = r"[0-9]{1,9}(\.[0-9]{1,4})?"
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = rf"([a-z0-9]([a-z0-9.-]{{0,100}}[a-z0-9])?/)?{_LABEL}"


def check(report: Report) -> None:
    """Check all of it."""
    lab = report.lab
    if lab.name and not re.fullmatch(r"[a-z0-9]([a-z0-9_-]{0,38}[a-z0-9])?", lab.name):
        report.add("name", f"{lab.name} is no name of a lab", "use lower case letters, digits, - and _, at most 40")
    if lab.ray.head.count != 1:
        report.add("ray.head.count", "there is one head", "leave count out")
    _check_set(report, "ray.head", lab.ray.head)
    _check_set(report, "ray.workers", lab.ray.workers)
    _check_zone(report, lab.timezone)
    if dashboard_address(lab.ports.dashboard) is None:
        report.add("ports.dashboard", f"{shown(lab.ports.dashboard)} is no port", "write 8265, or 127.0.0.1:8265")


def _check_set(report: Report, path: str, nodes: RayNodes) -> None:
    memory, store = (slurmtypes.parse_memory_mb(text or "0") for text in (nodes.memory, nodes.object_store_memory))
    if store < LEAST_STORE_MB:
        report.add(f"{path}.object_store_memory", f"Ray needs at least {LEAST_STORE_MB}M", "write 128M")
    if memory < store:
        report.add(f"{path}.memory", f"{nodes.memory or 'none'} is less than object_store_memory", "write more of it")
    for name, amount in nodes.resources.items():
        if name.lower() in ("cpu", "gpu", "memory", "object_store_memory") or name.startswith("node:"):
            report.add(f"{path}.resources.{name}", "is a resource of Ray's own", "write cpus, gpus or memory instead")
        elif not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.:-]{0,62}", name):
            report.add(f"{path}.resources.{name}", "is no name of a resource", "use letters, digits, _ . : and -")
        if not re.fullmatch(_AMOUNT, amount):
            report.add(
                f"{path}.resources.{name}", f"{shown(amount)} is not an amount", "write a number such as 2 or 0.5"
            )
    for name, text in nodes.labels.items():
        if name.startswith("ray.io/"):
            report.add(f"{path}.labels.{name}", "labels of ray.io are Ray's own", "choose another name")
        elif not re.fullmatch(_LABEL_KEY, name) or not re.fullmatch(f"({_LABEL})?", text):
            report.add(f"{path}.labels.{name}", f"{shown(text)} is no label Ray takes",
                       "use letters, digits, _ . and -, at both ends a letter or digit, at most 63")  # fmt: skip


def _check_zone(report: Report, name: str) -> None:
    """The zone must exist; where the host has no table of zones, its form has to do."""
    if name == HOST:
        return
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_+-]{0,30}(/[A-Za-z0-9_+-]{1,30}){0,2}", name):
        try:
            zoneinfo.ZoneInfo(name)
            return
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            zones = zoneinfo.available_timezones()
            if not zones:
                return
    else:
        zones = set()
    hint = nearest(name, zones) if zones else ""
    report.add("timezone", f"{shown(name)} is no time zone", hint or "write host, UTC, or a name such as Europe/Berlin")


def dashboard_address(text: str) -> tuple[str, int] | None:
    """Address and port of ``8265``, ``127.0.0.1:8265``, ``[::1]:8265`` or ``localhost:8265``; None if it is neither."""
    address, colon, port = text.rpartition(":")
    if not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        return None
    if not colon:
        return "127.0.0.1", int(port)
    bare = address[1:-1] if address.startswith("[") and address.endswith("]") else address
    try:
        parsed = ipaddress.ip_address("127.0.0.1" if bare == "localhost" else bare)
    except ValueError:
        return None
    if (parsed.version == 6) != (bare != address) or "%" in bare:
        return None
    return str(parsed), int(port)
