"""Steps of the smoke run: small functions that return what they saw, in lanes that run side by side."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from provisioning.errors import LabError
from smoke.login import NOTED

#: What a step has begun when Ctrl-C comes, such as a submission, may take so long to be known and taken away.
LEAVE_S = 5.0


class NotHere(Exception):  # noqa: N818 - not an error
    """The lab does not have what the step needs: it is left out, with the reason."""


def check(condition: bool, seen: str, look_at: str = "") -> None:
    """Raise LabError with what was seen unless the condition holds; the step itself says what was expected."""
    if not condition:
        raise LabError(seen, look_at)


@dataclass(frozen=True)
class Step:
    """``run`` returns what it saw in one line; ``needs`` names steps without which this one is pointless."""

    name: str
    expects: str
    run: Callable[[], str]
    claims: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How a step went. ``verdict`` is ok, FAILED or left out."""

    step: Step
    verdict: str
    seconds: float
    seen: str
    look_at: str = ""
    commands: tuple[str, ...] = field(default=())


def run_step(step: Step, not_ok: set[str]) -> Outcome:
    """Run one step, whatever it raises."""
    missing = [name for name in step.needs if name in not_ok]
    if missing:
        return Outcome(step, "left out", 0.0, f"needs: {', '.join(missing)}")
    commands: list[str] = []
    note = NOTED.set(commands)
    start = time.monotonic()

    def outcome(verdict: str, seen: str, look_at: str = "") -> Outcome:
        return Outcome(step, verdict, time.monotonic() - start, seen, look_at, tuple(commands))

    try:
        return outcome("ok", step.run())
    except NotHere as reason:
        return outcome("left out", str(reason))
    except LabError as error:
        return outcome("FAILED", error.what, error.hint)
    except Exception as error:  # a fault of the step itself must not end the other steps
        return outcome("FAILED", f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3).strip()}")
    finally:
        NOTED.reset(note)


def run_lanes(lanes: Sequence[Sequence[Step]], last: Sequence[Step], begun: Callable[[Step], None],
              done: Callable[[Outcome], None]) -> list[Outcome]:  # fmt: skip
    """Run the lanes side by side, one step after the other within each, then ``last``; outcomes in that order."""
    outcomes: dict[str, Outcome] = {}
    not_ok: set[str] = set()

    over = threading.Event()

    def walk(steps: Sequence[Step]) -> None:
        for step in steps:
            if over.is_set():
                return
            begun(step)
            outcome = run_step(step, not_ok)
            if outcome.verdict != "ok":
                not_ok.add(step.name)
            outcomes[step.name] = outcome
            done(outcome)

    threads = [threading.Thread(target=walk, args=(lane,), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        over.set()
        for thread in threads:
            thread.join(LEAVE_S)
        raise
    walk(last)
    return [outcomes[step.name] for lane in [*lanes, last] for step in lane]
