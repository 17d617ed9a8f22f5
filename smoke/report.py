"""``python -m smoke report``: the last result of each scenario as one HTML page, or as Markdown with pictures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from smoke.ray_runs import lab_gpus
from smoke.report_bars import Timeline, timeline
from smoke.report_chart import png, svg
from smoke.verdict import figure

STYLE = """
:root { color-scheme: light dark; --line: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
td.number { text-align: right; }
svg { width: 100%; height: auto; }
.missed { font-weight: bold; }
section { break-inside: avoid-page; margin-bottom: 3rem; }
"""
LEGEND = "Each line is a GPU; hatched is work that was lost; below, who waited."


def results(folder: Path) -> list[dict[str, Any]]:
    """The kept results in the order of the scenarios. Raises LabError if there are none."""
    from smoke.scenarios import SCENARIOS

    found = [folder / f"{name}.json" for name in SCENARIOS]
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in found if path.exists()]
    if not kept:
        raise LabError("no scenario has been played on this lab yet", "make scenarios")
    return kept


def chart_of(result: dict[str, Any], gpus: Mapping[str, int]) -> Timeline:
    """Who held which GPU in a result."""
    return timeline(result["runs"], result["notes"], gpus)


def bounds(row: dict[str, Any]) -> str:
    """A range, or the one figure that is allowed."""
    low, high = figure(row["lower"]), figure(row["upper"])
    return low if low == high else f"{low} to {high}"


def cells(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """The columns of the table."""
    name = f"{row['metric']}, {row['unit']}" if row["unit"] else row["metric"]
    measured = "not measured" if row["measured"] is None else figure(row["measured"])
    return name, figure(row["predicted"]), measured, bounds(row), row["verdict"]


HEAD = ("metric", "predicted", "measured", "bounds", "verdict")


def _section(result: dict[str, Any], gpus: Mapping[str, int]) -> str:
    chart = chart_of(result, gpus)
    drawn = (
        f"{svg(chart, result['second_per_min'], result['scenario'])}<p><small>{LEGEND}</small></p>"
        if chart.bars
        else ""
    )
    rows = []
    for row in result["expectations"]:
        name, *numbers, verdict = (escape(cell) for cell in cells(row))
        mark = ' class="missed"' if verdict != "ok" else ""
        rows.append(f"<tr><td>{name}</td>" + "".join(f'<td class="number">{one}</td>' for one in numbers)
                    + f"<td{mark}>{verdict}</td></tr>")  # fmt: skip
    head = "".join(f"<th>{one}</th>" for one in HEAD)
    return (
        f'<section id="{result["scenario"]}"><h2>{escape(result["title"])}</h2><p>{escape(result["story"])}</p>{drawn}'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f"<p>{escape(result['lesson'])}</p>"
        f"<p>Again: <code>make scenario NAME={result['scenario']}</code> ({result['seconds']:.0f} s)</p></section>"
    )


def html(kept: Sequence[dict[str, Any]], gpus: Mapping[str, int], title: str) -> str:
    """One page without anything from the network."""
    sections = "\n".join(_section(result, gpus) for result in kept)
    links = ", ".join(f'<a href="#{one["scenario"]}">{one["scenario"]}</a>' for one in kept)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1><p>{links}</p>\n{sections}\n</body></html>\n"
    )


def markdown(kept: Sequence[dict[str, Any]], gpus: Mapping[str, int], title: str, folder: Path) -> str:
    """The same for a README; the pictures are written beside it."""
    parts = [f"# {title}"]
    for result in kept:
        parts.append(f"## {result['title']}\n\n{result['story']}")
        chart = chart_of(result, gpus)
        if chart.bars:
            (folder / f"{result['scenario']}.png").write_bytes(png(chart, result["second_per_min"]))
            parts.append(f"![{result['scenario']}: GPUs over time]({result['scenario']}.png)\n\n{LEGEND}")
        table = [HEAD, ("---", "---:", "---:", "---:", "---"), *(cells(row) for row in result["expectations"])]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in table))
        parts.append(f"{result['lesson']}\n\nAgain: `make scenario NAME={result['scenario']}`")
    return "\n\n".join(parts) + "\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``python -m smoke report``."""
    parser.add_argument("--out", type=Path, default=Path("report.html"), help="the page; NAME.md for Markdown")


def run(args: argparse.Namespace) -> int:
    """Write the report."""
    cluster = Cluster.open()
    kept = results(cluster.settings.generated / "results")
    gpus = lab_gpus(cluster.lab)
    title = f"Slurm {cluster.settings.slurm} and Ray: predicted and measured"
    args.out.parent.mkdir(parents=True, exist_ok=True)
    if args.out.suffix == ".md":
        args.out.write_text(markdown(kept, gpus, title, args.out.parent), encoding="utf-8")
    else:
        args.out.write_text(html(kept, gpus, title), encoding="utf-8")
    print(f"{args.out}: {', '.join(one['scenario'] for one in kept)}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m smoke report", description=__doc__)
    add_arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
