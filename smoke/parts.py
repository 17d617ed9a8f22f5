"""Parts of a scenario that play at the same time, and stop together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


class InterruptedPartError(Exception):
    """Another part failed, or Ctrl-C came: this one stops."""


@dataclass(kw_only=True)
class Parts:
    """Threads that look at one event before and while they wait."""

    _over: threading.Event = field(default_factory=threading.Event)

    def parallel(self, *parts: Callable[[], T]) -> list[T]:
        """Play parts at the same time; if one fails, or at Ctrl-C, the others stop at their next wait."""
        with ThreadPoolExecutor(len(parts)) as pool:
            futures = [pool.submit(part) for part in parts]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                return [future.result() for future in futures]
            except BaseException:
                self._over.set()
                self.end_blocking_calls()
                raise

    def end_blocking_calls(self) -> None:
        """End what a part may be waiting for without looking at the event."""

    def sleep_until(self, instant: float) -> None:
        """Wait for a second since 1970."""
        if self._over.wait(max(0.0, instant - time.time())):
            raise InterruptedPartError
