"""Which faults, in which order, for how long: a pure function of the seed, the minutes and the lab's names."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of fault. ``targets`` says what it hits: ``node``, ``ray-worker``, a service, or ``all``.

    ``holds_s`` are the lengths to draw from, in seconds; ``back_s`` is what recovery takes as a rule.
    """

    targets: str
    holds_s: tuple[int, ...]
    back_s: int


#: slurmctld calls a silent node DOWN after 30 to 80 s: what is held for 75 s is usually noticed, the rest is not.
KINDS = {
    "node-kill": Kind("node", (1, 8), 8),
    "node-freeze": Kind("node", (5, 15, 75), 6),
    "node-anew": Kind("node", (1,), 12),
    "node-cut": Kind("node", (5, 15, 75), 6),
    "slurmctld-kill": Kind("slurmctld", (1, 4, 10), 8),
    "slurmdbd-kill": Kind("slurmdbd", (3, 10), 4),
    "db-kill": Kind("db", (3, 10), 8),
    "ray-head-kill": Kind("ray-head", (1, 5), 15),
    "ray-worker-kill": Kind("ray-worker", (1, 5), 12),
    "ray-worker-freeze": Kind("ray-worker", (3, 15), 10),
    "all-kill": Kind("all", (1,), 25),
    "down-up": Kind("all", (1,), 35),
}
#: Seconds between the end of a recovery and the next fault.
RESTS_S = (2, 3, 5)


@dataclass(frozen=True)
class Fault:
    """One fault: what is done to which service, for how many seconds, and how long nothing is done before it."""

    kind: str
    target: str
    hold_s: int
    rest_s: int

    @property
    def cost_s(self) -> int:
        """Seconds that it takes as a rule, with its recovery."""
        return self.rest_s + self.hold_s + KINDS[self.kind].back_s

    def __str__(self) -> str:
        where = "" if self.target == "all" or self.kind.startswith(self.target) else f" {self.target}"
        return f"{self.kind}{where} for {self.hold_s} s"


def plan(seed: int, minutes: float, nodes: Sequence[str], ray_workers: Sequence[str],
         kinds: Collection[str] = KINDS) -> list[Fault]:  # fmt: skip
    """Faults that fill the minutes: every kind (of ``kinds``) once in random order, then every kind again.

    What does not fit into the time that is left is passed over, so that a short run has only short faults.
    """
    dice, left, chosen = random.Random(seed), minutes * 60, list[Fault]()
    names = {"node": nodes, "ray-worker": ray_workers}
    usable = sorted(name for name in kinds if names.get(KINDS[name].targets, KINDS[name].targets))
    while True:
        bag = [_draw(dice, name, names) for name in dice.sample(usable, len(usable))]
        taken = list(_that_fit(bag, left))
        if not taken:
            return chosen
        chosen += taken
        left -= sum(fault.cost_s for fault in taken)


def _draw(dice: random.Random, name: str, names: Mapping[str, Sequence[str]]) -> Fault:
    kind = KINDS[name]
    target = dice.choice(names.get(kind.targets, [kind.targets]))
    return Fault(name, target, dice.choice(kind.holds_s), dice.choice(RESTS_S))


def _that_fit(faults: Iterable[Fault], seconds: float) -> Iterable[Fault]:
    for fault in faults:
        if fault.cost_s <= seconds:
            seconds -= fault.cost_s
            yield fault
