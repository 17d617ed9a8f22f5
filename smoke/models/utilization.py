"""Utilisation with and without preemption.

Without preemption a machine room keeps GPUs free for urgent work, and they idle: utilisation u0. With it, low jobs fill
the gap and give way: u1. Output is proportional to utilisation, so it grows by u1/u0 - 1; the course: 70 % to 90 % is
28.6 % more. Of the added share, low jobs repeat what they lost; with the effective share e of their time (see
preemption) the useful gain is (u0 + (u1 - u0) e) / u0 - 1.

The urgent job's wait without preemption is the rest of a running job: on average half its length L, if all GPUs are
busy, and divided by k + 1 for the first of k such jobs to end. With preemption it is the grace time and one scheduling
pass.
"""

from __future__ import annotations


def _share(name: str, value: float) -> float:
    if not 0 < value <= 1:
        raise ValueError(f"{name} must lie between 0 and 100 %")
    return value


def output_gain(before: float, after: float, effective: float = 1.0) -> float:
    """How much more is done: 0.286 is 28.6 % more."""
    _share("the utilisation before", before)
    _share("the utilisation after", after)
    _share("the effective share", effective)
    return (before + (after - before) * effective) / before - 1


def wait_without(job_length_min: float, running: int = 1) -> float:
    """Mean wait for the first of ``running`` equal jobs, each at a random point of its run, to end: L / (k + 1)."""
    if job_length_min < 0 or running < 1:
        raise ValueError("a length cannot be negative, and at least one job must be running")
    return job_length_min / (running + 1)


def utilization(busy_gpu_min: float, gpus: int, span_min: float) -> float:
    """Busy GPU minutes over all there were."""
    if gpus <= 0 or span_min <= 0:
        raise ValueError("there must be GPUs and a span of time")
    return busy_gpu_min / (gpus * span_min)
