"""The compressed clock of the scenarios: a simulated minute lasts ``second_per_min`` real seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Converts between simulated minutes and real seconds; scheduler quanta are real seconds and do not shrink."""

    second_per_min: float

    def __post_init__(self) -> None:
        if not self.second_per_min > 0:
            raise ValueError("the scale must be larger than 0 seconds")

    def real_s(self, minutes: float) -> float:
        """Real seconds of simulated minutes."""
        return minutes * self.second_per_min

    def sim_min(self, seconds: float) -> float:
        """Simulated minutes of real seconds."""
        return seconds / self.second_per_min
