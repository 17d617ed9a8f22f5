"""Look for secrets in what may be large: archives within archives, as `docker save` writes images, piece by piece."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

from provisioning.redact import forms

PIECE = 1 << 20


def contents(stream: IO[bytes], prefix: str = "") -> Iterator[tuple[str, bytes]]:
    """The files of a tar stream by name, in pieces; those of an archive within it by ``archive!name``."""
    with tarfile.open(fileobj=stream, mode="r|*") as tar:
        for member in tar:
            if not member.isfile():
                yield prefix + member.name, member.linkname.encode()
                continue
            file = tar.extractfile(member)
            assert file is not None
            name, whole = prefix + member.name, _Ahead(file)
            if not prefix and whole.is_tar:
                yield from contents(whole, f"{name}!")  # type: ignore[arg-type]
                continue
            while piece := whole.read(PIECE):
                yield name, piece


class _Ahead:
    """A member of a tar stream, which cannot go back: what was looked at is kept for the reader."""

    def __init__(self, rest: IO[bytes]) -> None:
        self.first, self.rest = rest.read(512), rest
        #: whether it is an archive itself, compressed or not
        self.is_tar = self.first[257:262] == b"ustar" or self.first[:2] == b"\x1f\x8b"

    def read(self, size: int) -> bytes:
        if given := self.first[:size]:
            self.first = self.first[size:]
            return given
        return self.rest.read(size)


def streams_with(pieces: Iterable[tuple[str, bytes]], secrets: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Names of files with a secret in them, and which; a secret across two pieces of a file is found too."""
    wanted = {name: forms(secret) for name, secret in secrets.items()}
    longest = max(len(form) for all_forms in wanted.values() for form in all_forms)
    found: dict[str, list[str]] = {}
    last, tail = "", b""
    for name, piece in pieces:
        text = (tail if name == last else b"") + piece
        for secret, all_forms in wanted.items():
            if any(form in text for form in all_forms) and secret not in found.get(name, []):
                found.setdefault(name, []).append(secret)
        last, tail = name, text[-longest:]
    return found
