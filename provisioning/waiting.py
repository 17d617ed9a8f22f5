"""One way to wait: ask until the answer is right, within a bound, and say at the bound what was last seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from provisioning.errors import LabError

T = TypeVar("T")


def wait_for(
    what: str,
    probe: Callable[[], T],
    ok: Callable[[T], bool] = bool,
    *,
    timeout_s: float,
    interval_s: float = 0.3,
    show: Callable[[T], str] = str,
    look_at: str = "",
) -> T:
    """Ask ``probe`` until ``ok`` accepts its answer, and return that answer.

    A LabError of the probe counts as an answer that is not right yet. At the bound raises LabError with what was last
    seen; ``look_at`` names the next step.
    """
    start = time.monotonic()
    while True:
        try:
            answer = probe()
            if ok(answer):
                return answer
            seen = show(answer)
        except LabError as error:
            seen = error.what
        if time.monotonic() - start > timeout_s:
            raise LabError(f"{what}: not within {timeout_s:.0f} s; last seen: {seen or 'nothing'}", look_at)
        time.sleep(interval_s)
