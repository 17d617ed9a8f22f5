"""Commands as somebody types them into a terminal, and breaks them off: the whole process group gets the signal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import yaml

from provisioning.settings import Settings
from provisioning.waiting import wait_for

#: From the signal to the end: what a command has begun with the engine may come to its end.
END_S = 60
#: A whole command.
WHOLE_S = 300


@dataclass
class Typed:
    """One command in a process group of its own; what it says is read as it comes."""

    settings: Settings
    argv: list[str]
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        one = self.settings
        env = {**os.environ, "LAB": one.lab, "SLURM": one.slurm, "PROJECT": one.project,
               "DASHBOARD_PORT": one.dashboard}  # fmt: skip
        # a shell starts what it puts into the background with SIGINT ignored, and the tests may be such
        heeding = ["env", "--default-signal=INT,TERM,HUP"]
        self.child = subprocess.Popen([*heeding, *self.argv], cwd=one.root, env=env, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      start_new_session=True)  # fmt: skip
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        with self.child.stdout as said:
            self.lines.extend(said)

    @property
    def text(self) -> str:
        """What it has said so far."""
        return "".join(self.lines)

    def wait(self, timeout_s: float = WHOLE_S) -> str:
        """Wait for its end and return what it said. It must not show a traceback."""
        try:
            self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, signal.SIGKILL)
            raise AssertionError(f"{self.argv}: not ended within {timeout_s:.0f} s:\n{self.text}") from None
        self.reader.join(timeout=10)
        assert "Traceback" not in self.text, self.text
        assert "Exception ignored" not in self.text, self.text
        return self.text

    def succeed(self) -> str:
        """Wait for its end, which must be a good one."""
        text = self.wait()
        assert self.child.returncode == 0, text
        return text

    def break_off(self, sent: signal.Signals = signal.SIGINT) -> str:
        """Send the signal to the group; it must end soon, and not well."""
        os.killpg(self.child.pid, sent)
        text = self.wait(END_S)
        assert self.child.returncode != 0, text
        return text

    def wait_said(self, pattern: str) -> None:
        """Wait until it has said this; it must not end before."""
        self.wait_until(pattern, lambda: bool(re.search(pattern, self.text)))

    def wait_until(self, what: str, there: Callable[[], bool]) -> None:
        """Wait for a moment; the command must not end before it."""

        def look() -> bool:
            return there() or self.child.poll() is not None

        wait_for(what, look, timeout_s=WHOLE_S, interval_s=0.01, show=lambda _: self.text[-300:])
        assert self.child.poll() is None, f"it ended before: {what}\n{self.text}"


def make(settings: Settings, *words: str) -> Typed:
    """``make WORDS`` for a lab."""
    return Typed(settings, ["make", *words])


def says_what_next(text: str) -> None:
    """One error, and one next step."""
    assert text.count("error: interrupted\n  next: make ") == 1, text
    assert text.count("error:") == 1, text


def check_files(settings: Settings) -> None:
    """All that lies in the generated folder is whole."""
    files = [path for path in settings.generated.rglob("*") if path.is_file()]
    assert [path for path in files if path.suffix == ".new"] == []
    for path in files:
        assert path.stat().st_size or path.name in ("scenario.lock", "destroying"), f"{path} is empty"
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".yaml":
            yaml.safe_load(path.read_text(encoding="utf-8"))


def pause(seconds: float) -> None:
    """A moment that is chosen by lot, not by a condition."""
    time.sleep(seconds)
