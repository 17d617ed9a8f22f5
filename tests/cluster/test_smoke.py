"""The smoke run is green, as a user sees it."""

from __future__ import annotations

import os

from provisioning.cluster import Cluster, run_local


def test_smoke_is_green(cluster: Cluster) -> None:
    env = {**os.environ, "PROJECT": cluster.settings.project, "SLURM": cluster.settings.slurm,
           "DASHBOARD_PORT": cluster.settings.dashboard, "LAB": cluster.settings.lab}  # fmt: skip
    result = run_local([".venv/bin/python", "-m", "smoke"], env=env, timeout_s=240)
    assert result.exit_code == 0, result.stdout + result.stderr
    for claim in ("S1", "S3", "S6", "S9", "B1", "R1", "R2", "R3", "R4"):
        assert claim in result.stdout
