"""A Ray cluster inside one Slurm job (B2): exactly what the job has, the driver's exit code, and nothing left.

Each job gets nodes of its own and all start at once: a Ray needs some seconds to start, and the tests wait together.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provisioning.cluster import Cluster, run_local
from provisioning.slurmtypes import expand_hosts
from provisioning.waiting import wait_for
from smoke.ray_on_slurm import SCRIPT, log_of, submit
from smoke.slurm import FINAL, Slurm, parse_indices

pytestmark = pytest.mark.slow
#: Prints what Ray has, each GPU once; then does what it was told: exit with a code, wait for a file, count.
DRIVER = """
import asyncio, json, os, pathlib, sys, time
import ray
ray.init(address="auto", log_to_driver=False, logging_level="ERROR")

@ray.remote(num_cpus=0)
class Meeting:  # nobody goes before all have come: no GPU is seen twice
    def __init__(self, expected):
        self.missing = expected
    async def arrive(self):
        self.missing -= 1
        while self.missing > 0:
            await asyncio.sleep(0.05)

@ray.remote(num_gpus=1, num_cpus=0)
def gpu(meeting=None):
    if meeting:
        ray.get(meeting.arrive.remote())
    return ray.get_runtime_context().get_node_id(), os.environ["CUDA_VISIBLE_DEVICES"]

nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
count = int(ray.cluster_resources().get("GPU", 0))
meeting = Meeting.remote(count)
seen = ray.get([gpu.remote(meeting) for _ in range(count)], timeout=90)
for key, node in nodes.items():
    print(json.dumps({"node": node["NodeName"], "cpus": node["Resources"]["CPU"],
                      "bytes": node["Resources"]["memory"] + node["Resources"]["object_store_memory"],
                      "gpus": sorted(int(gpu) for where, gpu in seen if where == key)}), flush=True)
what, value = sys.argv[1:]
def wait_for(path):
    while not pathlib.Path(path).exists():
        time.sleep(0.1)

if what == "leave":
    wait_for("/scratch/leave")
if what in ("leave", "exit"):
    sys.exit(int(value))
if what == "wait":
    wait_for(value)
    print("still", len(ray.nodes()), "nodes", ray.get(gpu.remote(), timeout=30)[1])
if what == "count":
    state = pathlib.Path(f"count-{os.environ['SLURM_JOB_ID']}")
    first = int(state.read_text()) if state.exists() else 0
    print("counting from", first, flush=True)
    for number in range(first + 1, int(value) + 1):
        time.sleep(0.2)
        state.write_text(str(number))
        if number == 5 and not first:
            time.sleep(300)
"""


class Jobs:
    """The jobs of this file, by name."""

    def __init__(self, cluster: Cluster, driver: Path) -> None:
        self.cluster, self.driver = cluster, driver
        self.users = {name: Slurm(cluster, user=name) for name in ("alice", "bob")}
        self.ids: dict[str, str] = {}

    def start(self, name: str, user: str, what: str, value: str, **more: object) -> None:
        options = [f"--job-name={name}", "--time=10", "--cpus-per-task=2", *more.pop("options", ())]  # type: ignore[misc]
        self.ids[name] = submit(self.users[user], ["python3", str(self.driver), what, value], options=options, **more)  # type: ignore[arg-type]

    def end_all(self) -> None:
        """The jobs that all started at once are over: what follows has the nodes to itself."""
        for slurm in self.users.values():
            slurm.clean_up()
            wait_for(f"jobs of {slurm.login.user} gone", lambda slurm=slurm: slurm.queue("--me"), lambda rows: not rows,
                     timeout_s=40)  # fmt: skip

    def slurm(self, name: str) -> Slurm:
        return next(one for one in self.users.values() if self.ids[name] in one.submitted)

    def log(self, name: str) -> str:
        return self.slurm(name).login.read(log_of(self.ids[name]))

    def rows(self, name: str) -> list[dict[str, object]]:
        """What the driver said of its nodes; waits for it."""
        count = int(self.slurm(name).job(self.ids[name]).fields["NumNodes"].partition("-")[0])
        text = wait_for(f"driver of {name}", lambda: self.log(name), lambda text: text.count('{"node"') >= count,
                        timeout_s=150, look_at=self.ids[name])  # fmt: skip
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def ended(self, name: str, timeout_s: float = 90) -> tuple[str, str]:
        job = self.slurm(name).wait_state(self.ids[name], FINAL, timeout_s=timeout_s)
        return job.state, job.fields["ExitCode"]


@pytest.fixture(scope="module")
def jobs(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    driver = tmp_path_factory.mktemp("driver") / "driver.py"
    driver.write_text(DRIVER)
    all_of_them = Jobs(cluster, driver)
    cluster.exec("login", ["rm", "-f", "/scratch/go", "/scratch/leave"])
    try:
        for user, name in (("alice", "hers"), ("bob", "his")):
            all_of_them.start(name, user, "wait", "/scratch/go", gpus=2, options=["--nodelist=c3", "--mem=2G"])
        all_of_them.start("uneven", "alice", "leave", "7", nodes=2, gpus=0, options=[
            "--nodelist=c[1-2]", "--gpus=3", "--mem-per-cpu=500M", "--ntasks=4", "--ntasks-per-node=2"])  # fmt: skip
        all_of_them.start("counts", "alice", "count", "10", gpus=1, options=["--nodelist=c4", "--qos=low"])
        yield all_of_them
    finally:
        for slurm in all_of_them.users.values():
            slurm.clean_up()


def granted(jobs: Jobs, name: str) -> list[dict[str, object]]:
    """What scontrol says that the job has, in the driver's form."""
    text = jobs.slurm(name).login.run("scontrol", "--details", "--oneliner", "show", "job", jobs.ids[name]).stdout
    rows = []
    for hosts, cpus, mb, gres in re.findall(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)", text):
        indices = re.search(r"IDX:([^)]*)", gres)
        held = list(parse_indices(indices[1])) if indices else []
        size = {"cpus": float(len(parse_indices(cpus))), "bytes": float(int(mb) << 20), "gpus": held}
        rows += [{"node": host, **size} for host in expand_hosts(hosts)]
    return rows


def left_by(cluster: Cluster, node: str, job_id: str, user: str) -> str:
    """Processes of a user on a node, files of a job, and ports that listen where nobody has processes any more."""
    script = """ps -u "$2" -o pid=,args=; ls /dev/shm
        find /tmp -mindepth 1 -maxdepth 1 -user "$2" "(" -name "r$1" -o ! -name "r[0-9]*" ")"
        [ -n "$(ps -u alice,bob -o pid=)" ] || ss -ltnH | grep -v -e ":6818 " -e "127.0.0.11:" """
    return cluster.exec(node, ["bash", "-c", script, "left", job_id, user], check=False).stdout


def nothing_left(cluster: Cluster, node: str, job_id: str, user: str = "alice") -> None:
    wait_for(f"nothing of job {job_id} left on {node}", lambda: left_by(cluster, node, job_id, user),
             lambda text: not text, timeout_s=40)  # fmt: skip


def test_two_users_on_one_node_and_one_is_cancelled(cluster: Cluster, jobs: Jobs) -> None:
    both = {name: jobs.rows(name) for name in ("hers", "his")}
    for name, rows in both.items():
        assert rows == granted(jobs, name), name
    hers, his = both["hers"][0]["gpus"], both["his"][0]["gpus"]
    assert isinstance(hers, list) and isinstance(his, list) and not set(hers) & set(his)
    closed = cluster.exec("c3", ["ls", f"/tmp/r{jobs.ids['hers']}"], user="bob", check=False)
    assert "Permission denied" in closed.stderr

    jobs.users["alice"].cancel(jobs.ids["hers"])
    assert jobs.ended("hers")[0] == "CANCELLED"
    nothing_left(cluster, "c3", jobs.ids["hers"])
    cluster.exec("login", ["touch", "/scratch/go"])
    assert jobs.ended("his") == ("COMPLETED", "0:0"), jobs.log("his")
    assert "still 1 nodes" in jobs.log("his")
    nothing_left(cluster, "c3", jobs.ids["his"], "bob")


def test_any_options_give_exactly_the_allocation_and_the_drivers_exit_code(cluster: Cluster, jobs: Jobs) -> None:
    rows = sorted(jobs.rows("uneven"), key=str)
    assert rows == sorted(granted(jobs, "uneven"), key=str)
    assert sorted(len(row["gpus"]) for row in rows) == [1, 2]  # type: ignore[arg-type]
    cluster.exec("login", ["touch", "/scratch/leave"])
    assert jobs.ended("uneven") == ("FAILED", "7:0"), jobs.log("uneven")
    for node in ("c1", "c2"):
        nothing_left(cluster, node, jobs.ids["uneven"])


def test_a_preempted_driver_goes_on_from_its_checkpoint(cluster: Cluster, jobs: Jobs) -> None:
    alice, job_id = jobs.users["alice"], jobs.ids["counts"]
    saved = f"count-{job_id}"
    wait_for("checkpoint", lambda: alice.login.read(saved), lambda text: text == "5", timeout_s=150, look_at=job_id)
    urgent = alice.submit(wrap="sleep 1", options=["--qos=high", "-w", "c4", "--gres=gpu:8", "-o", "/dev/null"])
    alice.wait_state(urgent, {"COMPLETED"}, timeout_s=60)
    nothing_left(cluster, "c4", job_id)
    alice.wait_state(job_id, {"PENDING", "RUNNING"})
    alice.start_requeued(job_id)
    assert jobs.ended("counts", 150) == ("COMPLETED", "0:0"), jobs.log("counts")
    assert re.findall(r"counting from (\d+)", jobs.log("counts")) == ["0", "5"]
    alice.wait_recorded(job_id)
    assert [row["State"] for row in alice.sacct(job_id)] == ["PREEMPTED", "COMPLETED"]
    nothing_left(cluster, "c4", job_id)


def test_a_ray_that_does_not_start_fails_the_job(cluster: Cluster, jobs: Jobs) -> None:
    jobs.end_all()
    alice = jobs.users["alice"]
    fake = "mkdir -p fake && printf '#!/bin/sh\\necho no such option; exit 2\\n' > fake/ray && chmod +x fake/ray"
    alice.login.run("sh", "-c", fake)
    path = f"PATH={alice.login.folder}/fake:/opt/ray/bin:/usr/bin:/bin"
    job_id = submit(alice, ["python3", str(jobs.driver), "exit", "0"], options=["-w", "c1", f"--export=ALL,{path}"])
    job = alice.wait_state(job_id, FINAL, timeout_s=60)
    log = alice.login.read(log_of(job_id))
    assert (job.state, job.fields["ExitCode"]) == ("FAILED", "1:0"), log
    assert "Ray on c1 ended by itself:\nno such option" in log
    assert '{"node"' not in log
    nothing_left(cluster, "c1", job_id)


def test_a_step_ended_with_sigkill_leaves_nothing(cluster: Cluster, jobs: Jobs) -> None:
    jobs.end_all()
    alice = jobs.users["alice"]
    jobs.start("killed", "alice", "wait", "/nowhere", gpus=1, options=["--nodelist=c2"])
    jobs.rows("killed")
    alice.login.run("scancel", "--signal=KILL", f"{jobs.ids['killed']}.0")
    assert jobs.ended("killed") == ("FAILED", "1:0"), jobs.log("killed")
    assert "Ray has ended before its work" in jobs.log("killed")
    nothing_left(cluster, "c2", jobs.ids["killed"])


def test_the_next_run_sweeps_what_a_killed_job_left(cluster: Cluster, jobs: Jobs) -> None:
    """Only files of the same user whose job is over, with the processes that belong to them."""
    text = SCRIPT.read_text(encoding="utf-8")
    functions = "\n".join(re.findall(r"^(?:remove|sweep)\(\) \{.*?^\}", text, re.M | re.S))
    jobs.end_all()
    alice = jobs.users["alice"]
    alive = alice.submit(wrap="sleep 60", options=["-w", "c4", "-o", "/dev/null"])
    alice.wait_state(alive, {"RUNNING"})
    plant = 'for id in "$@"; do mkdir -p /tmp/r$id/t; setsid sleep 600 /tmp/r$id/t/sockets 2>/dev/null & done; true'
    plant = plant.replace("sleep 600", "python3 -c 'import time; time.sleep(600)'")
    ended = jobs.ids["uneven"]
    cluster.exec("c4", ["bash", "-c", plant, "plant", ended, alive, "99999999"], user="alice")
    cluster.exec("c4", ["mkdir", "/tmp/r88888888"], user="bob")
    env = {"SLURM_JOB_ID": "77777777"}
    try:
        cluster.exec("c4", ["bash", "-c", f"{functions}; sweep"], user="alice", env=env)
        assert cluster.exec("c4", ["sh", "-c", "ls -d /tmp/r*"]).stdout.split() == sorted(
            ["/tmp/r88888888", f"/tmp/r{alive}"]
        )
        running = cluster.exec("c4", ["ps", "-u", "alice", "-o", "args="]).stdout
        assert f"/tmp/r{alive}/" in running and f"/tmp/r{ended}/" not in running and "/tmp/r99999999/" not in running
    finally:
        cluster.exec("c4", ["pkill", "-KILL", "-u", "alice", "-f", "/sockets"], check=False)
        cluster.exec("c4", ["sh", "-c", "rm -rf /tmp/r[0-9]*"])
        alice.cancel(alive)


def test_symmetric_run_refuses_nodes_that_it_shares(jobs: Jobs) -> None:
    jobs.end_all()
    alice = jobs.users["alice"]
    script = SCRIPT.with_name("ray_symmetric.slurm")
    alice.login.put([script], folders=("logs",))
    job_id = alice.submit(script.name, "true", options=["--exclusive=user", "--mem=1G", "-o", "logs/sym.out"])
    assert alice.wait_state(job_id, FINAL).state == "FAILED"
    assert "would kill its neighbours' Ray" in alice.login.read("logs/sym.out")


@pytest.mark.parametrize(("driver", "end"), [("exit 5", ("FAILED", "5:0")), ("exit 0", ("COMPLETED", "0:0"))])
def test_symmetric_run_on_whole_nodes(cluster: Cluster, jobs: Jobs, driver: str, end: tuple[str, str]) -> None:
    jobs.end_all()
    alice = jobs.users["alice"]
    script = SCRIPT.with_name("ray_symmetric.slurm")
    alice.login.put([script, jobs.driver], folders=("logs",))
    argv = [script.name, "python3", jobs.driver.name, *driver.split()]
    job_id = alice.submit(*argv, options=["--nodes=2", "--gres=gpu:1", "-o", "logs/sym-%j.out"])
    job = alice.wait_state(job_id, FINAL, timeout_s=150)
    log = alice.login.read(f"logs/sym-{job_id}.out")
    assert (job.state, job.fields["ExitCode"]) == end, log
    rows = [json.loads(line) for line in log.splitlines() if line.startswith('{"node"')]
    assert [row["gpus"] for row in rows] == [list(range(8))] * 2
    for node in job.nodes:
        nothing_left(cluster, node, job_id)


@pytest.mark.parametrize("end", ["time limit", "driver killed", "raylet killed", "everything killed"])
def test_other_ends_leave_nothing(cluster: Cluster, jobs: Jobs, end: str) -> None:
    jobs.end_all()
    alice = jobs.users["alice"]
    options = ["--nodelist=c2", *(["--time=1"] if end == "time limit" else [])]
    jobs.start(end, "alice", "wait", "/nowhere", gpus=1, options=options)
    job_id = jobs.ids[end]
    jobs.rows(end)
    kill: dict[str, Callable[[], object]] = {
        "time limit": lambda: None,
        "driver killed": lambda: cluster.exec("c2", ["pkill", "-KILL", "-f", "^[^ ]*python3 driver.py"]),
        "raylet killed": lambda: cluster.exec("c2", ["pkill", "-KILL", "raylet"]),
        "everything killed": lambda: alice.login.run("scancel", "--full", "--signal=KILL", job_id),
    }
    kill[end]()
    state, code = jobs.ended(end, 150)
    wanted = {"time limit": f"TIMEOUT {code}", "driver killed": "FAILED 137:0", "raylet killed": "FAILED 1:0"}
    assert f"{state} {code}" == wanted.get(end, f"{state} {code}"), jobs.log(end)
    if end == "everything killed":  # nobody was left who could tidy up: the next Ray of the same user does
        time.sleep(3)
        after = submit(alice, ["python3", str(jobs.driver), "exit", "0"], options=["-w", "c2"])
        alice.wait_state(after, {"COMPLETED"}, timeout_s=60)
    nothing_left(cluster, "c2", job_id)


def test_the_command_prints_the_log_and_exits_like_the_driver(cluster: Cluster, jobs: Jobs) -> None:
    env = {**os.environ, "PROJECT": cluster.settings.project, "SLURM": cluster.settings.slurm,
           "DASHBOARD_PORT": cluster.settings.dashboard, "LAB": cluster.settings.lab}  # fmt: skip
    result = run_local([".venv/bin/python", "-m", "smoke", "ray-on-slurm", "--gpus", "2", "--", "python3",
                        str(jobs.driver), "exit", "3"], env=env, timeout_s=120)  # fmt: skip
    assert result.exit_code == 3, result.stderr
    assert "Ray has 1 nodes, 4 CPUs, 2 GPUs" in result.stdout
