"""A node dies: when it is noticed, and what is lost.

Nobody tells a scheduler that a machine has lost its power; it notices by silence. Slurm's controller asks each node
every third of SlurmdTimeout = T, and takes a node for dead when it finds its last answer older than T. The last answer
is up to T/3 older than the death. The look just T after it comes a moment too early, since an answer comes a moment
after its question; the next look, T/3 later, finds it. So the node is DOWN between T and T + T/3 after its death, 7/6 T
on average, and 2/3 T at the soonest should the early look count.

Ray asks every p seconds and counts f failures, each of them after at most t seconds: at the latest p + f (p + t) after
the death. A connection that breaks tells it at once.

Until then what ran on the node holds its GPUs for nothing. Lost is the progress since the last checkpoint, on all GPUs
of the job, since a job of several nodes goes back into the queue as a whole; then the silence:

    lost GPU time = GPUs (progress - floor(progress / T_c) T_c + silence)
"""

from __future__ import annotations

import math


def slurm_notices_s(timeout_s: float) -> tuple[float, float, float]:
    """Seconds from the death of a node to DOWN: at the soonest, on average, at the latest."""
    if timeout_s <= 0:
        raise ValueError("with SlurmdTimeout=0 a dead node is never noticed")
    return timeout_s * 2 / 3, timeout_s * 7 / 6, timeout_s * 4 / 3


def ray_notices_s(period_s: float, timeout_s: float, failures: int) -> float:
    """Seconds from the death of a node to Ray's knowing it, at the latest."""
    return period_s + failures * (period_s + timeout_s)


def saved_min(progress_min: float, checkpoint_every_min: float = math.inf) -> float:
    """Progress in the last checkpoint; nothing without any."""
    if math.isinf(checkpoint_every_min):
        return 0.0
    return math.floor(progress_min / checkpoint_every_min) * checkpoint_every_min


def lost_gpu_min(gpus: int, progress_min: float, silence_min: float, checkpoint_every_min: float = math.inf) -> float:
    """GPU minutes that a death costs one job."""
    return gpus * (progress_min - saved_min(progress_min, checkpoint_every_min) + silence_min)
