"""Never twice (B3): make audit is clean on a busy lab, and finds each planted fault."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provisioning.cluster import Cluster, Result, run_local
from provisioning.waiting import wait_for
from smoke.audit import audit, summary
from smoke.audit_find import lines
from smoke.ray import RayUser
from smoke.ray_on_slurm import log_of, submit
from smoke.slurm import Slurm

pytestmark = pytest.mark.slow
#: A Ray inside a job: one task with a GPU, which starts a child, and one without. Later two that misbehave.
DRIVER = """
import os, pathlib, subprocess, time
import ray
ray.init(address="auto", log_to_driver=False, logging_level="ERROR")

@ray.remote(num_cpus=0)
def task(take=None):
    if take is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = take
    child = subprocess.Popen(["sleep", "900"])
    pathlib.Path(f"/scratch/audit/{os.getpid()}").touch()
    child.wait()

running = [task.options(num_gpus=1).remote(), task.remote()]
plan = pathlib.Path("/scratch/audit/plan")
while not plan.exists():
    time.sleep(0.2)
mine, free = plan.read_text().split()
escape = {"env_vars": {"CUDA_VISIBLE_DEVICES": free}}
running += [task.remote(mine), task.options(num_gpus=1, runtime_env=escape).remote()]
ray.get(running)
"""
#: Work on the standing Ray set: whole GPUs, halves, a placement group, and tasks that come and go.
STANDING = """
import time, ray
ray.init()

@ray.remote(num_cpus=0)
def hold(seconds):
    time.sleep(seconds)

group = ray.util.placement_group([{"GPU": 1, "CPU": 1}])
ray.get(group.ready())
strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group)
kept = [hold.options(num_gpus=gpus).remote(900) for gpus in (1, 1, 0.5, 0.5, 0)]
kept += [hold.options(num_gpus=1, scheduling_strategy=strategy).remote(900)]
print("busy", flush=True)
while True:
    ray.get([hold.options(num_gpus=1).remote(0.2) for _ in range(3)])
"""


def waiting_files(cluster: Cluster, count: int) -> None:
    """Until so many tasks of the Ray inside the job run."""
    wait_for(f"{count} tasks", lambda: cluster.exec("login", ["ls", "/scratch/audit"]).stdout.split(),
             lambda names: sum(name.isdigit() for name in names) >= count, timeout_s=90)  # fmt: skip


@pytest.fixture(scope="module")
def busy(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Jobs of two users that share nodes, a Ray inside one of them, and the standing Ray at work."""
    files = tmp_path_factory.mktemp("audit")
    for name, text in (("audit_driver.py", DRIVER), ("audit_standing.py", STANDING)):
        (files / name).write_text(text)
    cluster.exec("login", ["sh", "-c", "rm -rf /scratch/audit; mkdir -m 777 /scratch/audit"])
    alice, bob, ray = Slurm(cluster, "alice"), Slurm(cluster, "bob"), RayUser(cluster, "alice")
    few = ["--cpus-per-task=1", "--mem-per-cpu=100M", "--output=/dev/null", "--time=20"]
    try:
        inside = submit(alice, ["python3", str(files / "audit_driver.py")], gpus=3,
                        options=["--nodelist=c1", "--time=20"])  # fmt: skip
        bob.login.put([])
        step = "srun --overlap --gres=gpu:1 sleep 900 & srun --overlap --gres=gpu:1 sleep 900 & wait"
        his = bob.submit(wrap=step, options=["--nodelist=c1", "--gres=gpu:2", *few])
        alice.submit(wrap="srun sleep 900", options=["-N2", "-n4", "--nodelist=c[2-3]", "--gpus-per-task=1", *few])
        bob.submit(wrap="python3 -c 'import time; time.sleep(900)'", options=["--nodelist=c2", "--gres=gpu:1", *few])
        alice.submit(wrap="sleep 900", options=["--nodelist=c3", *few])
        ray.login.put([files / "audit_standing.py"])
        standing = ray.job_submit("python3", "audit_standing.py", options=("--entrypoint-num-cpus", "1"), name="audit")
        waiting_files(cluster, 2)
        wait_for("standing Ray busy", lambda: ray.job_cli("logs", standing, check=False), lambda text: "busy" in text,
                 timeout_s=60)  # fmt: skip
        yield {"alice": alice, "bob": bob, "inside": inside, "his": his}
    finally:
        cluster.exec("login", ["rm", "-rf", "/scratch/audit"])
        for user in (alice, bob, ray):
            user.clean_up()


def command(cluster: Cluster, *options: str) -> Result:
    """``python -m smoke audit``, as a person runs it."""
    env = {**os.environ, "PROJECT": cluster.settings.project, "SLURM": cluster.settings.slurm,
           "DASHBOARD_PORT": cluster.settings.dashboard, "LAB": cluster.settings.lab}  # fmt: skip
    return run_local([".venv/bin/python", "-m", "smoke", "audit", *options], env=env, timeout_s=120)


def test_a_busy_lab_is_clean(cluster: Cluster, busy: dict[str, Any]) -> None:
    """Also while jobs start and end all the time, and tasks with and without GPUs."""
    churn = ["--array=1-60%8", "--gres=gpu:1", "-c1", "--mem=100M", "--output=/dev/null", "--nodelist=c4"]
    busy["bob"].submit(wrap="srun sleep 0.2", options=churn)
    for _ in range(3):
        finds, reading = audit(cluster)
        assert not finds, lines(finds)
    seen = summary(reading)
    assert seen["gpus_granted"] >= 3 + 2 + 4 + 1 and seen["raylets"] == 4
    belief = [slots for one in reading.beliefs.values() for slots, _ in one.workers.values() if slots]
    assert len(belief) >= 1 + 5  # the task inside the job; whole ones, halves and the bundle of the standing set
    busy["bob"].cancel(busy["bob"].submitted[-1])
    result = command(cluster)
    assert result.exit_code == 0 and result.stdout.startswith("clean: "), result.stdout + result.stderr


@pytest.fixture
def planted(cluster: Cluster, busy: dict[str, Any]) -> Iterator[dict[str, int]]:
    """Every kind of fault at once; the GPUs that they are about."""
    mine = busy["alice"].job(busy["inside"]).grants["c1"]
    his = busy["alice"].job(busy["his"]).grants["c1"]
    free = next(gpu for gpu in range(8) if gpu not in (*mine, *his))
    hold = 'CUDA_VISIBLE_DEVICES=$1 exec setsid -f python3 -c "import time; time.sleep(900)" planted'
    by_hand = """mkdir -p /tmp/byhand && TMPDIR=/tmp/byhand RAY_AUTH_MODE=disabled ray start --head --port=7777 \\
        --temp-dir=/tmp/byhand/t --num-cpus=1 --num-gpus=2 --object-store-memory=100000000 --disable-usage-stats"""
    try:
        cluster.exec("login", ["sh", "-c", f"echo {mine[0]} {free} > /scratch/audit/new; mv /scratch/audit/new "
                               "/scratch/audit/plan"])  # fmt: skip
        cluster.exec("c1", ["bash", "-c", hold, "hold", str(his[0])], user="alice")
        cluster.exec("c4", ["bash", "-c", hold, "hold", "5"], user="bob")
        cluster.exec("ray-worker-1", ["bash", "-c", hold, "hold", "3"], user="ray")
        cluster.exec("c4", ["bash", "-lc", by_hand], user="bob")
        hidden = busy["alice"].submit(wrap="CUDA_VISIBLE_DEVICES= exec sleep 900", options=[
            "--nodelist=c3", "--gres=gpu:1", "-c1", "--mem=100M", "--output=/dev/null"])  # fmt: skip
        job = busy["alice"].wait_state(hidden, {"RUNNING"})
        waiting_files(cluster, 4)
        yield {"mine": mine[0], "his": his[0], "free": free, "hidden": job.grants["c3"][0], "hidden_job": int(hidden)}
    finally:
        for node in ("c1", "c4", "ray-worker-1"):
            cluster.exec(node, ["pkill", "-KILL", "-f", "planted$"], check=False)
        cluster.exec("c4", ["bash", "-c", "pkill -KILL -f /tmp/byhand/; sleep 2; rm -rf /tmp/byhand"], check=False)


def test_each_planted_fault_is_found(cluster: Cluster, busy: dict[str, Any], planted: dict[str, int]) -> None:
    result = command(cluster, "--json")
    assert result.exit_code == 1, result.stdout + result.stderr
    answer = json.loads(result.stdout)
    found = {(find["node"], find["gpu"], find["kind"]): find["what"] for find in answer["finds"]}
    text = result.stdout
    # a process with a hand-set variable: beside a job's, without a job, and beside the standing Ray
    assert f"job {busy['his']} of bob" in found["c1", planted["his"], "held twice"], text
    assert "of alice (python3" in found["c1", planted["his"], "held twice"], text
    assert "in no job" in found["c4", 5, "used without a grant"], text
    assert "the standing Ray" in found["ray-worker-1", 3, "held twice"], text
    # a runtime_env that escapes; a task without GPUs that sees one
    assert "Ray's process" in found["c1", planted["free"], "used without a grant"], text
    twice = [what for (node, gpu, kind), what in found.items() if (node, gpu) == ("c1", planted["mine"])]
    assert twice and "whom Ray gave none" in twice[0], text
    # a second Ray started by hand; a job that hides its GPU
    for gpu in (0, 1):
        assert "Ray at" in found["c4", gpu, "used without a grant"], text
    assert f"job {planted['hidden_job']}" in found["c3", planted["hidden"], "granted and not visible"], text
    # and nobody else is blamed
    assert len(found) == 8, sorted(found)
    for user in ("alice", "bob"):
        busy[user].clean_up()


def test_after_the_faults_the_lab_is_clean(cluster: Cluster) -> None:
    finds, _ = audit(cluster)
    assert not finds, lines(finds)


def test_a_node_that_cannot_be_asked_is_no_clean_audit(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(cluster), "nodes", lambda _: ["c1", "nonesuch"])
    with pytest.raises(Exception, match="nonesuch"):
        audit(cluster)


def test_log_of_the_job_says_nothing_of_the_audit(busy: dict[str, Any]) -> None:
    """The audit asks Ray's dashboard with the job's own token, and leaves no error there."""
    log = busy["alice"].login.read(log_of(busy["inside"]))
    assert "Unauthorized" not in log, log


def test_the_agent_needs_nothing_but_python() -> None:
    text = Path("smoke/audit_agent.py").read_text(encoding="utf-8")
    assert "import provisioning" not in text and "from smoke" not in text
