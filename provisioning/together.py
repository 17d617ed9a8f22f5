"""Calls side by side. At Ctrl-C they are not waited for, as a ThreadPoolExecutor would: they end with the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")


def begin(calls: Sequence[Callable[[], T]], at_most: int = 32) -> list[Future[T]]:
    """Begin the calls, at most so many at a time; a future for each, in their order."""
    futures: list[Future[T]] = [Future() for _ in calls]
    left = iter(zip(calls, futures, strict=True))
    turn = threading.Lock()

    def work() -> None:
        while True:
            with turn:
                call, future = next(left, (None, None))
            if call is None or future is None:
                return
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

    for _ in range(min(at_most, len(calls))):
        threading.Thread(target=work, daemon=True).start()
    return futures


def together(*calls: Callable[[], T], at_most: int = 32) -> list[T]:
    """The answers of all calls, in their order. When all have ended, raises what the first that failed has raised."""
    futures = begin(calls, at_most)
    wait(futures)
    return [future.result() for future in futures]
