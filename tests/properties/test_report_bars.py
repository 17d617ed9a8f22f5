"""Whatever ran, no chart shows one GPU with two jobs, nor a job with more GPUs than it held."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from smoke.report_bars import timeline

PER_NODE = 8


@st.composite
def possible_runs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Runs that fit the node at every moment, as a scheduler makes them."""
    runs: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 12))):
        start, length = draw(st.integers(1, 50)), draw(st.integers(1, 30))
        held = max(
            sum(one["gpus"] for one in runs if one["start"] <= t < one["end"]) for t in range(start, start + length)
        )
        if held < PER_NODE:
            gpus = draw(st.integers(1, PER_NODE - held))
            runs.append({"job": str(number), "name": "job", "user": "alice", "state": "COMPLETED", "submit": start - 1,
                         "start": start, "end": start + length, "nodes": "c1", "gpus": gpus})  # fmt: skip
    return runs


@given(possible_runs())
def test_one_gpu_one_job(runs: list[dict[str, Any]]) -> None:
    chart = timeline(runs, [], {"c1": PER_NODE})
    for one in chart.bars:
        for other in chart.bars:
            if one is not other and one.gpu == other.gpu:
                assert one.end <= other.start or other.end <= one.start
    for run in runs:
        assert len([bar for bar in chart.bars if bar.job == run["job"]]) == run["gpus"]
    assert 0 <= chart.utilization <= 1
