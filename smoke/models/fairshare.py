"""Fairshare: who used much stands behind who used little.

The classic formula gives an association with the share S of the cluster and the share U of the (decayed) usage the
factor F = 2^(-U/S): 1 unused, 0.5 when use equals share, falling by half for each share more. Slurm's default today,
the fair tree, compares LevelFS = S/U among siblings instead and ranks all users by it; F is then the rank over the
number of users. Both agree on the order of two users of one account.

Usage fades: after each half-life h half of it is left, U(t) = U(0) 2^(-t/h). A user who keeps busy at the rate r
comes to a standstill at r h / ln 2: what is added then equals what is forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Mapping


def factor(usage: float, shares: float) -> float:
    """F = 2^(-U/S); usage and shares are both parts of the cluster's whole."""
    if shares <= 0:
        raise ValueError("the share must be larger than 0")
    if usage < 0:
        raise ValueError("usage cannot be negative")
    return float(2 ** (-usage / shares))


def level_fs(usage: float, shares: float) -> float:
    """S/U of the fair tree; without usage it is infinite, which is the best."""
    return math.inf if usage == 0 else shares / usage


def ranks(levels: Mapping[str, float]) -> dict[str, float]:
    """The fair tree's factor of users of one account: rank over their number; equal levels share the better rank."""
    count = len(levels)
    return {name: (count - sum(other > level for other in levels.values())) / count for name, level in levels.items()}


def decayed(usage: float, after_min: float, half_life_min: float) -> float:
    """What is left of a usage."""
    if half_life_min <= 0:
        raise ValueError("the half-life must be longer than 0")
    return float(usage * 2 ** (-after_min / half_life_min))


def busy(rate: float, for_min: float, half_life_min: float) -> float:
    """Usage of somebody who was busy at ``rate`` all the time: r h/ln2 (1 - 2^(-t/h))."""
    return rate * half_life_min / math.log(2) * (1 - decayed(1.0, for_min, half_life_min))


def crossing(heavy: float, light: float, light_rate: float, half_life_min: float) -> float:
    """When a light user, busy at ``light_rate`` from now on, has as much usage as an idle heavy one.

    heavy q = light q + (r h/ln2)(1 - q) with q = 2^(-t/h); solved for t. Infinite if the rate is 0.
    """
    if light >= heavy:
        return 0.0
    limit = light_rate * half_life_min / math.log(2)
    if limit == 0:
        return math.inf
    return -half_life_min * math.log2(limit / (heavy - light + limit))
