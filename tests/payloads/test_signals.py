"""Signals that reach a command: it comes to its end, or says one line and the next step."""

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
from provisioning.interrupt import heeded


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
def test_one_that_comes_while_python_starts_waits(after_s: float, tmp_path: Path) -> None:
    """Held back as the Makefile does it: once main hears, it is heeded, and there is no traceback."""
    pipe = tmp_path / "lab.yaml"  # nobody writes: the command is still there when the signal comes
    os.mkfifo(pipe)
    command = """if True:
        import os, signal, sys
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        print("held", flush=True)
        os.execv(sys.executable, [sys.executable, "-m", "provisioning", "check"])
    """
    child = subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "LAB": str(pipe)}, cwd=Path(__file__).parents[2])  # fmt: skip
    with child:
        assert child.stdout is not None and child.stdout.readline() == "held\n"
        time.sleep(after_s)
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=20)[1]
    # Python itself may end by the signal after all is said, if that came within an exec(): the same to a shell
    status = 128 - child.returncode if child.returncode < 0 else child.returncode
    assert (status, said) == (130, "error: interrupted\n  next: make check again goes on from here\n")
