"""Durations as people write them (``8h``, ``30m``, ``1h30m``, ``90s``, ``none``), in minutes."""

from __future__ import annotations

import math
import re

UNIT_MIN = {"d": 1440.0, "h": 60.0, "m": 1.0, "s": 1 / 60}
PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
ENDLESS = ("none", "never", "inf", "infinite")


def parse_minutes(text: str) -> float:
    """Minutes of a duration; ``none`` (no checkpoint at all) is infinity. A bare number is refused: of what unit?"""
    word = text.strip().lower()
    if word in ENDLESS:
        return math.inf
    if not word or PART.sub("", word):
        raise ValueError(f"{text!r} is not a duration; write for example 8h, 30m, 1h30m or 90s")
    return sum(float(number) * UNIT_MIN[unit] for number, unit in PART.findall(word))


def format_minutes(minutes: float) -> str:
    """The shortest of ``25.3 min``, ``11 h 17 min``, ``never``."""
    if math.isinf(minutes):
        return "never"
    if minutes < 1:
        return f"{minutes * 60:.3g} s"
    if minutes < 60:
        return f"{minutes:.3g} min"
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"
