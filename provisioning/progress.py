"""What a person sees while something is done: one line for each thing that happened, with the seconds so far."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.console import Console
from rich.markup import escape


class Progress:
    """Lines such as ``[ 3.2 s] slurm: c1 idle``; on a terminal a last line says what is still waited for."""

    def __init__(self, console: Console | None = None) -> None:
        """Start the clock."""
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._waiting: dict[str, str] = {}
        self._said: dict[str, str] = {}
        self._status = self.console.status("") if self.console.is_terminal else None

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def __enter__(self) -> Progress:
        """Show the last line on a terminal."""
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the last line away."""
        if self._status:
            self._status.stop()

    def say(self, part: str, text: str) -> None:
        """Something happened; the same text of the same part is said once."""
        with self._lock:
            if self._said.get(part) == text:
                return
            self._said[part] = text
            self.console.print(escape(f"[{self.seconds:5.1f} s] {part}: {text}"))

    def waiting(self, part: str, text: str) -> None:
        """What ``part`` waits for; an empty text means that it is done."""
        with self._lock:
            if text:
                self._waiting[part] = text
            else:
                self._waiting.pop(part, None)
            if self._status:
                self._status.update(escape("; ".join(f"{part}: {text}" for part, text in self._waiting.items())))
