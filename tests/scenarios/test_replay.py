"""A workload of ten short jobs, replayed on a running lab."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from smoke import replay
from smoke.clock import Clock
from smoke.models.replay import shortest_min
from smoke.swf import parse_swf
from smoke.workload import fit, parse_yaml

#: The low jobs hold every GPU; the urgent one of two nodes comes five minutes later and preempts two of them.
TEN = """\
jobs:
  - {name: low-1, user: alice, runs: 40, gpus: 8, qos: low, limit: 60}
  - {name: low-2, user: alice, runs: 40, gpus: 8, qos: low, limit: 60}
  - {name: low-3, user: bob, runs: 40, gpus: 8, qos: low, limit: 60}
  - {name: low-4, user: bob, runs: 40, gpus: 8, qos: low, limit: 60}
  - {name: urgent, user: bob, runs: 10, gpus: 8, nodes: 2, qos: high, at: 20}
  - {name: small-1, user: alice, runs: 5, at: 25}
  - {name: small-2, user: alice, runs: 5, gpus: 2, at: 25}
  - {name: small-3, user: bob, runs: 5, gpus: 4, at: 30}
  - {name: cpu, user: bob, runs: 2, gpus: 0, at: 30}
  - {name: over, user: alice, runs: 30, limit: 3, at: 35}
"""


@pytest.mark.slow
def test_ten_jobs_with_a_preemption(lab: Cluster) -> None:
    jobs = fit(parse_yaml(TEN, "ten.yaml")[0], lab.lab, "ten.yaml")
    played = replay.play(lab, jobs, Clock(0.4), Console(highlight=False, width=120))
    assert played.last_states() == {"COMPLETED": 10}
    assert len(played.preempted) == 2
    assert all(one.name.startswith("low-") for one in played.preempted)
    assert shortest_min([job.work for job in jobs], 32) <= played.makespan_min + 1 / 0.4
    waits = played.waits_min()
    assert set(waits) == {job.name for job in jobs}
    assert waits["urgent"] < 4 / 0.4, "it preempted, and did not wait for the low jobs' end"
    # a preempted job is let go at once, although Slurm would hold it back for two minutes
    assert max(one.end for one in played.records) - min(one.submit for one in played.records) < 90
    assert lab.exec("slurmctld", ["squeue", "--noheader"]).stdout == ""


@pytest.mark.slow
def test_a_trace(lab: Cluster) -> None:
    rows = [f"{n} {n * 10} -1 60 -1 -1 -1 {gpus} 120 -1 1 {n} 1 -1 -1 -1 -1 -1" for n, gpus in enumerate((1, 8, 16))]
    jobs = fit(parse_swf(rows, "t.swf", lab.lab).jobs, lab.lab, "t.swf")
    played = replay.play(lab, jobs, Clock(2.0), Console(file=io.StringIO()))
    assert sorted((one.name, one.gpus) for one in played.records) == [("u0-0", 1), ("u1-1", 8), ("u2-2", 16)]


@pytest.mark.slow
def test_a_mistake_is_reported_before_anything_is_submitted(lab: Cluster, tmp_path: Path) -> None:
    def last_job() -> str:
        return lab.exec("slurmctld", ["sh", "-c", "scontrol show job -o | tail -1 | cut -d' ' -f1"]).stdout

    before = last_job()
    path = tmp_path / "wrong.yaml"
    path.write_text(TEN.replace("nodes: 2", "nodes: 200"), encoding="utf-8")
    with pytest.raises(LabError, match="200 nodes with 8 GPUs"):
        replay.main([str(path)])
    assert last_job() == before
