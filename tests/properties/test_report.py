"""Bars from records, and the page around them."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from smoke import report, report_timeline
from smoke.report_bars import timeline


def run(
    job: str, start: float, end: float, nodes: str = "c1", gpus: float = 2, state: str = "COMPLETED"
) -> dict[str, Any]:
    return {"job": job, "name": f"job-{job}", "user": "alice", "state": state, "submit": 100, "start": start,
            "end": end, "nodes": nodes, "gpus": gpus}  # fmt: skip


def test_nobody_shares_a_gpu() -> None:
    chart = timeline([run("1", 100, 110), run("2", 105, 120), run("3", 110, 130, gpus=4)], [], {"c1": 8, "c2": 8})
    assert sorted(bar.gpu for bar in chart.bars if bar.job == "2") == [2, 3]
    for one in chart.bars:
        for other in chart.bars:
            if one is not other and (one.node, one.gpu) == (other.node, other.gpu):
                assert one.end <= other.start or other.end <= one.start
    assert chart.end == 30


def test_gpus_of_several_nodes_and_waits() -> None:
    chart = timeline([run("1", 104, 110, nodes="c[1-2]", gpus=16)], [], {"c1": 8, "c2": 8})
    assert len(chart.bars) == 16 and len(chart.lanes) == 16
    assert [(wait.start, wait.end) for wait in chart.waits] == [(0, 4)]
    assert chart.utilization == pytest.approx(0.6)


def test_each_node_has_the_lanes_of_its_gpus() -> None:
    runs = [run("1", 100, 110, nodes="m1"), run("2", 100, 110, nodes="c[1-2]"), run("3", 100, 101, nodes="gone")]
    chart = timeline(runs, [], {"m1": 8, "c1": 4, "c2": 2})
    assert Counter(node for node, _ in chart.lanes) == {"m1": 8, "c1": 4, "c2": 2, "gone": 2}


def test_parts_of_a_gpu_lie_on_one_as_long_as_they_fit() -> None:
    parts = [run("1", 100, 110, gpus=0.5), run("2", 101, 104, gpus=0.5), run("3", 102, 110, gpus=0.5),
             run("4", 105, 110, gpus=0.25)]  # fmt: skip
    chart = timeline(parts, [], {"c1": 2})
    places = [(bar.gpu, bar.level, bar.share) for bar in chart.bars]
    assert places == [(0, 0, 0.5), (0, 0.5, 0.5), (1, 0, 0.5), (0, 0.5, 0.25)]
    assert chart.utilization == pytest.approx((10 + 3 + 8 + 2.5) / 2 / 20)


def test_records_that_overlap_by_a_rounded_second_make_no_gpu_more() -> None:
    chart = timeline([run("1", 100, 111, gpus=2), run("2", 110, 120, gpus=2)], [], {"c1": 2})
    assert len(chart.lanes) == 2 and sorted(bar.gpu for bar in chart.bars) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("state", "user", "lost"),
    [("NODE_FAIL", "alice", 2), ("FAILED", "ray", 2), ("FAILED", "alice", None), ("COMPLETED", "ray", None)],
)
def test_what_a_dead_node_held_is_lost_and_what_failed_by_itself_is_not(
    state: str, user: str, lost: float | None
) -> None:
    (bar,) = timeline([{**run("1", 102, 110, gpus=1, state=state), "user": user}], [], {"c1": 2}).bars
    assert bar.lost_from == lost


def test_lost_work_begins_at_the_last_checkpoint() -> None:
    runs = [run("1", 100, 110, state="PREEMPTED"), run("1", 115, 120)]
    notes = [{"job": "1", "event": "checkpoint", "t": 106.0}]
    chart = timeline(runs, notes, {"c1": 8, "c2": 8})
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
    page = report.html([RESULT], {"c1": 8}, "Report")
    assert "A &lt;title&gt;" in page and "677" in page and "650 to 700" in page
    assert "<img" not in page and "src=" not in page and "<script" not in page
    ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])


def test_markdown_with_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    text = report.markdown([RESULT], {"c1": 8}, "Report", tmp_path)
    assert "| time, min | 677 | 680 | 650 to 700 | ok |" in text
    assert (tmp_path / "preemption.png").read_bytes().startswith(b"\x89PNG")


def test_timeline_of_everybodys_jobs() -> None:
    pytest.importorskip("matplotlib")
    text = report_timeline.page(timeline([run("1", 100, 110, gpus=8)], [], {"c1": 8, "c2": 8}), "GPUs of the last 2 h")
    assert "last 2 h" in text and "100 % of the GPUs" in text
