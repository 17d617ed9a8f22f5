"""The Slurm lane of the smoke run: one training job's whole life, a cancelled job, a shared node, a gang."""

from __future__ import annotations

import json
import re
from typing import Any

from provisioning.errors import LabError
from provisioning.lab import Lab
from provisioning.slurmtypes import expand_hosts, parse_gres, parse_memory_mb
from provisioning.waiting import wait_for
from smoke.check import NotHere, Step, check
from smoke.slurm import Slurm

PARTITION = "gpu"
SMALL = ("--partition", PARTITION, "--cpus-per-task=1", "--mem=1G", "--time=5")
#: What train.slurm asks for.
ASKED = {"cpu": "8", "mem": "32G", "gres/gpu": "1"}


def gpus_of(gres: str) -> int:
    """GPUs of one node with this Gres."""
    return sum(one.count for one in parse_gres(gres) if one.name == "gpu")


class SlurmLane:
    """State of the lane: the jobs it has submitted."""

    def __init__(self, slurm: Slurm, lab: Lab) -> None:
        """Nothing is run here."""
        self.slurm = slurm
        self.lab = lab
        self.train = ""
        self.probe_id = ""
        self.probe: dict[str, Any] = {}
        self.record: dict[str, str] = {}

    def steps(self) -> list[Step]:
        """The steps in order: the training job is submitted first and looked at again at the end."""
        return [
            Step("sbatch", "a job id", self.submit, "S1"),
            Step("queue", "squeue knows it, AllocTRES has cpu=8, mem=32G, gres/gpu=1", self.queue, "S1", ("sbatch",)),
            Step("scancel", "a second job ends as CANCELLED", self.cancel, "S3"),
            Step("shared node", "two jobs on a node see the GPUs they were granted, none in common", self.share, "S9"),
            Step("srun -N2", "a step of two tasks starts on two nodes together", self.gang, "S6"),
            Step("train log", "logs/hello-gpu-ID.out: one GPU, a loss that falls", self.log, "S1", ("sbatch",)),
            Step("sacct", "COMPLETED 0:0 in accounting, with its GPU", self.account, "S3", ("sbatch",)),
            Step("slurm probe", "gpu_probe.py has one GPU under Slurm", self.run_probe, "B1"),
        ]  # fmt: skip

    def _gpu_nodes(self) -> list[tuple[int, int, int]]:
        """CPUs, memory in MB and GPUs of each node of the partition."""
        listed = [one.nodes for one in self.lab.partitions if one.name == PARTITION]
        if not listed:
            raise NotHere(f"the lab {self.lab.name} has no partition {PARTITION}")
        names = set() if listed[0] == "ALL" else set(expand_hosts(listed[0]))
        return [(kind.cpus, parse_memory_mb(kind.real_memory), gpus_of(kind.gres)) for kind in self.lab.nodes
                for name in expand_hosts(kind.name) if not names or name in names]  # fmt: skip

    def submit(self) -> str:
        """Sbatch train.slurm."""
        if not any(cpus >= 8 and memory >= 32 * 1024 and gpus for cpus, memory, gpus in self._gpu_nodes()):
            raise NotHere("train.slurm asks for a node with 8 CPUs, 32G and a GPU; this lab has none")
        self.train = self.slurm.submit("train.slurm")
        return f"job {self.train}"

    def queue(self) -> str:
        """Squeue and scontrol show job, as soon as it runs."""
        job = self.slurm.wait_state(self.train, ("RUNNING", "COMPLETING", "COMPLETED"))
        rows = self.slurm.queue("--states=all", "--jobs", self.train)
        look = f"scontrol show job {self.train}"
        check(len(rows) == 1 and rows[0]["name"] == "hello-gpu", f"squeue says {rows}", look)
        wrong = {name: job.tres.get(name) for name, value in ASKED.items() if job.tres.get(name) != value}
        check(not wrong, f"AllocTRES={job.fields.get('AllocTRES')}", look)
        return f"{rows[0]['state']} on {rows[0]['node_list']}, AllocTRES={job.fields['AllocTRES']}"

    def cancel(self) -> str:
        """Scancel a job that would run for five minutes."""
        job_id = self.slurm.submit(options=[*SMALL, "--job-name=second", "--output=/dev/null"], wrap="sleep 300")
        before = self.slurm.wait_state(job_id, ("RUNNING",))
        self.slurm.cancel(job_id)
        row = self.slurm.wait_recorded(job_id, ("CANCELLED",))
        return f"job {job_id}: {before} -> {row['State']} after {row['ElapsedRaw']} s"

    def share(self) -> str:
        """Two jobs with GPUs on one node at the same time."""
        most = max((gpus for _, _, gpus in self._gpu_nodes()), default=0)
        if most < 2:
            raise NotHere("no node has two GPUs")
        each = 2 if most >= 4 else 1
        options = [*SMALL, f"--gres=gpu:{each}", "--job-name=share", "--output=logs/share-%j.out"]
        jobs: list[str] = []
        node: list[str] = []
        for _ in range(2):
            jobs.append(self.slurm.submit(options=[*options, *node], wrap="python3 gpu_probe.py --hold 120"))
            node = [f"--nodelist={self.slurm.wait_state(jobs[-1], ('RUNNING',)).nodes[0]}"]
        seen = {job_id: self._probed(f"logs/share-{job_id}.out") for job_id in jobs}
        held = {job_id: self.slurm.job(job_id) for job_id in jobs}
        self.slurm.cancel(*jobs)
        look = f"scontrol show job -d {jobs[0]}; logs/share-{jobs[0]}.out"
        for job_id, job in held.items():
            granted = [str(index) for index in job.grants.get(job.nodes[0], ())]
            gpus = seen[job_id]["gpus"]
            text = f"job {job_id} sees GPUs {gpus}, was granted {granted}, asked for {each}"
            check(gpus == granted and len(granted) == each, text, look)
        first, second = (seen[job_id] for job_id in jobs)
        check(first["host"] == second["host"] and not set(first["gpus"]) & set(second["gpus"]),
              f"{first['host']} {first['gpus']} and {second['host']} {second['gpus']}", look)  # fmt: skip
        return f"on {first['host']}: " + " and ".join(f"CUDA_VISIBLE_DEVICES={one['CUDA_VISIBLE_DEVICES']}"
                                                      for one in (first, second))  # fmt: skip

    def gang(self) -> str:
        """Srun on two nodes."""
        if len(self._gpu_nodes()) < 2:
            raise NotHere("the lab has one node")
        options = [*SMALL, "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--job-name=gang"]
        answer = self.slurm.run("bash", "-c", "echo $SLURM_JOB_ID $SLURMD_NODENAME $(date +%s.%N)", options=options)
        rows = [line.split() for line in answer.splitlines() if len(line.split()) == 3]
        hosts = sorted({host for _, host, _ in rows})
        check(len(rows) == len(hosts) == 2, f"srun printed {answer!r}", "sinfo; make logs NODE=slurmctld")
        starts = [float(at) for _, _, at in rows]
        apart_s = max(starts) - min(starts)
        check(apart_s < 2, f"{hosts} started {apart_s:.1f} s apart", "make logs NODE=slurmctld")
        return f"job {rows[0][0]} on {' and '.join(hosts)}, started {apart_s * 1000:.0f} ms apart"

    def log(self) -> str:
        """The training job's log."""
        self.slurm.wait_state(self.train, ("COMPLETED",), timeout_s=40)
        path = f"logs/hello-gpu-{self.train}.out"
        text = self.slurm.login.read(path)
        losses = [float(value) for value in re.findall(r"loss (\d+\.\d+)", text)]
        gpus = self._probed(path)["gpus"]
        check(len(gpus) == 1, f"the job sees GPUs {gpus}", path)
        check(len(losses) > 1 and losses[-1] < losses[0], f"losses {losses}", path)
        return f"{path}: CUDA_VISIBLE_DEVICES={gpus[0]}, loss {losses[0]:.3f} -> {losses[-1]:.3f}"

    def account(self) -> str:
        """The training job's accounting record."""
        row = self.slurm.wait_recorded(self.train)
        tres = row["AllocTRES"].split(",")
        good = row["State"] == "COMPLETED" and row["ExitCode"] == "0:0" and "gres/gpu=1" in tres
        check(good, f"{row['State']} {row['ExitCode']} {row['AllocTRES']}", f"sacct -j {self.train}")
        return f"job {self.train}: {row['State']} {row['ExitCode']}, {row['ElapsedRaw']} s, {row['AllocTRES']}"

    def run_probe(self) -> str:
        """The probe as a batch job."""
        options = [*SMALL, "--gres=gpu:1", "--job-name=probe", "--output=logs/%x-%j.out"]
        self.probe_id = self.slurm.submit(options=options, wrap="python3 gpu_probe.py")
        self.record = self.slurm.wait_recorded(self.probe_id)
        path = f"logs/probe-{self.probe_id}.out"
        check(self.record["State"] == "COMPLETED", f"job {self.probe_id} is {self.record['State']}", path)
        probe = self._probed(path)
        check(probe["scheduler"] == "slurm" and len(probe["gpus"]) == 1, f"{probe}", path)
        self.probe = probe
        return f"job {self.probe_id} on {probe['host']}: CUDA_VISIBLE_DEVICES={probe['CUDA_VISIBLE_DEVICES']}"

    def _probed(self, path: str) -> dict[str, Any]:
        """What gpu_probe.py printed into a log, as soon as it is there: the log is written on another node."""

        def line() -> str:
            return next((one for one in self.slurm.login.read(path).splitlines() if one.startswith("{")), "")

        try:
            text = wait_for(f"a line of gpu_probe.py in {path}", line, timeout_s=20, look_at=path)
        except LabError as error:
            raise LabError(f"{error.what}; the log says: {self.slurm.login.read(path)[-300:]!r}", path) from error
        found: dict[str, Any] = json.loads(text)
        return found
