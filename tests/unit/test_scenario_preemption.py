"""How the preemption scenario keeps to the minutes that its model counts with, on a machine that answers late."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from smoke.clock import Clock
from smoke.models.preemption import Job
from smoke.records import Note
from smoke.scenarios import preemption
from smoke.scenarios.preemption import Case, Lead


class FakeStage:
    """A cluster with a time of its own, which does each thing so many seconds after it was asked."""

    def __init__(self, lags_s: Iterator[float]) -> None:
        self.clock, self.now, self.lags_s = Clock(0.1), 100.0, lags_s
        self.written: list[Note] = []
        self._note("start")

    def _note(self, event: str) -> None:
        self.written.append(Note(self.now, event, 0, 0, "7"))

    def sleep_until(self, when: float) -> None:
        self.now = max(self.now, when)

    def command(self, name: str, *_: object) -> str:
        return name

    def submit(self, *_: object) -> list[str]:
        self.now += next(self.lags_s)
        self._note("stopped")
        return ["8"]

    def operator(self, *argv: str) -> None:
        if argv[0] == "sh":
            self.now += next(self.lags_s)
            self._note("start")

    def wait_note(self, _: str, *events: str, count: int = 1, timeout_s: float = 60) -> Note:
        if "end" in events and "stopped" not in events:
            self.now += timeout_s / 2
            self._note("end")
        return [note for note in self.written if note.event in events][count - 1]

    def notes(self, _: str) -> list[Note]:
        return self.written


CASE = Case("case", Job(480), (30, 45, 60), 20)
SAVING = Case("saving", Job(480, 30, 2), (30, 45, 60), 20)


def minutes_of(
    case: Case, lags_s: Iterator[float], first_s: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[float, float]:
    """What the preempted runs and the waits between them took in all."""
    stage = FakeStage(lags_s)
    monkeypatch.setattr(preemption.time, "time", lambda: stage.now)
    notes = preemption._play(stage, case, "7", "alice", [], Lead(first_s), Lead(first_s))  # type: ignore[arg-type]
    assert [note.event for note in notes] == ["start", "stopped"] * 3 + ["start", "end"]
    spans = [(after.t - before.t) / 0.1 for before, after in itertools.pairwise(notes)]
    return sum(spans[0:6:2]), sum(spans[1:6:2])


@pytest.mark.parametrize("first_s", [0.1, 0.6, 2.0])
def test_a_wrong_first_guess_is_made_up_for(first_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, waits = minutes_of(CASE, itertools.repeat(0.6), first_s, monkeypatch)
    assert runs == pytest.approx(135)
    assert waits == pytest.approx(60)
    runs, waits = minutes_of(SAVING, itertools.repeat(0.6), first_s, monkeypatch)
    assert runs == pytest.approx(135 - 10 * (first_s - 0.6)), "its first run alone is off"
    assert waits == pytest.approx(60)


def test_late_answers_are_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    late = iter([0.5, 0.5, 0.5, 1.8, 0.5, 0.5])
    runs, waits = minutes_of(CASE, late, 0.5, monkeypatch)
    assert runs == pytest.approx(135)
    assert waits == pytest.approx(60, abs=7)


def test_a_case_goes_by_its_own_requests_and_before_them_by_the_quickest() -> None:
    lead = Lead(9)
    assert lead.of("first") == 9
    lead.saw("first", 1)
    assert lead.of("second") == 1
    lead.saw("second", 2)
    lead.saw("second", 3)
    assert (lead.of("first"), lead.of("second"), lead.of("third")) == (1, 2.5, 1)
