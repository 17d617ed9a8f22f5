"""``python -m smoke.report_timeline``: the GPUs of the last hours, by everybody's records and Ray's API."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from smoke.ray_runs import lab_gpus, ray_runs
from smoke.records import record_of
from smoke.report import LEGEND, STYLE
from smoke.report_bars import Timeline, timeline
from smoke.report_chart import svg
from smoke.slurm import Slurm


def page(chart: Timeline, title: str, second_per_min: float = 60.0, above: str = "") -> str:
    """One page without anything from the network; ``above`` is HTML that comes before the chart."""
    names = {bar.name for bar in chart.bars}
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1>{above}{svg(chart, second_per_min, 'timeline')}<p><small>{escape(LEGEND)}</small></p>"
        f"<p>{len(names)} names of jobs; {100 * chart.utilization:.0f} % of the GPUs shown were held, from the first "
        "submission to the last end.</p></body></html>\n"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m smoke timeline", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="how far back")
    parser.add_argument("--out", type=Path, default=Path("timeline.html"), help="the page")
    args = parser.parse_args(argv)
    cluster = Cluster.open()
    since = f"now-{round(args.hours * 3600)}seconds"
    slurm = Slurm(cluster, cluster.lab.users[0].name, folder="")
    rows = slurm.sacct(options=("--allocations", "--allusers", "--starttime", since))
    runs = [dataclasses.asdict(record_of(row)) for row in rows]
    runs += ray_runs(cluster, time.time() - args.hours * 3600)
    chart = timeline([run for run in runs if run["gpus"]], [], lab_gpus(cluster.lab))
    if not chart.bars:
        raise LabError(f"nobody held a GPU in the last {args.hours:g} h", "make smoke, or a longer time with --hours")
    args.out.write_text(page(chart, f"GPUs of the last {args.hours:g} h"), encoding="utf-8")
    print(f"{args.out}: {len(runs)} runs, {100 * chart.utilization:.0f} % held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
