"""A predicted figure, its bounds, the measured one, and whether they agree."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provisioning.errors import LabError


@dataclass(frozen=True)
class Prediction:
    """What the model says about one metric, between which bounds a measurement agrees, and why those."""

    metric: str
    predicted: float
    lower: float
    upper: float
    unit: str
    why: str

    @classmethod
    def exact(cls, metric: str, value: float, unit: str = "", why: str = "a matter of yes or no") -> Prediction:
        """A figure that leaves no room."""
        return cls(metric, value, value, value, unit, why)

    @classmethod
    def within(cls, metric: str, value: float, share: float, unit: str, why: str) -> Prediction:
        """A figure within a share of itself, on both sides."""
        return cls(metric, value, value * (1 - share), value * (1 + share), unit, why)


@dataclass(frozen=True)
class Expectation:
    """A prediction with its measurement."""

    prediction: Prediction
    measured: float

    @property
    def met(self) -> bool:
        """Does the measured figure lie within the bounds? One that was not measured does not."""
        return self.prediction.lower - 1e-9 <= self.measured <= self.prediction.upper + 1e-9

    def row(self) -> dict[str, Any]:
        """For programs."""
        measured = None if math.isnan(self.measured) else self.measured
        return {**dataclasses.asdict(self.prediction), "measured": measured, "verdict": "ok" if self.met else "MISSED"}


def compare(predictions: Sequence[Prediction], measured: Mapping[str, float]) -> tuple[Expectation, ...]:
    """Join both by metric. Raises LabError for a figure nobody predicted; one that is missing counts as missed."""
    unknown = sorted(set(measured) - {one.metric for one in predictions})
    if unknown:
        raise LabError(f"measured but not predicted: {', '.join(unknown)}")
    return tuple(Expectation(one, float(measured.get(one.metric, math.nan))) for one in predictions)


def figure(value: float) -> str:
    """A number as people read it."""
    if math.isnan(value):
        return "not measured"
    return "never" if math.isinf(value) else f"{value:.4g}"
