"""``make bench-ray``: rates of the lab's Ray beside a Ray on this host, and the start of a Ray inside a Slurm job.

Uses the lab that is up. Prints figures, asserts nothing: tests assert behaviour. The host's Ray has the lab's version,
in an environment of its own, and is measured in turn with the lab's, so that a busy moment meets both.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from provisioning.cluster import Cluster, run_local
from provisioning.errors import LabError, print_error
from provisioning.settings import ROOT
from smoke.ray_on_slurm import log_of, submit
from smoke.slurm import FINAL, Slurm

ROUNDS = int(os.environ.get("ROUNDS", "3"))
FOLDER = Path(__file__).parent
DRIVER = FOLDER / "bench_ray_driver.py"
FIRST = FOLDER / "bench_ray_first.py"
VENV = ROOT / ".venv-ray"


def host_python() -> str:
    """The Python of an environment with the lab's Ray, made once. Raises LabError if it cannot be made."""
    python = VENV / "bin" / "python"
    pinned = ROOT / "images" / "ray" / "requirements.txt"
    mark = VENV / "made"
    if not mark.exists() or mark.stat().st_mtime < pinned.stat().st_mtime:
        print(f"installing the lab's Ray in {VENV.name} (once)")
        index = ["--index-url", os.environ["PYPI_INDEX"]] if os.environ.get("PYPI_INDEX") else []
        for argv in ([sys.executable, "-m", "venv", str(VENV)],
                     [str(python), "-m", "pip", "install", "--quiet", *index, "-r", str(pinned)]):  # fmt: skip
            done = run_local(argv, timeout_s=900)
            if done.exit_code:
                raise LabError(f"{argv[-1]}: {done.last_lines}", "PYPI_INDEX names another index")
        mark.touch()
    return str(python)


def on_host(python: str) -> dict[str, float]:
    """The rates of a Ray that is started for this, and ends with it."""
    with tempfile.TemporaryDirectory(prefix="r") as temp:
        env = {key: text for key, text in os.environ.items() if not key.startswith("RAY_")}
        env |= {"RAY_TMPDIR": temp, "RAY_AUTH_MODE": "disabled", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}
        done = subprocess.run([python, str(DRIVER), "local"], env=env, capture_output=True, text=True, timeout=300,
                              check=False)  # fmt: skip
    if done.returncode:
        raise LabError(f"Ray on this host: {done.stderr.strip()[-500:]}")
    return _rates(done.stdout)


def on_lab(cluster: Cluster) -> dict[str, float]:
    """The rates of the lab's Ray, its driver on the head as that of a submitted job."""
    source = DRIVER.read_text(encoding="utf-8")
    done = cluster.exec("ray-head", ["python3", "-", "auto"], user="ray", workdir="/var/lib/ray", stdin=source,
                        env={"HOME": "/var/lib/ray"}, timeout_s=300)  # fmt: skip
    return _rates(done.stdout)


def _rates(text: str) -> dict[str, float]:
    rates: dict[str, float] = json.loads(text.strip().splitlines()[-1])
    return rates


def first_task_s(slurm: Slurm, nodes: int) -> float:
    """From sbatch to the first task of a Ray on so many nodes, in seconds."""
    begun = time.time()
    job = submit(slurm, ["python3", str(FIRST)], nodes=nodes, gpus=1)
    slurm.wait_state(job, FINAL, timeout_s=180)
    log = slurm.login.read(log_of(job))
    found = re.search(r"^first task ([\d.]+)$", log, re.M)
    if not found:
        raise LabError(f"job {job} ran no task: {log.strip()[-500:]}", f"scontrol show job {job}")
    return float(found[1]) - begun


def main() -> int:
    """Measure and print."""
    try:
        cluster = Cluster.open()
        python, slurm = host_python(), Slurm(cluster)
        rates: list[tuple[dict[str, float], dict[str, float]]] = []
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS}")
            rates.append((on_lab(cluster), on_host(python)))
        sizes = [count for count in (1, 2, 4) if count <= len(cluster.nodes())]
        starts = {count: [first_task_s(slurm, count) for _ in range(ROUNDS)] for count in sizes}
    except LabError as error:
        print_error(error)
        return 1
    console = Console(highlight=False)
    table = Table("a second", "lab", "this host", "ratio (median)", "all ratios")
    for name, text in (("tasks", "tasks"), ("calls", "actor calls")):
        ratios = [lab[name] / host[name] for lab, host in rates]
        lab, host = (statistics.median(pair[side][name] for pair in rates) for side in (0, 1))
        table.add_row(text, f"{lab:.0f}", f"{host:.0f}", f"{statistics.median(ratios):.2f}",
                      ", ".join(f"{ratio:.2f}" for ratio in ratios))  # fmt: skip
    console.print(table)
    table = Table("nodes of the job", "sbatch to first Ray task, median s", "all s")
    for count, seconds in starts.items():
        table.add_row(str(count), f"{statistics.median(seconds):.1f}", ", ".join(f"{one:.1f}" for one in seconds))
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
