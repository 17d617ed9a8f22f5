"""A user's login shell on the login node: where every command of the smoke run is typed."""

from __future__ import annotations

import base64
import io
import shlex
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

from provisioning.cluster import Result
from provisioning.errors import LabError

#: Exit statuses of `docker exec` when the engine could not run the command, and of a command that was killed.
ENGINE = (125, 126, 137)
#: Where commands are noted while a step runs; a thread starts without one.
NOTED: ContextVar[list[str] | None] = ContextVar("NOTED", default=None)


class Door(Protocol):
    """The part of provisioning.Cluster that is needed here; tests put a fake in its place."""

    def exec(self, service: str, argv: Sequence[str], *, user: str = "root", workdir: str | None = None,
             env: Mapping[str, str] | None = None, stdin: str | None = None, timeout_s: float = 60,
             check: bool = True) -> Result:  # fmt: skip
        """Run a command in a service's container."""


class Login:
    """One user in one folder of their home, which lies on every node."""

    def __init__(self, door: Door, user: str = "alice", folder: str = "smoke") -> None:
        """``folder`` is relative to the home; it must exist before a command runs, see put()."""
        self.door = door
        self.user = user
        self.home = "/root" if user == "root" else f"/home/{user}"
        self.folder = f"{self.home}/{folder}".rstrip("/")

    def run(self, *argv: str, check: bool = True, timeout_s: float = 60, stdin: str | None = None,
            workdir: str | None = None, note: str | None = None) -> Result:  # fmt: skip
        """Run a command as a login shell would. With ``check`` a failure raises LabError with its last words.

        The command is noted for the reader of the step, or ``note`` instead: a shorter form, or nothing.
        """
        command, noted = shlex.join(argv), NOTED.get()
        shown = command if note is None else note
        if shown and noted is not None and shown not in noted:
            noted.append(shown)
        result = self.door.exec(
            "login", ["bash", "-lc", 'exec "$@"', "bash", *argv], user=self.user, workdir=workdir or self.folder,
            env={"HOME": self.home, "USER": self.user, "LOGNAME": self.user}, stdin=stdin, timeout_s=timeout_s,
            check=False,
        )  # fmt: skip
        if check and result.exit_code:
            brief = command if len(command) <= 60 else f"{command[:57]}..."
            by_hand = f"make shell AS={self.user}, then run it by hand in {self.folder}"
            raise LabError(f"{brief}: exit status {result.exit_code}: {result.last_lines or 'it said nothing'}",
                           "make status" if result.exit_code in ENGINE else by_hand)  # fmt: skip
        return result

    def put(self, files: Iterable[Path], folders: Sequence[str] = ()) -> None:
        """Copy files into the folder, over what is there, and make sub-folders."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path in files:
                tar.add(path, arcname=path.name, filter=_as_anybody)
        script = 'mkdir -p "$@" && base64 -d | tar -xz --no-same-owner -C "$1"'
        targets = [self.folder, *(f"{self.folder}/{name}" for name in folders)]
        self.run("bash", "-c", script, "put", *targets, stdin=base64.b64encode(packed.getvalue()).decode(),
                 workdir=self.home, note="")  # fmt: skip

    def read(self, path: str) -> str:
        """A file's text, or an empty text if it is not there (yet); relative to the folder."""
        return self.run("cat", path, check=False, note="").stdout


def _as_anybody(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nothing of the host's users and times goes along."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.mode & 0o100 else 0o644
    return info
