"""Files that are there whole or not at all, whatever ends the program that writes them."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write a file in one step: nobody sees half of it, nor, if it is secret, one with another mode. See rename(2)."""
    partial = path.with_name(path.name + ".new")
    data = content.encode() if isinstance(content, str) else content
    try:
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
