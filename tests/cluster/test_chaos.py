"""A minute of chaos on a running lab: what is counted, and nothing that must not be."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from provisioning.cluster import Cluster
from provisioning.settings import ROOT
from smoke.chaos.plan import plan

pytestmark = pytest.mark.slow

#: Draws a node that is made anew, one that is cut off, one that freezes, and a database that is killed.
SEED = 4


def test_a_minute_of_chaos_loses_nothing(cluster: Cluster) -> None:
    settings = cluster.settings
    env = {**os.environ, "LAB": settings.lab, "SLURM": settings.slurm, "PROJECT": settings.project,
           "DASHBOARD_PORT": cluster.dashboard}  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "smoke", "chaos", "--minutes=1", f"--seed={SEED}", "--json"], cwd=ROOT,
                          env=env, capture_output=True, text=True, timeout=900, check=False)  # fmt: skip
    seen = json.loads(done.stdout)
    assert (done.returncode, seen["problems"]) == (0, []), done.stderr
    faults = plan(SEED, 1, cluster.nodes(), cluster.ray_workers())
    assert seen["kinds"] == {fault.kind: 1 for fault in faults}
    assert seen["faults"] == len(faults) >= 3
    assert seen["jobs"] >= 20
    assert seen["ended"] >= seen["jobs"] - seen["forgotten"] - seen["ended_again"]
    assert seen["runs"] >= seen["ended"] * 0.8  # a job that its node's death ended before it began has none
    assert seen["audits"] >= 3
    assert seen["ray_succeeded"] >= 1
    for name in ("losses", "held_twice", "nodes_lost", "zombies", "orphans", "services_grown", "queued"):
        assert seen[name] == 0, name
