"""What a scenario reads: rows of sacct and squeue, and the lines its payload writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provisioning.slurmtypes import parse_tres
from smoke.slurm import FINAL

#: squeue's format of ``Queued``, field by field.
QUEUED = "%A|%j|%u|%T|%r|%b|%N"


@dataclass(frozen=True)
class Record:
    """One row of sacct: one run of a job. ``start`` and ``end`` are 0 while unknown."""

    job: str
    name: str
    user: str
    state: str
    submit: float
    start: float
    end: float
    nodes: str
    gpus: int

    @property
    def over(self) -> bool:
        """The run has ended."""
        return self.end > 0 and self.state in {*FINAL, "REQUEUED"}


@dataclass(frozen=True)
class Queued:
    """One line of squeue."""

    job: str
    name: str
    user: str
    state: str
    reason: str
    gres: str
    nodes: str


@dataclass(frozen=True)
class Note:
    """One line the payload wrote."""

    t: float
    event: str
    progress: float
    restart: int
    job: str


def record_of(row: Mapping[str, str]) -> Record:
    """One row of ``Slurm.sacct``."""
    tres = parse_tres(row["AllocTRES"]) if row["AllocTRES"] else {}
    return Record(row["JobID"], row["JobName"], row["User"], row["State"].split()[0], epoch(row["Submit"]),
                  epoch(row["Start"]), epoch(row["End"]), row["NodeList"], int(tres.get("gres/gpu", 0)))  # fmt: skip


def epoch(text: str) -> float:
    """Epoch seconds of a time of sacct; 0 for Unknown and None."""
    return float(text) if text.isdigit() else 0.0
