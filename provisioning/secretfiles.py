"""The lab's secrets: made at its first start, mode 0600, never in an image, an environment or a commit."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from provisioning.errors import LabError
from provisioning.files import write_whole

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
    """Write a secret whole, and readable by its owner alone."""
    write_whole(path, content, mode=0o600)
