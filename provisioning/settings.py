"""What the caller decides for one call: which lab, which Slurm, under which project name, on which port.

Every value comes from one documented environment variable (a make variable of the same name), see ``make help``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from provisioning.errors import LabError
from provisioning.versions import SUITES

ROOT = Path(__file__).resolve().parent.parent
#: Slurm lines that can be chosen with SLURM=, and the default.
SLURM_LINES = tuple(SUITES)
DEFAULT_PROJECT = "slurm-ray-lab"
_PROJECT = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")


@dataclass(frozen=True)
class Settings:
    """The choices of one call. ``dashboard`` is empty when the lab's YAML decides the port."""

    lab: str = "default"
    slurm: str = SLURM_LINES[0]
    project: str = DEFAULT_PROJECT
    dashboard: str = ""
    root: Path = ROOT

    def __post_init__(self) -> None:
        """Raise LabError for a value that cannot be."""
        if self.slurm not in SLURM_LINES:
            raise LabError(f"SLURM={self.slurm!r} is not known", f"use one of: {', '.join(SLURM_LINES)}")
        if not _PROJECT.fullmatch(self.project):
            raise LabError(f"PROJECT={self.project!r} is no project name", "use lower-case letters, digits, - and _")

    @property
    def generated(self) -> Path:
        """Folder of the rendered files and secrets of this project."""
        return self.root / "compose" / "generated" / self.project

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Read the environment; a variable that is unset or empty keeps its default."""
        given = os.environ if env is None else env

        def value(name: str, default: str) -> str:
            return given.get(name, "").strip() or default

        return cls(
            lab=value("LAB", cls.lab),
            slurm=value("SLURM", cls.slurm),
            project=value("PROJECT", cls.project),
            dashboard=value("DASHBOARD_PORT", cls.dashboard),
        )
