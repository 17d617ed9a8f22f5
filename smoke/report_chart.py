"""Gantt charts by matplotlib: every GPU over time. Colours by Okabe and Ito, which colour-blind people tell apart.

The SVG has no background and its text takes the colour of the page, so that it is readable in light, dark and print.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from typing import Any

from smoke.report_bars import Timeline

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


def _figure(chart: Timeline, second_per_min: float) -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lab", "font.size": 8, "hatch.linewidth": 0.6})
    rows = {lane: number for number, lane in enumerate(chart.lanes)}
    waiting = list(dict.fromkeys(wait.name for wait in chart.waits))
    heights = [max(1.0, 0.09 * len(rows)), max(0.3, 0.16 * len(waiting))]
    figure, (top, bottom) = pyplot.subplots(2, 1, sharex=True, figsize=(9, sum(heights) + 0.9), height_ratios=heights,
                                            layout="constrained")  # fmt: skip
    names = list(dict.fromkeys(bar.name for bar in chart.bars))
    colour = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    for bar in chart.bars:
        start, end = bar.start / second_per_min, bar.end / second_per_min
        row, height = rows[bar.node, bar.gpu] + 0.9 * (bar.level + bar.share / 2 - 0.5), 0.9 * bar.share
        kept = end if bar.lost_from is None else bar.lost_from / second_per_min
        top.barh(row, kept - start, left=start, height=height, color=colour[bar.name], linewidth=0)
        if kept < end:
            top.barh(row, end - kept, left=kept, height=height, fill=False, hatch="////", edgecolor=colour[bar.name])
    of_node = Counter(node for node, _ in chart.lanes)
    first = [rows[node, 0] for node in of_node]
    top.set_yticks([row + (count - 1) / 2 for row, count in zip(first, of_node.values(), strict=True)], list(of_node))
    for row in first[1:]:
        top.axhline(row - 0.5, color="#999999", linewidth=0.5)
    top.set_ylim(len(rows) - 0.5, -0.5)
    top.set_ylabel("GPUs")
    handles = [Patch(color=colour[name]) for name in names[:12]]
    top.legend(handles, names[:12], ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    for wait in chart.waits:
        start, length = wait.start / second_per_min, (wait.end - wait.start) / second_per_min
        bottom.barh(waiting.index(wait.name), length, left=start, height=0.7, color=colour.get(wait.name, "#999999"),
                    alpha=0.45)  # fmt: skip
    bottom.set_yticks(range(len(waiting)), waiting)
    bottom.set_ylim(max(1, len(waiting)) - 0.5, -0.5)
    bottom.set_ylabel("waiting" if waiting else "nobody waited", rotation="vertical" if waiting else "horizontal")
    bottom.set_xlabel(f"simulated minutes, {second_per_min:g} s each")
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _save(figure: Any, kind: str, **options: Any) -> bytes:
    from matplotlib import pyplot

    out = io.BytesIO()
    figure.savefig(out, format=kind, **options)
    pyplot.close(figure)
    return out.getvalue()


def svg(chart: Timeline, second_per_min: float, label: str) -> str:
    """The chart as an element of a page."""
    text = _save(_figure(chart, second_per_min), "svg", transparent=True, metadata={"Date": None}).decode()
    text = text[text.index("<svg") :].replace("#000000", "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # ids are unique in a page only with the chart's name in them
    slug = re.sub(r"\W", "-", label)
    text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{slug}-", text)
    text = text.replace("<text ", '<text fill="currentColor" ')
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}: GPUs over time" ', 1)


def png(chart: Timeline, second_per_min: float) -> bytes:
    """The chart as a picture."""
    return _save(_figure(chart, second_per_min), "png", dpi=110, facecolor="white")
