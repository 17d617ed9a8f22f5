"""What is wrong with a lab's YAML, as data, and the error that carries all of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from provisioning.errors import LabError

MOST_SHOWN = 50


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where (``file:line``, path in the file), what, and what to write instead."""

    file: str
    path: str
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        where = f"{self.file}: {self.path}: " if self.path else f"{self.file}: "
        return where + self.problem + (f"; {self.remedy}" if self.remedy else "")


class LabInvalid(LabError):  # noqa: N818 (says what it is)
    """The YAML of a lab is not valid; ``problems`` has everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem], hint: str = "correct the YAML; nothing was changed") -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[:MOST_SHOWN]]
        if len(self.problems) > MOST_SHOWN:
            lines.append(f"and {len(self.problems) - MOST_SHOWN} more")
        super().__init__("\n".join(lines), hint)


def shown(text: str) -> str:
    """A value from the file as a message shows it: quoted, on one line, not too long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def nearest(name: str, valid: Iterable[str]) -> str:
    """``did you mean X?`` if a valid name is close, else the valid names if they are few."""
    known = sorted(set(valid))
    plain = {one.lower().replace("_", ""): one for one in known}
    name = name[:100]
    wanted = name.lower().replace("_", "").replace("-", "")
    close = [wanted] if wanted in plain else difflib.get_close_matches(wanted, plain, n=1, cutoff=0.7)
    if close:
        return f"did you mean {plain[close[0]]}?"
    if len(known) <= 20:
        return "valid: " + ", ".join(known) if known else "there is none"
    return ""
