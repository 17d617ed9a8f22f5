"""The one error type that people see: what went wrong, and what to do next."""

from __future__ import annotations

import sys


class LabError(Exception):
    """`error: WHAT` and `  next: HINT` on the terminal, exit status 1."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


def print_error(error: LabError) -> None:
    """What was wrong, and the next step if there is one, on standard error."""
    print(f"error: {error}", file=sys.stderr)
    if error.hint:
        print(f"  next: {error.hint}", file=sys.stderr)
