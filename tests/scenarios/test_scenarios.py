"""Every scenario on a running lab: each figure within its bounds, and the queue empty afterwards."""

from __future__ import annotations

import pytest
from rich.console import Console

from provisioning.cluster import Cluster
from smoke.scenario import play, show
from smoke.scenarios import SCENARIOS


# The quick ones are played by make test, the others by make test-slow.
@pytest.mark.parametrize(
    "name", [name if one.quick else pytest.param(name, marks=pytest.mark.slow) for name, one in SCENARIOS.items()]
)
def test_scenario(lab: Cluster, name: str) -> None:
    console = Console(highlight=False, width=120)
    report = play(SCENARIOS[name], lab, None, console)
    show(report, console)
    missed = [one.row() for one in report.expectations if not one.met]
    assert not missed
    assert lab.exec("slurmctld", ["squeue", "--noheader"]).stdout == ""
