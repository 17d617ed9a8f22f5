"""Preemption with and without checkpoints.

A job needs W minutes of work. It writes a checkpoint after every T minutes of progress, which costs C minutes, and
after a preemption goes on from the last one; what it did since is lost. On average that is half an interval, T/2.
With P preemptions and a wait of R until it runs again:

    checkpoints   n = floor(W / T)
    time          W + n C + P (T/2 + R)
    burned        W + n C + P T/2            (the GPU is not ours while we wait)
    effective     W / burned

The course: W = 480, T = 30, C = 2, P = 3, R = 40 gives 480 + 32 + 3 (15 + 40) = 677 min, 1.41 times W, and
480 / 557 = 86.2 %. Without checkpoints T is infinite: nothing is saved, n = 0, and each preemption loses all progress.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """Minutes of work, and how it saves them; an infinite interval is a job without checkpoints."""

    work_min: float
    checkpoint_every_min: float = math.inf
    checkpoint_cost_min: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.work_min < math.inf):
            raise ValueError("the work must be longer than 0 and must have an end")
        if self.checkpoint_every_min <= 0:
            raise ValueError("the checkpoint interval must be longer than 0; write none for no checkpoints")
        if not (0 <= self.checkpoint_cost_min < math.inf):
            raise ValueError("the cost of a checkpoint cannot be negative or without end")

    @property
    def checkpoints(self) -> int:
        """Checkpoints of an undisturbed run; one lies at its end if the interval divides the work."""
        every = self.checkpoint_every_min
        return 0 if math.isinf(every) else math.floor(self.work_min / every + 1e-9)


@dataclass(frozen=True)
class Outcome:
    """What became of a job. ``saved_min`` is the progress in its last checkpoint, or all of it once finished."""

    work_min: float
    checkpoint_min: float
    lost_min: float
    wait_min: float
    saved_min: float
    finished: bool = True

    @property
    def burned_min(self) -> float:
        """Time the job held its GPUs."""
        return self.saved_min + self.checkpoint_min + self.lost_min

    @property
    def wall_min(self) -> float:
        """Time from the first start to the end; infinite if there is none."""
        return self.burned_min + self.wait_min if self.finished else math.inf

    @property
    def stretch(self) -> float:
        """Wall time over work."""
        return self.wall_min / self.work_min

    @property
    def effective(self) -> float:
        """Share of the burned GPU time that was work."""
        return self.saved_min / self.burned_min if self.burned_min else 0.0


def expected(job: Job, preemptions: int, requeue_wait_min: float) -> Outcome:
    """The mean case: each preemption comes in the middle of what could be lost."""
    if preemptions < 0 or requeue_wait_min < 0:
        raise ValueError("preemptions and the wait cannot be negative")
    lost_each = min(job.checkpoint_every_min, job.work_min) / 2
    return Outcome(job.work_min, job.checkpoints * job.checkpoint_cost_min, preemptions * lost_each,
                   preemptions * requeue_wait_min, job.work_min)  # fmt: skip


def run(job: Job, saved_min: float, uptime_min: float) -> tuple[float, float, float, float]:
    """One run of at most ``uptime_min`` minutes from the progress ``saved_min``.

    Returns minutes held, spent on finished checkpoints, of progress at its end, and of progress saved. Checkpoints lie
    on multiples of the interval; one that is cut short saves nothing and its time counts as lost.
    """
    progress, saved, used, checkpoint = saved_min, saved_min, 0.0, 0.0
    while progress < job.work_min - 1e-9:
        every = job.checkpoint_every_min
        following = (math.floor(progress / every + 1e-9) + 1) * every if not math.isinf(every) else math.inf
        goal = min(job.work_min, following)
        step = goal - progress
        if used + step > uptime_min + 1e-9:
            return uptime_min, checkpoint, progress + uptime_min - used, saved
        used, progress = used + step, goal
        if not math.isinf(every) and abs(goal / every - round(goal / every)) < 1e-9:
            if used + job.checkpoint_cost_min > uptime_min + 1e-9:
                return uptime_min, checkpoint, progress, saved
            used, checkpoint, saved = used + job.checkpoint_cost_min, checkpoint + job.checkpoint_cost_min, goal
    return used, checkpoint, job.work_min, job.work_min


def replay(job: Job, uptimes_min: Iterable[float], requeue_wait_min: float, *, to_the_end: bool = True) -> Outcome:
    """The exact case: run i is preempted ``uptimes_min[i]`` minutes after its start; the last run is not."""
    saved = lost = wait = checkpoint = 0.0
    for uptime in uptimes_min:
        held, spent, progress, kept = run(job, saved, uptime)
        checkpoint += spent
        gained, saved = kept - saved, kept
        if progress >= job.work_min - 1e-9 and kept >= job.work_min:
            return Outcome(job.work_min, checkpoint, lost, wait, job.work_min)
        lost += held - spent - gained
        wait += requeue_wait_min
    if not to_the_end:
        return Outcome(job.work_min, checkpoint, lost, wait, saved, finished=False)
    _, spent, _, _ = run(job, saved, math.inf)
    return Outcome(job.work_min, checkpoint + spent, lost, wait, job.work_min)


def ends(job: Job, uptime_min: float) -> bool:
    """Does the job end at all if it is preempted every ``uptime_min`` minutes?

    Only if a run can save something new: one interval and its checkpoint, or the whole work, must fit in.
    """
    _, _, _, saved = run(job, 0.0, uptime_min)
    return saved > 0


def young(checkpoint_cost_min: float, between_min: float) -> float:
    """The interval that loses least, by Young: sqrt(2 C M), with M the mean time between preemptions.

    The loss for each minute of work is C/T for checkpoints and T/(2M) for repeated work; the sum is least where both
    are equal.
    """
    return math.sqrt(2 * checkpoint_cost_min * between_min)


def daly(checkpoint_cost_min: float, between_min: float) -> float:
    """Daly's refinement of ``young``, which also counts preemptions during a checkpoint; M itself if C >= 2M."""
    if checkpoint_cost_min >= 2 * between_min:
        return between_min
    part = checkpoint_cost_min / (2 * between_min)
    return young(checkpoint_cost_min, between_min) * (1 + math.sqrt(part) / 3 + part / 9) - checkpoint_cost_min
