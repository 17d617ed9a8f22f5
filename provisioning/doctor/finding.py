"""What a check finds: what is wrong, where, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from provisioning.errors import LabError


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. ``where`` is a service, or a part of this machine."""

    where: str
    what: str
    remedy: str

    def __str__(self) -> str:
        """Two lines for people."""
        return f"{self.where}: {self.what}\n  do: {self.remedy}"


def from_error(where: str, error: LabError) -> Finding:
    """An error that says all that a finding says."""
    return Finding(where, error.what, error.hint or "make bundle, and look into it")
