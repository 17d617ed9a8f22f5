"""The load: two users submit Slurm jobs of all sizes at a steady rate, and Ray is given a job now and then."""

from __future__ import annotations

import random
import shlex
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from statistics import fmean

from provisioning import ray_api
from provisioning.cluster import Cluster
from provisioning.errors import LabError
from smoke.login import Login
from smoke.stage import COMMENT
from smoke.workload import node_gpus

#: Seconds between two submissions of one user, at least, and between two Ray jobs: a laptop of two cores keeps up.
EVERY_S, RAY_EVERY_S = 2.0, 15.0
#: Share of the lab's GPUs that are asked for: what a fault holds up is made good before the next.
BUSY = 0.7
#: GPUs on each node of a job, nodes of a job, seconds that it runs: to draw from.
GPUS, NODES, SECONDS = (0, 1, 1, 2, 4, 8), (1, 1, 1, 1, 2), range(2, 13)
#: A submission may wait for slurmctld so long.
SUBMIT_S = 90
#: A Ray job: four tasks on whole GPUs. Neither they nor their driver hold whole CPUs: many drivers would take them all
#: and wait for tasks that have none.
DRIVER = """
import ray, time
ray.init(log_to_driver=False)
@ray.remote(num_gpus=1, num_cpus=0)
def work():
    time.sleep(1)
    return len(ray.get_gpu_ids())
assert ray.get([work.remote() for _ in range(4)], timeout=120) == [1] * 4
"""


@dataclass(frozen=True)
class Submission:
    """One submission and what was answered: a job's id, a refusal in words, or neither (the answer was lost)."""

    user: str
    name: str
    answered: float
    job: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class Ask:
    """One job: GPUs on each of its nodes, seconds that it runs, whether it may be requeued, its exit status."""

    nodes: int
    gpus: int
    seconds: int
    requeue: bool
    status: int

    def options(self) -> list[str]:
        """For sbatch."""
        gres = [f"--gres=gpu:{self.gpus}"] if self.gpus else []
        return [f"--nodes={self.nodes}", "--ntasks-per-node=1", "--cpus-per-task=1", "--mem=50M", "--time=10", *gres,
                "--requeue" if self.requeue else "--no-requeue"]  # fmt: skip


def asks(seed: int, user: str, node_sizes: Collection[int]) -> Iterator[Ask]:
    """The jobs of one user, without end, for nodes of so many GPUs; the same for the same seed."""
    dice, sizes = random.Random(f"{seed} {user}"), _gpus(node_sizes)
    while True:
        gpus, nodes = dice.choice(sizes), dice.choice(NODES)
        fitting = sum(size >= gpus for size in node_sizes)
        yield Ask(min(nodes, fitting), gpus, dice.choice(SECONDS), dice.random() < 0.6, dice.choice((0, 0, 0, 3)))


def every_s(node_sizes: Collection[int], users: int) -> float:
    """Seconds between two jobs of one user, so that all users together keep BUSY of the GPUs busy."""
    gpu_s = fmean(_gpus(node_sizes)) * fmean(NODES) * fmean(SECONDS)
    return max(EVERY_S, users * gpu_s / (BUSY * max(1, sum(node_sizes))))


def _gpus(node_sizes: Collection[int]) -> list[int]:
    return [gpus for gpus in GPUS if gpus <= max(node_sizes)]


@dataclass
class Load:
    """Submits until it is told to stop; keeps what was answered to each."""

    cluster: Cluster
    folder: str
    seed: int
    #: in the names of all jobs, so that no earlier run's are taken for this one's
    run: int = field(default_factory=lambda: int(time.time()))
    jobs: list[Submission] = field(default_factory=list)
    ray_jobs: list[Submission] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def users(self) -> list[str]:
        """The first two users of the lab."""
        return [user.name for user in self.cluster.lab.users[:2]]

    def mine(self, name: str) -> bool:
        """Whether a job of this name is of this run."""
        return f"-{self.run}-" in name

    def submit_slurm(self, user: str) -> None:
        """Submit one user's jobs at a steady rate; one that slurmctld keeps waiting holds up the next."""
        partition = max(self.cluster.lab.partitions, key=lambda one: one.default)
        sizes = node_gpus(self.cluster.lab, partition).values()
        period_s = every_s(sizes, len(self.users))
        for number, ask in enumerate(asks(self.seed, user, sizes)):
            begun = time.monotonic()
            self.jobs.append(self._sbatch(user, f"{user}-{self.run}-{number}", ask))
            if self.over.wait(max(0.0, begun + period_s - time.monotonic())):
                return

    def _sbatch(self, user: str, name: str, ask: Ask) -> Submission:
        payload = [f"{self.folder}/stamps.sh", f"{self.folder}/stamps", str(ask.seconds), str(ask.status)]
        sbatch = ["timeout", "--signal=KILL", str(SUBMIT_S), "sbatch", "--parsable", f"--job-name={name}",
                  f"--comment={COMMENT}", "--output=/dev/null", *ask.options(),
                  *(["--wrap", shlex.join(["srun", *payload])] if ask.nodes > 1 else payload)]  # fmt: skip
        # a container that dies answers nothing: only what sbatch itself said is a refusal
        script = f"said=$({shlex.join(sbatch)} 2>&1); echo answer $? $said"
        try:
            text = Login(self.cluster, user, "").run("bash", "-c", script, check=False, timeout_s=SUBMIT_S + 20).stdout
        except LabError:
            text = ""
        return answer(user, name, text)

    def submit_ray(self) -> None:
        """Give Ray a job every RAY_EVERY_S, in the name of one user after the other."""
        number, entry = 0, shlex.join(["python3", "-c", DRIVER])
        while True:
            user, name = self.users[number % len(self.users)], f"chaos-{self.run}-{number}"
            body = {"submission_id": name, "entrypoint": entry, "entrypoint_num_cpus": 0.1, "metadata": {"user": user}}
            try:
                ray_api.post(self.cluster, "/api/jobs/", body, timeout_s=30)
                self.ray_jobs.append(Submission(user, name, time.time(), name))
            except LabError as error:
                self.ray_jobs.append(Submission(user, name, time.time(), refusal=error.what))
            number += 1
            if self.over.wait(RAY_EVERY_S):
                return

    def stop_ray(self) -> None:
        """Stop what Ray has of this run's jobs; one that has ended stays as it is."""
        for one in self.ray_jobs:
            if one.job:
                ray_api.post(self.cluster, f"/api/jobs/{one.job}/stop", {}, timeout_s=30)


def answer(user: str, name: str, text: str) -> Submission:
    """What a submission's last line says: ``answer STATUS WORDS``, or nothing if it was cut short."""
    words = next((line.split(" ", 2) for line in reversed(text.splitlines()) if line.startswith("answer ")), None)
    now = time.time()
    if words is None or words[1] == "137":
        return Submission(user, name, now)
    said = words[2].strip() if len(words) > 2 else ""
    if words[1] == "0":
        return Submission(user, name, now, job=said.split()[-1].split(";")[0])
    return Submission(user, name, now, refusal=said or f"exit status {words[1]}")
