"""The payload on the compressed clock, run as a plain process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from smoke.stage import PAYLOAD

Lines = list[dict[str, Any]]


def start(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, str(PAYLOAD), "--log", str(folder / "log"), "--state", str(folder / "state.json"), *options]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, env={**os.environ, "SLURM_JOB_ID": "7"})


def lines(folder: Path) -> Lines:
    path = folder / "log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_for(folder: Path, event: str) -> None:
    end = time.monotonic() + 10
    while not [line for line in lines(folder) if line["event"] == event]:
        assert time.monotonic() < end, f"no {event}: {lines(folder)}"
        time.sleep(0.005)


def test_checkpoints_and_work_take_their_time(tmp_path: Path) -> None:
    before = time.monotonic()
    assert start(tmp_path, "--work=9", "--scale=0.02", "--checkpoint-every=3", "--checkpoint-cost=1").wait(10) == 0
    took = time.monotonic() - before
    seen = lines(tmp_path)
    assert [line["event"] for line in seen] == ["start", "checkpoint", "checkpoint", "checkpoint", "end"]
    assert 12 * 0.02 - 0.01 <= seen[-1]["t"] - seen[0]["t"] <= took


def test_stopped_it_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    job = start(tmp_path, "--work=100", "--scale=0.02", "--checkpoint-every=10")
    wait_for(tmp_path, "checkpoint")
    job.send_signal(signal.SIGTERM)
    assert job.wait(5) == 143
    stopped = lines(tmp_path)[-1]
    assert stopped["event"] == "stopped" and stopped["progress"] >= 10
    assert start(tmp_path, "--work=20", "--scale=0.001", "--checkpoint-every=10").wait(5) == 0
    again = [line for line in lines(tmp_path) if line["event"] == "start"][1]
    assert again["progress"] % 10 == 0 and again["progress"] >= 10


def test_without_checkpoints_it_starts_from_zero(tmp_path: Path) -> None:
    before = time.monotonic()
    job = start(tmp_path, "--work=1000", "--scale=0.01")
    wait_for(tmp_path, "start")
    time.sleep(0.1)
    job.send_signal(signal.SIGTERM)
    assert job.wait(5) == 143
    # ten minutes at the least, and no more than there was time for: a busy machine sleeps longer than it is told
    assert 8 <= lines(tmp_path)[-1]["progress"] <= (time.monotonic() - before) / 0.01
    assert not (tmp_path / "state.json").exists()


def test_stages_wait_for_each_other(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("first", "second")]
    holder = start(tmp_path, "--work=1", "--scale=0.01", f"--done={files[0]}", f"--until={files[1]}")
    assert start(tmp_path, "--work=1", "--scale=0.01", f"--after={files[0]}", f"--done={files[1]}").wait(5) == 0
    assert holder.wait(5) == 0
    assert {line["job"] for line in lines(tmp_path)} == {"7"}
