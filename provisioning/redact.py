"""Find and remove secrets in texts: as they are, and as base64 or hexadecimal digits, wherever in a text they begin."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

#: A secret shorter than this would be found everywhere.
SHORTEST = 8
#: Folder of the secrets that a rotation has made, until every container has them.
ROTATING = "rotating"


def forms(secret: bytes) -> list[bytes]:
    """The ways in which a secret may stand in a file.

    Base64 packs three bytes into four letters, so that a secret within a longer text looks different for each of three
    places to begin at; the letters that also hold its neighbours are left out.
    """
    found = [secret, secret.strip()]
    for content in {secret, secret.strip()}:
        found += [content.hex().encode(), content.hex().upper().encode()]
        for before in range(3):
            padded = base64.b64encode(b"\0" * before + content)
            first = -(-before * 4 // 3) if before else 0
            last = (before + len(content)) * 4 // 3
            found += [padded[first:last], padded[first:last].translate(bytes.maketrans(b"+/", b"-_"))]
    return sorted({one for one in found if len(one) >= SHORTEST}, key=len, reverse=True)


def read_secrets(folder: Path) -> dict[str, bytes]:
    """The secrets of a folder by name, and none if there is no such folder."""
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def all_secrets(generated: Path) -> dict[str, bytes]:
    """The secrets of a lab by name: those in use, and those that a rotation has laid aside and not finished."""
    aside = read_secrets(generated / ROTATING)
    return read_secrets(generated / "secrets") | {f"new {name}": content for name, content in aside.items()}


def holds(content: bytes, secrets: Mapping[str, bytes]) -> list[str]:
    """Names of the secrets that stand in a content in any form."""
    return [name for name, secret in secrets.items() if any(form in content for form in forms(secret))]


def redact(content: bytes, secrets: Mapping[str, bytes]) -> bytes:
    """The content without the secrets; in each one's place stands its name."""
    for name, secret in secrets.items():
        for form in forms(secret):
            content = content.replace(form, f"[{name} removed]".encode())
    return content
