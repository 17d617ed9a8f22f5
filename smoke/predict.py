"""``python -m smoke predict NAME ...``: a calculator over ``smoke/models``, for numbers of one's own."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from smoke.models import backfill, fairshare, fragmentation, gang, granularity, preemption, rlhf, utilization
from smoke.models.durations import format_minutes, parse_minutes

Rows = list[tuple[str, str]]


class OneLine(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Without the usage."""
        self.exit(2, f"error: {message}\n")


def _type(name: str, convert: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            reason = str(error) if str(error).startswith(repr(text)) else f"{text!r} is not {name}"
            raise argparse.ArgumentTypeError(reason) from None

    return parse


def _share(text: str) -> float:
    value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value


def _positive(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError
    return value


def _request(text: str) -> backfill.Request:
    name, nodes, limit = text.split(":")
    return backfill.Request(name, int(nodes), parse_minutes(limit))


minutes = _type("a duration", parse_minutes)
share = _type("a share; write for example 70% or 0.7", _share)
amount = _type("a number of 0 or more", _positive)
numbers = _type(
    "a list of whole numbers; write for example 5,6,6,7", lambda text: [int(part) for part in text.split(",")]
)
request = _type("NAME:NODES:LIMIT; write for example first:4:2h", _request)


def percent(value: float) -> str:
    """0.862 as 86.2 %."""
    return f"{100 * value:.1f} %"


def _preemption(given: argparse.Namespace) -> Rows:
    job = preemption.Job(given.work, given.checkpoint_every, given.checkpoint_cost)
    end = preemption.expected(job, given.preemptions, given.requeue_wait)
    rows = [
        (
            "checkpoints",
            f"{job.checkpoints} x {format_minutes(job.checkpoint_cost_min)}" if job.checkpoints else "none",
        ),
        ("work lost", format_minutes(end.lost_min)),
        ("waiting", format_minutes(end.wait_min)),
        ("time in all", f"{end.wall_min:.0f} min = {format_minutes(end.wall_min)}"),
        ("times the work", f"{end.stretch:.2f}"),
        ("effective share of burned GPU time", percent(end.effective)),
    ]
    if given.preemptions:
        between = given.work / given.preemptions
        if not preemption.ends(job, between):
            rows.append((f"preempted every {format_minutes(between)}", "it never ends: no run can save anything new"))
        if given.checkpoint_cost > 0:
            rows.append(
                ("interval that loses least (Young)", format_minutes(preemption.young(given.checkpoint_cost, between)))
            )
            rows.append(("the same, refined (Daly)", format_minutes(preemption.daly(given.checkpoint_cost, between))))
    return rows


def _fragmentation(given: argparse.Namespace) -> Rows:
    idle = fragmentation.idle_gpus(given.per_node, given.taken)
    qualify = fragmentation.nodes_that_qualify(given.per_node, given.taken, given.wanted)
    return [
        ("idle on each node", " + ".join(map(str, idle)) + f" = {sum(idle)}"),
        ("idle share", percent(fragmentation.idle_share(given.per_node, given.taken))),
        (f"nodes with {given.wanted} idle", str(qualify)),
        (f"a job of {given.nodes} such nodes", "starts" if qualify >= given.nodes else "waits (Resources)"),
    ]


def _utilization(given: argparse.Namespace) -> Rows:
    return [
        ("output, all of the added time useful", f"{100 * utilization.output_gain(given.before, given.after):+.1f} %"),
        ("output, the added time at its effective share",
         f"{100 * utilization.output_gain(given.before, given.after, given.effective):+.1f} %"),
        ("an urgent job waits, without it", format_minutes(utilization.wait_without(given.job_length, given.running))),
    ]  # fmt: skip


def _backfill(given: argparse.Namespace) -> Rows:
    starts = backfill.plan(given.nodes, given.running or [], given.queue)
    passed = backfill.passes(given.nodes, given.running or [], given.queue)
    at = {name: "now" if start == 0 else f"in {format_minutes(start)}" for name, start in starts.items()}
    return [
        (name, "never: too large" if math.isinf(starts[name]) else at[name] + (", passes" if name in passed else ""))
        for name in starts
    ]


def _fairshare(given: argparse.Namespace) -> Rows:
    left = fairshare.decayed(given.usage, given.after, given.half_life)
    return [
        ("usage left", percent(left)),
        ("factor 2^(-usage/shares)", f"{fairshare.factor(left, given.shares):.3f}"),
        ("LevelFS of the fair tree", f"{fairshare.level_fs(left, given.shares):.3f}"),
    ]


def _granularity(given: argparse.Namespace) -> Rows:
    return [
        ("share of work", percent(granularity.efficiency(given.task, given.overhead))),
        ("shortest task of which 90 % is work", format_minutes(granularity.shortest_task(given.overhead, 0.9))),
        ("all tasks", format_minutes(granularity.makespan(given.tasks, given.task, given.overhead, given.slots))),
    ]


def _gang(given: argparse.Namespace) -> Rows:
    names = [chr(ord("A") + number) for number in range(given.jobs)]
    parts = names * given.parts
    rows = []
    for label, whole in (("one part at a time", False), ("as a gang", True)):
        end = gang.play(given.slots, parts, gang=whole)
        stuck = (
            f"deadlock: {', '.join(end.stuck)} never start"
            if whole
            else f"deadlock: {', '.join(end.stuck)} wait for ever"
        )
        rows.append((label, stuck if end.deadlock else f"{', '.join(end.ended)} end in {end.rounds} rounds"))
    return rows


def _rlhf(given: argparse.Namespace) -> Rows:
    work = rlhf.Work(given.rollout, given.training, given.gpus)
    static, elastic = rlhf.static_min(work, given.rollout_gpus), rlhf.elastic_min(work, given.hand_over)
    return [
        ("fixed parts", f"{format_minutes(static)}, {percent(work.used(static))} used"),
        ("one elastic pool", f"{format_minutes(elastic)}, {percent(work.used(elastic))} used"),
        ("faster by", f"{static / elastic:.2f} times"),
    ]


#: name: (one sentence, calculation, its arguments as (flag, keywords of add_argument)).
MODELS: dict[str, tuple[str, Callable[[argparse.Namespace], Rows], list[tuple[str, dict[str, Any]]]]] = {
    "fragmentation": ("idle GPUs, and nodes that qualify", _fragmentation, [
        ("--per-node", {"type": int, "default": 8, "help": "GPUs of a node"}),
        ("--taken", {"type": numbers, "default": [5, 6, 6, 7], "help": "GPUs taken on each node"}),
        ("--nodes", {"type": int, "default": 2, "help": "nodes the job wants"}),
        ("--wanted", {"type": int, "default": 8, "help": "GPUs it wants on each"})]),
    "preemption": ("a preempted job, with and without checkpoints", _preemption, [
        ("--work", {"type": minutes, "default": 480.0, "help": "work without any disturbance, such as 8h"}),
        ("--checkpoint-every", {"type": minutes, "default": 30.0, "help": "progress between checkpoints, or none"}),
        ("--checkpoint-cost", {"type": minutes, "default": 2.0, "help": "time one checkpoint takes"}),
        ("--preemptions", {"type": int, "default": 3, "help": "how often it is preempted"}),
        ("--requeue-wait", {"type": minutes, "default": 40.0, "help": "wait until it runs again"})]),
    "utilization": ("what preemption does for utilisation and waits", _utilization, [
        ("--before", {"type": share, "default": 0.7, "help": "utilisation without preemption"}),
        ("--after", {"type": share, "default": 0.9, "help": "utilisation with it"}),
        ("--effective", {"type": share, "default": 0.862, "help": "effective share of preemptible time"}),
        ("--job-length", {"type": minutes, "default": 480.0, "help": "length of a running job"}),
        ("--running", {"type": int, "default": 1, "help": "running jobs of which any may end first"})]),
    "backfill": ("planned starts, and who passes", _backfill, [
        ("--nodes", {"type": int, "default": 4, "help": "nodes there are"}),
        ("--running", {"type": request, "action": "append", "help": "NAME:NODES:LEFT, may be repeated"}),
        ("--queue", {"type": request, "action": "append", "required": True, "help": "NAME:NODES:LIMIT, in order"})]),
    "fairshare": ("the factor of a share and a usage", _fairshare, [
        ("--shares", {"type": share, "default": 0.5, "help": "share of the cluster"}),
        ("--usage", {"type": share, "default": 0.5, "help": "share of the usage"}),
        ("--after", {"type": minutes, "default": 0.0, "help": "time since then"}),
        ("--half-life", {"type": minutes, "default": 7 * 1440.0, "help": "PriorityDecayHalfLife"})]),
    "granularity": ("the price of small tasks", _granularity, [
        ("--task", {"type": minutes, "default": 1 / 60, "help": "length of a task"}),
        ("--overhead", {"type": minutes, "default": 1 / 60, "help": "what each costs besides"}),
        ("--tasks", {"type": int, "default": 1000, "help": "number of tasks"}),
        ("--slots", {"type": int, "default": 32, "help": "how many run at a time"})]),
    "gang-deadlock": ("jobs of several parts, with and without a gang", _gang, [
        ("--slots", {"type": int, "default": 2, "help": "slots there are"}),
        ("--jobs", {"type": int, "default": 2, "help": "jobs, whose parts arrive in turn"}),
        ("--parts", {"type": int, "default": 2, "help": "parts of each job"})]),
    "elastic-rlhf": ("two stages: fixed parts against one pool", _rlhf, [
        ("--rollout", {"type": amount, "default": 160.0, "help": "GPU-minutes of rollout"}),
        ("--training", {"type": amount, "default": 80.0, "help": "GPU-minutes of training"}),
        ("--gpus", {"type": int, "default": 16, "help": "GPUs in all"}),
        ("--rollout-gpus", {"type": int, "default": None, "help": "GPUs of the rollout's part (default: half)"}),
        ("--hand-over", {"type": share, "default": 0.0, "help": "share lost to changing stages"})]),
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command for each model."""
    commands = parser.add_subparsers(dest="model", metavar="NAME", parser_class=OneLine)
    for name, (sentence, _, options) in MODELS.items():
        command = commands.add_parser(name, help=sentence, description=sentence)
        for flag, keywords in options:
            command.add_argument(flag, **keywords)


def run(args: argparse.Namespace) -> int:
    """Print what the model says."""
    if args.model is None:
        print(f"error: predict what? One of {', '.join(MODELS)}", file=sys.stderr)
        return 2
    try:
        rows = MODELS[args.model][1](args)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name.ljust(width)}  {value}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The calculator alone."""
    parser = OneLine(prog="python -m smoke predict", description=__doc__)
    add_arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
