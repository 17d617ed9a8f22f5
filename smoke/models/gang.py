"""Gang scheduling: all parts of a job at once, or none.

Two jobs of two parts each on two slots. Without a gang the parts are placed one by one as they come; if they come
alternately, A1 B1 A2 B2, each job holds one slot and waits for the other's: nobody ends, for ever. With a gang A is
placed as a whole, B waits, and both end after two lengths.

A deadlock needs jobs that hold something and are not complete, no free slot, and no complete job that will give one
back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """Jobs in the order in which they ended, jobs that never will, and the rounds (lengths of a job) it took."""

    ended: tuple[str, ...]
    stuck: tuple[str, ...]
    rounds: int

    @property
    def deadlock(self) -> bool:
        """Some job will never end."""
        return bool(self.stuck)


def play(slots: int, parts: Sequence[str], *, gang: bool) -> Outcome:
    """Place ``parts`` (a job name each, in order of arrival) on ``slots``; a complete job ends in a round."""
    need = {job: parts.count(job) for job in dict.fromkeys(parts)}
    waiting, held, rounds = list(parts), dict.fromkeys(need, 0), 0
    ended: list[str] = []
    while waiting or any(held.values()):
        for job in list(dict.fromkeys(waiting) if gang else waiting):
            size = need[job] if gang else 1
            if sum(held.values()) + size <= slots:
                held[job] += size
                for _ in range(size):
                    waiting.remove(job)
        complete = [job for job in need if held[job] == need[job]]
        if not complete:
            return Outcome(tuple(ended), tuple(job for job in need if job not in ended), rounds)
        rounds += 1
        for job in complete:
            ended.append(job)
            held[job] = 0
    return Outcome(tuple(ended), (), rounds)
