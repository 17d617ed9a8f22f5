"""Launchers as people use them, unmodified: submitit, a rendezvous over the node list, exported variables."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from provisioning.cluster import Cluster, run_local
from provisioning.waiting import wait_for
from smoke.slurm import FINAL, Slurm, let_go

#: submitit needs nothing else; it goes where a user would put it, beside the lab's own packages.
WHEELS = ("submitit==1.5.4", "cloudpickle==3.1.3", "typing_extensions==4.16.0")
SUBMITIT = """
import json, os, sys, time
import submitit

def where(number):
    task = submitit.JobEnvironment()
    return [number * number, task.global_rank, task.num_tasks, os.environ["CUDA_VISIBLE_DEVICES"]]

def fails():
    raise ValueError("on purpose")

class Training(submitit.helpers.Checkpointable):
    '''Counts to 40 in 8 s; what it has counted travels along when the job is requeued.'''
    def __init__(self):
        self.done, self.runs = 0, 0
    def __call__(self):
        self.runs += 1
        print("run", self.runs, "from", self.done, flush=True)
        while self.done < 40:
            time.sleep(0.2)
            self.done += 1
            open("counted", "w").write(str(self.done))
        return self.done, self.runs

def executor(**more):
    one = submitit.AutoExecutor(folder="jobs/%j")
    assert one.cluster == "slurm", one.cluster
    one.update_parameters(timeout_min=10, gpus_per_node=1, cpus_per_task=1, slurm_mem="200M", **more)
    return one

def submit():
    jobs = {"tasks": executor(tasks_per_node=2).submit(where, 3), "fails": executor().submit(fails),
            "cancelled": executor().submit(time.sleep, 600), "training": executor().submit(Training())}
    array = executor(slurm_array_parallelism=2).map_array(where, [1, 2, 3])
    print(json.dumps({name: job.job_id for name, job in jobs.items()} | {"array": [job.job_id for job in array]}))

def job(job_id, tasks=(0,)):
    return submitit.SlurmJob(folder="jobs/%j", job_id=job_id, tasks=tasks)

def collect(ids):
    answer = {"tasks": job(ids["tasks"], (0, 1)).results(), "array": [job(one).result() for one in ids["array"]]}
    error = job(ids["fails"]).exception()
    answer["fails"] = [type(error).__name__, "on purpose" in str(error)]
    cancelled = job(ids["cancelled"])
    while cancelled.state != "RUNNING":
        time.sleep(0.2)
    cancelled.cancel()
    while not cancelled.done():
        time.sleep(0.2)
    answer["cancelled"] = cancelled.state.split()[0]
    print(json.dumps(answer))

command, *rest = sys.argv[1:]
if command == "submit":
    submit()
elif command == "collect":
    collect(json.loads(rest[0]))
elif command == "interrupt":
    job(rest[0])._interrupt()
elif command == "result":
    print(json.dumps(job(rest[0]).result()))
"""


@pytest.fixture(scope="module")
def submitit(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """alice, with submitit in a folder that all nodes see (containers need no network for it)."""
    folder = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]
    index = [f"--index-url={os.environ['PYPI_INDEX']}"] if os.environ.get("PYPI_INDEX") else []
    done = run_local([*pip, str(folder), *index, *WHEELS], timeout_s=120)
    assert done.exit_code == 0, done.stderr
    packed = subprocess.run(["tar", "-C", str(folder), "-cz", "."], capture_output=True, check=True).stdout
    unpack = (
        "cd /scratch && rm -rf submitit && mkdir submitit && tar -xz --no-same-owner -C submitit && chmod 755 submitit"
    )
    target = ["docker", "exec", "-i", cluster.container_name("login"), "sh", "-c", unpack]
    subprocess.run(target, input=packed, check=True)
    script = folder / "launch.py"
    script.write_text(SUBMITIT)
    alice = Slurm(cluster, folder="submitit")
    alice.login.put([script])
    try:
        yield alice
    finally:
        alice.login.run("scancel", "--me", "--quiet", check=False)
        cluster.exec("login", ["rm", "-rf", "/scratch/submitit"])


def launch(alice: Slurm, *argv: str, timeout_s: float = 120) -> str:
    """One command of the script, with the Python of alice's own environment; its last line."""
    run = alice.login.run("env", "PYTHONPATH=/scratch/submitit", "/home/alice/venvs/train/bin/python", "launch.py",
                          *argv, timeout_s=timeout_s)  # fmt: skip
    return (run.stdout.splitlines() or [""])[-1]


@pytest.mark.slow
def test_submitit(cluster: Cluster, submitit: Slurm) -> None:
    submitit.login.run("rm", "-rf", "counted", "jobs")
    ids = json.loads(launch(submitit, "submit"))
    training = ids["training"]
    wait_for("first steps", lambda: submitit.login.read("counted"), lambda text: int(text or 0) >= 5, timeout_s=60)
    launch(submitit, "interrupt", training)  # as before a preemption: submitit saves, and has the job requeued
    wait_for("requeue", lambda: submitit.job(training), lambda job: job.fields["Restarts"] == "1", timeout_s=30)
    wait_for("start", lambda: start_now(cluster, submitit, training), timeout_s=60, interval_s=3)
    answer = json.loads(launch(submitit, "collect", json.dumps(ids)))
    ranks = sorted(answer["tasks"], key=lambda row: row[1])
    assert [row[:3] for row in ranks] == [[9, 0, 2], [9, 1, 2]]
    assert [row[0] for row in answer["array"]] == [1, 4, 9]
    assert all(re.fullmatch(r"[0-7]", row[3]) for row in [*answer["tasks"], *answer["array"]])
    assert answer["fails"] == ["FailedJobError", True]
    assert answer["cancelled"] == "CANCELLED"
    assert json.loads(launch(submitit, "result", training)) == [40, 2]
    log = submitit.login.read(f"jobs/{training}/{training}_0_log.out")
    found = re.findall(r"run (\d) from (\d+)", log)
    assert [run for run, _ in found] == ["1", "2"] and int(found[1][1]) >= 5, log


def start_now(cluster: Cluster, alice: Slurm, job_id: str) -> bool:
    """Slurm holds a requeued job back for two minutes; an operator may start it at once."""
    if alice.job(job_id).reason == "BeginTime":
        cluster.exec("slurmctld", let_go(job_id), check=False)
    return alice.job(job_id).state in {"RUNNING", "COMPLETED"}


#: The part of torchrun that Slurm sees: an agent on each node meets the others at the first node and starts workers.
AGENT = """
import argparse, json, os, socket, subprocess, sys, threading
options = argparse.ArgumentParser()
for name in ("--nnodes", "--nproc-per-node", "--rdzv-id", "--rdzv-endpoint"):
    options.add_argument(name)
options.add_argument("rest", nargs=argparse.REMAINDER)
args = options.parse_args()
host, port = args.rdzv_endpoint.split(":")
nodes, workers = int(args.nnodes), int(args.nproc_per_node)

def store(listener):
    '''Give node numbers in order of arrival; then add up what the workers send, and tell all the sum.'''
    for wanted in (nodes, nodes * workers):
        friends = [listener.accept()[0] for _ in range(wanted)]
        said = [json.loads(friend.makefile().readline()) for friend in friends]
        for number, friend in enumerate(friends):
            friend.sendall(json.dumps({"number": number, "sum": sum(said)}).encode() + b"\\n")
            friend.close()

def ask(number):
    for _ in range(100):
        try:
            with socket.create_connection((host, int(port)), timeout=30) as peer:
                peer.sendall(json.dumps(number).encode() + b"\\n")
                return json.loads(peer.makefile().readline())
        except ConnectionRefusedError:
            threading.Event().wait(0.1)
    sys.exit("no rendezvous at " + args.rdzv_endpoint)

if "RANK" in os.environ:
    total = ask(int(os.environ["RANK"]))["sum"]
    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "on", socket.gethostname(), "sum", total,
          "gpus", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
    sys.exit(0)
serves = socket.gethostbyname(host) == socket.gethostbyname(socket.gethostname())
if serves:
    listener = socket.create_server(("", int(port)))
    threading.Thread(target=store, args=(listener,), daemon=True).start()
number = ask(0)["number"]
gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
children = [subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "RANK": str(number * workers + local),
            "LOCAL_RANK": str(local), "WORLD_SIZE": str(nodes * workers), "CUDA_VISIBLE_DEVICES": gpus[local]})
            for local in range(workers)]
sys.exit(max(child.wait() for child in children))
"""
TORCHRUN = """#!/bin/bash
#SBATCH --job-name=torchrun
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --mem=1G
#SBATCH --time=5
nodes=( $(scontrol show hostnames "$SLURM_JOB_NODELIST") )
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "${nodes[0]}" hostname --ip-address)
echo "Node IP: $head_node_ip"
srun --kill-on-bad-exit=1 --wait=60 python3 agent.py --nnodes "$SLURM_NNODES" --nproc-per-node 2 \\
    --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "${nodes[0]}:29500"
srun --kill-on-bad-exit=1 --wait=60 python3 agent.py --nnodes "$SLURM_NNODES" --nproc-per-node 2 \\
    --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$head_node_ip:29501"
"""


def test_a_rendezvous_of_the_torchrun_kind(cluster: Cluster, tmp_path: Path) -> None:
    """On the first host's name, and on its address as `hostname --ip-address` prints it (field case 26)."""
    alice = Slurm(cluster, folder="torchrun")
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "torchrun.slurm").write_text(TORCHRUN)
    alice.login.put([tmp_path / "agent.py", tmp_path / "torchrun.slurm"])
    job_id = alice.submit("torchrun.slurm", options=["-o", "%j.out"])
    try:
        job = alice.wait_state(job_id, FINAL, timeout_s=90)
    finally:
        alice.clean_up()
    log = alice.login.read(f"{job_id}.out")
    assert job.state == "COMPLETED", log
    rows = re.findall(r"^rank (\d) of 4 on (\S+) sum 6 gpus (\d)$", log, re.M)
    assert sorted(rank for rank, *_ in rows) == sorted("0123" * 2), log
    assert len({(host, gpu) for _, host, gpu in rows}) == 4, log
    assert not re.search(r"Node IP: 127\.", log)


def test_exported_variables_do_not_end_a_node(cluster: Cluster) -> None:
    """With these slurmd loads the login environment, which it cannot in a container: it ended, and the job with it."""
    alice = Slurm(cluster)
    alice.login.put([])
    before = cluster.exec("c3", ["pgrep", "-o", "slurmd"]).stdout
    wrap = "echo [$FOO] $HOME $USER; command -v srun; command -v ray"
    common = ["-w", "c3", "-c1", "--mem=100M", "-o", "export-%j.out"]
    seen = {"NONE": "", "ALL,FOO=1": "1", "FOO=2": "2", "NIL": ""}
    jobs = {export: alice.submit(wrap=wrap, options=[f"--export={export}", *common]) for export in seen}
    for export, value in seen.items():
        assert alice.wait_state(jobs[export], FINAL, timeout_s=60).state in {"COMPLETED", "FAILED"}, export
        text = alice.login.read(f"export-{jobs[export]}.out")
        assert text.startswith(f"[{value}]"), text
        if export != "NIL":  # that one is told to have nothing
            assert re.search("/home/alice alice\n/usr/bin/srun\n.*/ray\n$", text), text
    assert cluster.exec("c3", ["pgrep", "-o", "slurmd"]).stdout == before
