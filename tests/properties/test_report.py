"""Bars from records, and the page around them."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from smoke import report, report_timeline
from smoke.report_bars import timeline


def run(
    job: str, start: float, end: float, nodes: str = "c1", gpus: int = 2, state: str = "COMPLETED"
) -> dict[str, Any]:
    return {"job": job, "name": f"job-{job}", "user": "alice", "state": state, "submit": 100, "start": start,
            "end": end, "nodes": nodes, "gpus": gpus}  # fmt: skip


def test_nobody_shares_a_gpu() -> None:
    chart = timeline([run("1", 100, 110), run("2", 105, 120), run("3", 110, 130, gpus=4)], [], per_node=8)
    assert sorted(bar.gpu for bar in chart.bars if bar.job == "2") == [2, 3]
    for one in chart.bars:
        for other in chart.bars:
            if one is not other and (one.node, one.gpu) == (other.node, other.gpu):
                assert one.end <= other.start or other.end <= one.start
    assert chart.end == 30


def test_gpus_of_several_nodes_and_waits() -> None:
    chart = timeline([run("1", 104, 110, nodes="c[1-2]", gpus=16)], [], per_node=8)
    assert len(chart.bars) == 16 and len(chart.lanes) == 16
    assert [(wait.start, wait.end) for wait in chart.waits] == [(0, 4)]
    assert chart.utilization == pytest.approx(0.6)


def test_lost_work_begins_at_the_last_checkpoint() -> None:
    runs = [run("1", 100, 110, state="PREEMPTED"), run("1", 115, 120)]
    notes = [{"job": "1", "event": "checkpoint", "t": 106.0}]
    chart = timeline(runs, notes, per_node=8)
    assert {bar.lost_from for bar in chart.bars} == {6.0, None}
    assert [(wait.start, wait.end) for wait in chart.waits] == [(10, 15)]


RESULT: dict[str, Any] = {
    "scenario": "preemption", "title": "A <title>", "story": "One.",
    "lesson": "Two.", "second_per_min": 0.1, "seconds": 70,
    "runs": [run("1", 100, 110, state="PREEMPTED"), run("1", 115, 120)], "notes": [],
    "expectations": [{"metric": "time", "predicted": 677.0, "measured": 680.0, "lower": 650.0, "upper": 700.0,
                      "unit": "min", "why": "", "verdict": "ok"}],
}  # fmt: skip


def test_page_is_self_contained() -> None:
    pytest.importorskip("matplotlib")
    page = report.html([RESULT], 8, "Report")
    assert "A &lt;title&gt;" in page and "677" in page and "650 to 700" in page
    assert "<img" not in page and "src=" not in page and "<script" not in page
    ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])


def test_markdown_with_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    text = report.markdown([RESULT], 8, "Report", tmp_path)
    assert "| time, min | 677 | 680 | 650 to 700 | ok |" in text
    assert (tmp_path / "preemption.png").read_bytes().startswith(b"\x89PNG")


def test_timeline_of_everybodys_jobs() -> None:
    pytest.importorskip("matplotlib")
    text = report_timeline.page(timeline([run("1", 100, 110, gpus=8)], [], per_node=8), "GPUs of the last 2 h")
    assert "last 2 h" in text and "100 % of the GPUs" in text
