"""train.py: the loss falls, a stopped run saves and goes on as if it had not been stopped."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

PAYLOADS = Path(__file__).parents[2] / "smoke" / "payloads"
STOPPED = 143


def train(*argv: str) -> list[str]:
    done = subprocess.run([sys.executable, PAYLOADS / "train.py", *argv], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def losses(lines: list[str]) -> list[float]:
    return [float(line.split()[3]) for line in lines if line.startswith("epoch")]


def test_loss_falls() -> None:
    lines = train("--epochs", "3")
    assert losses(lines) == sorted(losses(lines), reverse=True)
    assert lines[-1] == "done: 3 epochs"


def test_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "run.json"
    first = train("--epochs", "2", "--checkpoint", str(path))
    second = train("--epochs", "4", "--checkpoint", str(path))
    assert second[0] == f"resumed from {path}: 2 epochs and 0 batches were done"
    assert losses(first) + losses(second) == losses(train("--epochs", "4"))
    assert [one.name for one in path.parent.iterdir()] == ["run.json"]


def test_sigterm_saves_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    argv = [sys.executable, PAYLOADS / "train.py", "--epochs", "3", "--checkpoint", path, "--epoch-s", "0.5"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 10
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=10)
    assert process.returncode == STOPPED
    assert "stopped by SIGTERM in epoch 2/3" in out.splitlines()[-1]
    assert json.loads(path.read_text())["epoch"] == 1
    rest = train("--epochs", "3", "--checkpoint", str(path))
    assert losses(out.splitlines()) + losses(rest) == losses(train("--epochs", "3"))


def test_the_job_script_asks_for_what_the_course_says() -> None:
    lines = (PAYLOADS / "train.slurm").read_text().splitlines()
    asked = dict(line.removeprefix("#SBATCH --").split("=", 1) for line in lines if line.startswith("#SBATCH"))
    assert asked == {"job-name": "hello-gpu", "partition": "gpu", "nodes": "1", "ntasks": "1", "gres": "gpu:1",
                     "cpus-per-task": "8", "mem": "32G", "time": "00:30:00", "output": "logs/%x-%j.out"}  # fmt: skip
