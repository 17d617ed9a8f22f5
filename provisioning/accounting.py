"""Accounting made what the YAML says: read what is, plan the difference, close it; see sacctmgr(1).

``plan_accounting(desired_accounting(lab), read_accounting(run))`` is empty when nothing is to do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from provisioning.accounting_model import Accounting, desired_accounting
from provisioning.accounting_plan import SACCTMGR, Change, plan_accounting
from provisioning.accounting_read import Run, read_accounting
from provisioning.errors import LabError
from provisioning.lab import Lab

__all__ = ["Accounting", "Change", "add_named_qos", "apply_accounting", "desired_accounting", "named_qos",
           "plan_accounting", "read_accounting", "settle_accounting"]  # fmt: skip

#: sacctmgr fails when it finds nothing to do: a change that was made by the run before.
_ALREADY = re.compile(r"Nothing (new )?(added|deleted|modified|removed)|lready exist|didn't affect anything")
#: Both outputs and the exit status as one text, whatever the status is.
_TOLD = 'sacctmgr "$@" 2>&1; echo "exit status $?"'


def script_line(change: Change) -> str:
    """A change as a line of sacctmgr's standard input, where a quoted text may hold blanks."""

    def quoted(word: str) -> str:
        name, equals, text = word.partition("=")
        return f'{name}{equals}"{text}"' if any(one.isspace() for one in text) else word

    return " ".join(quoted(word) for word in change.argv[len(SACCTMGR) :])


def _sacctmgr(run: Run, arguments: Sequence[str], stdin: str | None = None) -> tuple[bool, str]:
    """Whether it succeeded, and all it said."""
    text = run(["sh", "-c", _TOLD, *arguments], stdin)
    said, _, status = text.rstrip().rpartition("exit status ")
    return status == "0", said.strip()


def _hint(said: str) -> str:
    if "Job(s) active" in said:
        return "wait for those jobs or scancel them, then make apply again"
    if "no TRES known" in said:
        return "slurmctld must know the TRES first (a node with such a GPU): make apply again"
    return "mend the cause, then make apply again: it goes on from here"


def apply_accounting(changes: Sequence[Change], run: Run) -> None:
    """Make the changes with one sacctmgr, which reads them from its standard input.

    If it fails, each change is made by itself, to find the one that fails. Raises LabError with what failed, what was
    done and what was not.
    """
    if not changes:
        return
    script = "".join(f"{script_line(change)}\n" for change in changes)
    worked, said_by_all = _sacctmgr(run, SACCTMGR, script)
    if worked:
        return
    done: list[str] = []
    failed: list[tuple[Change, str]] = []
    for change in changes:
        worked, said = _sacctmgr(run, change.argv)
        if worked or _ALREADY.search(said):
            done.append(f"{change.kind} {change.what}")
        else:
            failed.append((change, said))
    if not failed:
        return  # what failed first was only out of its turn
    first, said = failed[0]
    message = " ".join(said.split())[:400] or " ".join(said_by_all.split())[-400:]
    open_ones = ", ".join(f"{change.kind} {change.what}" for change, _ in failed)
    lines = f"\n  done: {', '.join(done) or 'nothing'}\n  not done: {open_ones}"
    raise LabError(f"accounting: {first} failed: {message}{lines}", _hint(said))


def named_qos(lab: Lab) -> list[str]:
    """QOS that a partition names. slurmctld of 26.05 ends when it reads such a name before the QOS exists."""
    names = (name for one in lab.partitions for name in (one.qos, *one.allow_qos) if name)
    return list(dict.fromkeys(name.lower() for name in names))


def add_named_qos(lab: Lab, run: Run) -> None:
    """Make the QOS that partitions name, still without their parameters. Needs slurmdbd only, and no cluster in it."""
    if not (names := named_qos(lab)):
        return
    known = run(["sacctmgr", "-nP", "show", "qos", "format=Name"]).split()
    apply_accounting([Change("add", f"qos {name}", "", (*SACCTMGR, "add", "qos", name))
                      for name in names if name not in known], run)  # fmt: skip


def settle_accounting(lab: Lab, run: Run) -> list[Change]:
    """Close the difference and read again. Returns the changes; raises LabError if a difference is left."""
    desired = desired_accounting(lab)
    changes = plan_accounting(desired, read_accounting(run))
    if changes:
        apply_accounting(changes, run)
        if left := plan_accounting(desired, read_accounting(run)):
            raise LabError(f"accounting: still different after it was changed: {'; '.join(map(str, left))}",
                           "make plan shows it")  # fmt: skip
    return changes
