"""The queue as it develops, with simulated beside real time: a table on a terminal, else a line for each change."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from provisioning.errors import LabError
from smoke.records import Queued
from smoke.stage import Stage


class LiveQueue:
    """Watches the queue from a thread of its own; it only looks, measurements come from the records."""

    def __init__(self, stage: Stage, console: Console, interval_s: float = 1.0) -> None:
        self.stage = stage
        self.console = console
        self.interval_s = interval_s
        self._start = time.monotonic()
        self._over = threading.Event()
        self._seen: dict[str, str] = {}
        self._rows: list[Queued] = []
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._thread = threading.Thread(target=self._watch, name="live queue", daemon=True)

    def __enter__(self) -> LiveQueue:
        if self._live:
            self._live.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(timeout=10)
        if self._live:
            self._live.stop()

    @property
    def now(self) -> str:
        """Real seconds and simulated minutes since the start."""
        seconds = time.monotonic() - self._start
        return f"{seconds:5.1f} s = {self.stage.clock.sim_min(seconds):4.0f} min"

    def say(self, text: str) -> None:
        """Something worth a line."""
        self.console.print(escape(f"[{self.now}] {text}"))

    def _watch(self) -> None:
        while not self._over.is_set():
            try:
                self._rows = self.stage.queue()
            except LabError:
                self._rows = []
            else:
                self._changes()
            if self._live:
                self._live.update(self._table())
            self._over.wait(self.interval_s)

    def _changes(self) -> None:
        present = {job.job: job for job in self._rows}
        for number, job in present.items():
            where = job.nodes or f"({job.reason})"
            text = f"{job.name} of {job.user}: {job.state} {where}"
            if self._seen.get(number) != text:
                self._seen[number] = text
                self.say(text)
        for number in [number for number in self._seen if number not in present]:
            self.say(f"{self._seen.pop(number).split(':')[0]}: gone from the queue")

    def _table(self) -> Table:
        table = Table(title=f"{self.stage.name}   {self.now}", title_justify="left")
        for column in ("job", "name", "user", "state", "GPUs a node", "where or why not"):
            table.add_column(column)
        for job in self._rows:
            gpus = job.gres.rpartition(":")[2] if "gpu" in job.gres else "-"
            table.add_row(job.job, job.name, job.user, job.state, gpus, job.nodes or job.reason)
        return table
