"""``make smoke``: the lab's main job end to end, as a user through the login node."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from smoke.check import Outcome, Step, run_lanes
from smoke.ray import RayUser
from smoke.slurm import Slurm
from smoke.steps_ray import RayLane, side_by_side
from smoke.steps_slurm import SlurmLane

PAYLOADS = Path(__file__).parent / "payloads"
TOGETHER = "side by side"
STYLES = {"ok": "green", "FAILED": "bold red", "left out": "yellow"}


class Screen:
    """What a person sees: a block of lines for each step that has ended, and below it what runs now."""

    def __init__(self, console: Console, steps: int) -> None:
        """Start the clock."""
        self.console = console
        self.steps = steps
        self.start = time.monotonic()
        self._running: list[str] = []
        self._ended = 0
        self._lock = threading.Lock()
        self._status = console.status("") if console.is_terminal else None

    def begun(self, step: Step) -> None:
        """A step has begun."""
        with self._lock:
            self._running.append(step.name)
            self._update()

    def done(self, outcome: Outcome) -> None:
        """A step has ended: its commands, and what was seen."""
        with self._lock:
            self._ended += 1
            self._running.remove(outcome.step.name)
            seconds = f"[{time.monotonic() - self.start:5.1f} s]"
            style = STYLES[outcome.verdict]
            claims = f" ({outcome.step.claims})" if outcome.step.claims else ""
            lines = [f"{escape(seconds)} [{style}]{outcome.verdict:<8}[/] {escape(outcome.step.name + claims)}"]
            lines += [f"    $ {escape(command)}" for command in outcome.commands]
            if outcome.verdict == "FAILED":
                lines += [f"    expected  {escape(outcome.step.expects)}"]
            lines += [f"    saw       {escape(outcome.seen)}"]
            if outcome.look_at:
                lines += [f"    look at   {escape(outcome.look_at)}"]
            self.console.print("\n".join(lines))
            self._update()

    def _update(self) -> None:
        if self._status:
            running = ", ".join(self._running)
            self._status.update(f"{self._ended} of {self.steps} steps done; now: {escape(running)}")
            self._status.start()

    def stop(self) -> None:
        """Take the last line away."""
        if self._status:
            self._status.stop()


def results(outcomes: Sequence[Outcome]) -> Table:
    """The table at the end."""
    table = Table("step", "claims", "seconds", "verdict", "seen", box=None, header_style="bold", pad_edge=False)
    table.columns[2].justify = "right"
    for one in outcomes:
        table.add_row(one.step.name, one.step.claims, f"{one.seconds:.1f}", f"[{STYLES[one.verdict]}]{one.verdict}[/]",
                      escape(one.seen.splitlines()[0] if one.seen else ""))  # fmt: skip
    return table


def life_cycles(rows: Sequence[tuple[str, str, str]]) -> Table:
    """The probe under both schedulers."""
    table = Table("gpu_probe.py", "under Slurm", "under Ray", box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


def smoke(cluster: Cluster, user: str, console: Console) -> list[Outcome]:
    """Copy the payloads into the user's home, run every step, and leave no job behind."""
    slurm, ray = Slurm(cluster, user), RayUser(cluster, user)
    files = sorted(path for path in PAYLOADS.iterdir() if path.is_file())
    slurm.login.put(files, folders=("logs", "checkpoints"))
    console.print(f"payloads are in {slurm.login.folder} of the login node: make shell AS={user}, then cd smoke")
    slurm_lane, ray_lane = SlurmLane(slurm, cluster.lab), RayLane(ray, cluster.lab)
    rows: list[tuple[str, str, str]] = []

    def together() -> str:
        rows.extend(side_by_side(slurm_lane, ray_lane))
        return "one GPU of each scheduler; the table below has both lives"

    last = [Step(TOGETHER, "one probe, one GPU, both records", together, "B1", ("slurm probe", "ray probe"))]
    lanes = [slurm_lane.steps(), ray_lane.steps()]
    screen = Screen(console, sum(map(len, lanes)) + len(last))
    try:
        outcomes = run_lanes(lanes, last, screen.begun, screen.done)
    finally:
        screen.stop()
        slurm.clean_up()
        ray.clean_up()
    console.print()
    if rows:
        console.print(life_cycles(rows), soft_wrap=False)
        console.print()
    console.print(results(outcomes), soft_wrap=False)
    return outcomes


def main(argv: list[str]) -> int:
    """Exit status 1 if any step failed."""
    options = argparse.ArgumentParser(prog="python -m smoke run", description=__doc__)
    options.add_argument("--user", default="", help="the user of the lab who types the commands (default: the first)")
    args = options.parse_args(argv)
    cluster = Cluster.open()
    names = [one.name for one in cluster.lab.users]
    user = args.user or (names[0] if names else "")
    if user not in names:
        raise LabError(f"the lab {cluster.lab.name} has no user {user!r}", f"one of: {', '.join(names)}")
    there = cluster.containers()
    down = [name for name in cluster.services() if name not in there or there[name].state != "running"]
    if down:
        raise LabError(f"the lab {cluster.settings.project} is not up: {', '.join(down)}", "make up")
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 140  # a log has no width of its own
    start = time.monotonic()
    outcomes = smoke(cluster, user, console)
    failed = [one.step.name for one in outcomes if one.verdict == "FAILED"]
    ok = sum(one.verdict == "ok" for one in outcomes)
    ending = f"; failed: {', '.join(failed)}" if failed else ""
    console.print(f"\n{ok} of {len(outcomes)} steps ok in {time.monotonic() - start:.1f} s{ending}")
    return 1 if failed else 0
