"""Pinned versions, in this one place. Slurm comes from a Debian suite, Ray from images/ray/requirements.txt."""

from __future__ import annotations

RAY = "2.60.0"
SUITES = {"24.11": "trixie", "26.05": "forky"}
"""Slurm line -> the Debian suite that carries it."""

DEFAULT_LINE = "24.11"
PULLED_BASE = "debian:{suite}-slim"
BOOTSTRAPPED_BASE = "slurm-ray-lab/debian:{suite}"

PARENTS = {"base": "", "ray": "base", "slurm": "ray", "db": "base"}
"""Image -> the image it is built from; in build order."""
