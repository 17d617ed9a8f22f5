"""Signals: the first is heeded, later ones do not cut the clean-up short; what has begun comes to its end."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from provisioning.files import write_whole
from provisioning.interrupt import SIGNALS, heeded
from provisioning.together import together


def handlers() -> list[object]:
    return [signal.getsignal(one) for one in SIGNALS]


@pytest.mark.parametrize("sent", SIGNALS)
def test_the_first_signal_is_heeded_and_later_ones_are_not(sent: signal.Signals) -> None:
    before, cleaned = handlers(), []

    def command() -> None:
        with heeded():
            try:
                os.kill(os.getpid(), sent)
                pytest.fail("not heeded")
            finally:
                for again in SIGNALS:
                    os.kill(os.getpid(), again)
                cleaned.append("whole")

    with pytest.raises(KeyboardInterrupt):
        command()
    assert cleaned == ["whole"]
    assert handlers() == before


def test_a_block_inside_another_changes_nothing() -> None:
    with heeded():
        outer = handlers()
        with heeded():
            assert handlers() == outer
        assert handlers() == outer


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with heeded():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def interrupt_soon() -> None:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_calls_side_by_side_answer_in_their_order_and_are_left_behind_at_ctrl_c() -> None:
    assert together(*(lambda number=number: number for number in range(50)), at_most=3) == list(range(50))
    interrupt_soon()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), heeded():
        together(lambda: time.sleep(30), lambda: time.sleep(30))
    assert time.monotonic() - began < 5


def test_the_first_that_failed_is_told_when_all_have_ended() -> None:
    ended = []

    def slow() -> None:
        time.sleep(0.2)
        ended.append("slow")

    def fails(word: str) -> None:
        raise ValueError(word)

    with pytest.raises(ValueError, match="first"):
        together(lambda: fails("first"), slow, lambda: fails("second"))
    assert ended == ["slow"]


def test_files_are_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "old", mode=0o600)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("old", 0o600)
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
