"""The lab's secrets: made at its first start, mode 0600, never in an image, an environment or a commit."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from provisioning.errors import LabError

#: Slurm's shared key of auth/slurm: random bytes (slurm.key in slurm.conf(5), AuthType).
SLURM_KEY = "slurm.key"
DB_PASSWORD = "db_password"
#: Ray's token, a word without white space (RAY_AUTH_TOKEN_PATH).
RAY_TOKEN = "ray_token"

MAKERS: dict[str, Callable[[], bytes]] = {
    SLURM_KEY: lambda: secrets.token_bytes(1024),
    DB_PASSWORD: lambda: secrets.token_urlsafe(32).encode(),
    RAY_TOKEN: lambda: secrets.token_hex(32).encode(),
}


def ensure_secrets(folder: Path) -> list[str]:
    """Make the secrets that are missing in ``folder`` and return their names. Raises LabError for an empty one."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    made = []
    for name, make in MAKERS.items():
        path = folder / name
        if path.exists():
            if not path.stat().st_size:
                raise LabError(f"the secret {path} is empty", "make destroy, then make up, makes new ones")
            path.chmod(0o600)
            continue
        write_secret(path, make())
        made.append(name)
    return made


def write_secret(path: Path, content: bytes) -> None:
    """Write a secret in one step, so that nobody reads half of it, and readable by its owner alone."""
    partial = path.with_name(path.name + ".new")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    partial.replace(path)
