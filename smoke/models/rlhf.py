"""Two stages in turn (rollout, then training) on one set of GPUs, as in RLHF.

R GPU-minutes of rollout and T of training on G GPUs. Cut into two fixed halves, each stage has G/2 and idles while the
other works: R/(G/2) + T/(G/2), and half of all GPU time is used, whatever R and T are. As one elastic pool both stages
have all G in turn: (R + T)/G, all of it used, less a share h for each hand-over.

The course: R = 160, T = 80, G = 16: 20 + 10 = 30 min and 50 % against 10 + 5 = 15 min and 100 %.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """GPU-minutes of each stage and the GPUs there are."""

    rollout_gpu_min: float
    training_gpu_min: float
    gpus: int

    def __post_init__(self) -> None:
        if self.rollout_gpu_min < 0 or self.training_gpu_min < 0 or self.total_gpu_min == 0:
            raise ValueError("the stages must hold some work and cannot be negative")
        if self.gpus < 2:
            raise ValueError("two stages need at least 2 GPUs")

    @property
    def total_gpu_min(self) -> float:
        """Both stages."""
        return self.rollout_gpu_min + self.training_gpu_min

    def used(self, wall_min: float) -> float:
        """Share of all GPU time up to ``wall_min`` that was work."""
        return self.total_gpu_min / (self.gpus * wall_min)


def static_min(work: Work, rollout_gpus: int | None = None) -> float:
    """Wall time with fixed parts; halves unless ``rollout_gpus`` says otherwise."""
    rollout = work.gpus // 2 if rollout_gpus is None else rollout_gpus
    if not 0 < rollout < work.gpus:
        raise ValueError(f"the rollout can have 1 to {work.gpus - 1} GPUs, not {rollout}")
    return work.rollout_gpu_min / rollout + work.training_gpu_min / (work.gpus - rollout)


def elastic_min(work: Work, hand_over: float = 0.0) -> float:
    """Wall time as one pool; ``hand_over`` is the share of it lost to changing stages (0.05 to 0.15 in practice)."""
    if not 0 <= hand_over < 1:
        raise ValueError("the hand-over must lie between 0 and 100 %, without 100 %")
    return work.total_gpu_min / work.gpus / (1 - hand_over)
