"""The one error type that people see: what went wrong, and what to do next."""


class LabError(Exception):
    """`error: WHAT` and `  next: HINT` on the terminal, exit status 1."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
