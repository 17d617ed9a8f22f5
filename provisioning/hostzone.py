"""The time zone of the host, for labs whose YAML says ``timezone: host``."""

from __future__ import annotations

import contextlib
import os
import zoneinfo
from collections.abc import Iterator, Mapping
from pathlib import Path

#: What a lab's YAML writes for the zone of the host.
HOST = "host"
_UTC = "UTC"


def host_zone(etc: Path = Path("/etc"), env: Mapping[str, str] | None = None) -> str:
    """The name of the host's zone: TZ, then the target of /etc/localtime, then /etc/timezone; UTC if none is a name.

    See localtime(5) and tzset(3). A zone that is given otherwise, such as a POSIX rule in TZ, has no name that a
    container would know.
    """
    for name in _candidates(etc, os.environ if env is None else env):
        try:
            zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            continue
        return name
    return _UTC


def _candidates(etc: Path, env: Mapping[str, str]) -> Iterator[str]:
    yield from filter(None, [env.get("TZ", "").removeprefix(":")])
    with contextlib.suppress(OSError):  # no link, or nothing at all
        _, found, name = str((etc / "localtime").readlink()).rpartition("/zoneinfo/")
        if found:
            yield name
    with contextlib.suppress(OSError, ValueError):
        yield from filter(None, [(etc / "timezone").read_text(encoding="utf-8").strip()])


def zone_of(name: str) -> str:
    """The zone that a lab's ``timezone`` stands for."""
    return host_zone() if name == HOST else name
