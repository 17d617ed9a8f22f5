"""Runs inside a container, on standard input of ``python3 -I -``: what the checks want to know of it, as JSON.

Arguments: names to look up, separated by commas; then files. Standard library only. Of a secret nothing but its digest
leaves the container.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def address(name: str) -> str:
    """The IPv4 address that this container takes for a name's; empty if it knows none."""
    try:
        return str(socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return ""


def digest(path: str) -> str:
    """A file's SHA-256; empty if it is not there."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def look(names: list[str], files: list[str]) -> dict[str, object]:
    """The clock, the addresses of names and the digests of files."""
    with ThreadPoolExecutor(16) as pool:
        found = dict(zip(names, pool.map(address, names), strict=True))
    return {"time": time.time(), "addresses": found, "digests": {path: digest(path) for path in files}}


if __name__ == "__main__":
    print(json.dumps(look([name for name in sys.argv[1].split(",") if name], sys.argv[2:])))
