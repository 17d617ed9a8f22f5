"""What must outlive make down and make up: the queue in its order, job ids, accounting, homes; and what up refuses."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from provisioning.cluster import Cluster, run_local
from provisioning.errors import LabError
from provisioning.up import down, up
from smoke.faults import docker


def queue(cluster: Cluster) -> list[str]:
    text = cluster.exec("slurmctld", ["squeue", "-h", "-t", "PD", "-S", "i", "-o", "%i"]).stdout
    return text.split()


def test_up_on_a_running_lab_changes_nothing_and_is_quick(cluster: Cluster) -> None:
    before = cluster.exec("slurmctld", ["stat", "-c", "%Y", "/proc/1"]).stdout
    started = time.monotonic()
    up(cluster.settings)
    seconds = time.monotonic() - started
    assert cluster.exec("slurmctld", ["stat", "-c", "%Y", "/proc/1"]).stdout == before
    # 2 s are promised on a quiet machine; a busy one may need a few times that
    assert seconds < 10, seconds


@pytest.fixture
def guest(cluster: Cluster) -> Iterator[str]:
    """A container of somebody else on the lab's network, as an author's own tool is."""
    name, network = f"{cluster.settings.project}-guest", f"{cluster.settings.project}_lab"
    image = cluster.containers()["login"].image
    docker("run", "-d", "--name", name, "--network", network, "--entrypoint", "sleep", image, "900")
    yield name
    docker("rm", "--force", name)


def test_down_and_up_keep_everything(cluster: Cluster, guest: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = cluster.exec("login", ["sbatch", "--parsable", "--wait", "-o", "/dev/null", "--wrap", "true"], user="alice",
                        workdir="/home/alice").stdout.strip()  # fmt: skip
    held = [
        cluster.exec("login", ["sbatch", "--parsable", "--hold", "-o", "/dev/null", "--wrap", "true"], user="alice",
                     workdir="/home/alice").stdout.strip()
        for _ in range(3)
    ]  # fmt: skip
    cluster.exec("login", ["sh", "-c", "echo kept > ~/kept"], user="alice", workdir="/home/alice")
    try:
        down(cluster.settings)
        assert not cluster.containers()
        assert f"_lab stays: {guest} uses it" in capsys.readouterr().out
        up(cluster.settings)
        assert [job for job in queue(cluster) if job in held] == held
        rows = cluster.exec("login", ["sacct", "-nPX", "-j", done, "-o", "State,ExitCode"], user="alice").stdout
        assert rows.strip() == "COMPLETED|0:0"
        assert cluster.exec("login", ["cat", "/home/alice/kept"], user="alice").stdout == "kept\n"
        new = cluster.exec("login", ["sbatch", "--parsable", "-o", "/dev/null", "--wrap", "true"], user="alice",
                           workdir="/home/alice").stdout.strip()  # fmt: skip
        assert int(new) > int(held[-1])
    finally:
        cluster.exec("login", ["scancel", *held], user="alice", check=False)


def test_another_lab_under_the_same_project_is_refused(cluster: Cluster) -> None:
    with pytest.raises(LabError, match="already runs name default, not ci") as caught:
        up(replace(cluster.settings, lab="ci"))
    assert "make down" in caught.value.hint


def test_another_slurm_under_the_same_project_is_refused(cluster: Cluster) -> None:
    other = "26.05" if cluster.settings.slurm == "24.11" else "24.11"
    with pytest.raises(LabError, match=f"already runs slurm {cluster.settings.slurm}, not {other}"):
        up(replace(cluster.settings, slurm=other))


def test_a_taken_port_is_one_clear_line_and_leaves_nothing(cluster: Cluster) -> None:
    taken = cluster.dashboard.rpartition(":")[2]
    env = {
        **os.environ,
        "PROJECT": "labtest-port",
        "DASHBOARD_PORT": taken,
        "LAB": "ci",
        "SLURM": cluster.settings.slurm,
    }
    result = run_local([".venv/bin/python", "-m", "provisioning", "up"], env=env, timeout_s=60)
    assert result.exit_code == 1
    assert f"port 127.0.0.1:{taken} of the dashboard cannot be used" in result.stderr
    assert "DASHBOARD_PORT" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (cluster.settings.root / "compose" / "generated" / "labtest-port").exists()


def test_a_container_that_died_is_started_again_by_up(cluster: Cluster) -> None:
    run_local(["docker", "stop", "--time", "2", cluster.container_name("c2")], timeout_s=60)
    up(cluster.settings)
    assert cluster.containers()["c2"].state == "running"
