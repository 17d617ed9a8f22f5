"""Pinned versions, in this one place. Slurm comes from a Debian suite; Ray's version is read from the image's lock."""

from __future__ import annotations

import re
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "images" / "ray" / "requirements.txt"
RAY = "".join(re.findall(r"(?m)^ray(?:\[\w+\])?==(\S+)", LOCK.read_text()))
SUITES = {"24.11": "trixie", "26.05": "forky"}
"""Slurm line -> the Debian suite that carries it."""

SLURM_RELEASES = ("23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05")
"""In their order, also those that the lab has never carried: a release reads the state of the three before it."""

PULLED_BASE = "debian:{suite}-slim"
BOOTSTRAPPED_BASE = "slurm-ray-lab/debian:{suite}"

PARENTS = {"base": "", "ray": "base", "slurm": "ray", "db": "base"}
"""Image -> the image it is built from; in build order."""
