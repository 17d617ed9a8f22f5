"""``python -m smoke chaos --minutes M --seed S``: faults at random under a steady load, and what must hold.

Exit status 1 if something does not. Faults come one after the other, as smoke/chaos/plan.py draws them from the seed;
each is taken away again, and the lab must be whole within a bound. Meanwhile two users submit Slurm jobs, Ray is given
jobs, and an audit looks for GPUs that are held twice. Afterwards every job must have one final record, and nothing may
be left of any of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from rich.console import Console

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.interrupt import EXIT_STATUS
from smoke.chaos.plan import KINDS, plan
from smoke.chaos.run import Chaos, Outcome
from smoke.chaos.verdict import GROWTH, GROWTH_MIB, SAVE_S
from smoke.clock import Clock
from smoke.scenario import on_stage
from smoke.stage import Stage


def main(argv: list[str]) -> int:
    """The command; 1 if an invariant did not hold, 130 after Ctrl-C, with what was seen so far."""
    options = argparse.ArgumentParser(prog="python -m smoke chaos", description=__doc__.split("\n\n")[0])
    options.add_argument("--minutes", type=_minutes, default=10, help="how long faults go on, about (default: 10)")
    options.add_argument("--seed", type=int, default=1, help="another seed, other faults (default: 1)")
    options.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND",
                         help=f"only faults of these kinds: {', '.join(KINDS)}")  # fmt: skip
    options.add_argument("--plan", action="store_true", help="only print the faults")
    options.add_argument("--json", action="store_true", help="print the counts as JSON, progress on standard error")
    args = options.parse_args(argv)
    cluster, console = Cluster.open(), Console(stderr=args.json, highlight=False, soft_wrap=True)
    faults = plan(args.seed, args.minutes, cluster.nodes(), cluster.ray_workers(), args.only)
    if args.plan:
        for fault in faults:
            print(fault)
        return 0
    if not cluster.containers():
        raise LabError(f"the lab {cluster.settings.project} is not up", "make up")
    outcome, status = Outcome(args.seed, args.minutes), 0
    try:
        # minutes are real ones here
        with on_stage(Stage(cluster, Clock(60), "chaos"), console) as stage:
            console.print(f"{len(faults)} faults from seed {args.seed}")
            Chaos(stage, outcome, console).play(faults)
    except KeyboardInterrupt:
        status = EXIT_STATUS
        console.print("interrupted; so far:")
    except LabError as error:
        if not outcome.faults:
            raise  # it did not begin
        outcome.problems.append(error.what)
    if args.json:
        print(json.dumps(outcome.as_dict(), indent=2))
    else:
        for line in lines(outcome):
            print(line)
    return status or int(bool(outcome.problems))


def _minutes(text: str) -> float:
    minutes = float(text)
    if not 0 < minutes <= 24 * 60:
        raise argparse.ArgumentTypeError("more than 0 and at most a day")
    return minutes


#: What is said of each count that a run came to, in this order.
SAID = {
    "jobs": "Slurm jobs accepted",
    "refused": "submissions refused with a message",
    "unanswered": "submissions whose answer was lost with the login node",
    "ended": "jobs with one final record",
    "queued": "jobs still queued",
    "forgotten": f"forgotten by slurmctld, accepted within {SAVE_S:g} s before its kill",
    "ended_again": f"with a second final record, ended within {SAVE_S:g} s before slurmctld's kill",
    "ray_jobs": "Ray jobs accepted",
    "ray_succeeded": "Ray jobs that succeeded",
    "ray_failed": "Ray jobs that failed with what they ran on",
    "ray_unbegun": "Ray jobs that a killed head had not begun",
    "losses": "losses",
    "held_twice": "GPUs held twice",
    "nodes_lost": "nodes lost",
    "zombies": "zombies",
    "orphans": "orphan processes",
    "services_grown": f"services with more memory than {GROWTH:g} times before and {GROWTH_MIB} MiB",
}


def lines(outcome: Outcome) -> Iterator[str]:
    """The counts, one a line, and what did not hold."""
    kinds = ", ".join(f"{kind} {count}" for kind, count in outcome.as_dict()["kinds"].items())
    yield f"{len(outcome.faults):6} faults injected ({kinds}); slowest recovery {outcome.slowest_recovery_s:.0f} s"
    for name, text in SAID.items():
        if name in outcome.counts:
            yield f"{outcome.counts[name]:6} {text}"
    yield from (f"BROKEN {problem}" for problem in outcome.problems)
    if not outcome.problems and outcome.judged:
        yield "ok"
