"""Signals: the first is heeded, later ones do not cut the clean-up short; what has begun comes to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from provisioning.cluster import run_local
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


def test_a_command_that_has_begun_comes_to_its_end(tmp_path: Path) -> None:
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt), heeded():
        run_local(["sh", "-c", f"sleep 0.5; cat > {tmp_path}/done"], stdin="all of it")
    assert (tmp_path / "done").read_text() == "all of it"


def test_one_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt), heeded():
        run_local(["sh", "-c", f"(sleep 1.5; touch {tmp_path}/late) & wait"], end_s=0.3)
    time.sleep(1.6)
    assert not (tmp_path / "late").exists()


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


def test_the_command_line_says_one_line_and_the_next_step(tmp_path: Path) -> None:
    """Without an engine: `check` is interrupted while it reads its YAML from a pipe."""
    pipe = tmp_path / "lab.yaml"
    os.mkfifo(pipe)
    child = subprocess.Popen([sys.executable, "-m", "provisioning", "check"], stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "LAB": str(pipe)}, cwd=Path(__file__).parents[2])  # fmt: skip
    with pipe.open("w"):  # opened by both: main has begun
        child.send_signal(signal.SIGTERM)
        said = child.communicate(timeout=20)[1]
    assert child.returncode == 130
    assert said == "error: interrupted\n  next: make check again goes on from here\n"


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05])
def test_one_that_comes_while_python_starts_waits(after_s: float) -> None:
    """Held back as the Makefile does it: once main hears, it is heeded, and there is no traceback."""
    command = """if True:
        import os, signal, sys
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        print("held", flush=True)
        os.execv(sys.executable, [sys.executable, "-m", "provisioning", "check"])
    """
    child = subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             cwd=Path(__file__).parents[2])  # fmt: skip
    with child:
        assert child.stdout is not None and child.stdout.readline() == "held\n"
        time.sleep(after_s)
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=20)[1]
    assert (child.returncode, said) == (130, "error: interrupted\n  next: make check again goes on from here\n")
