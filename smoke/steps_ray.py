"""The Ray lane of the smoke run: a task, GPUs, a placement group, a submitted job; then both schedulers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from provisioning.lab import Lab
from smoke.check import NotHere, Step, check
from smoke.ray import FINAL, RayUser, json_lines
from smoke.steps_slurm import SlurmLane

LOOK = "make logs NODE=ray-head"


class RayLane:
    """State of the lane: the jobs it has submitted."""

    def __init__(self, ray: RayUser, lab: Lab) -> None:
        """Nothing is run here."""
        self.ray = ray
        self.lab = lab
        self.train = ""
        self.probe_id = ""
        self.probe: dict[str, Any] = {}
        self.record: dict[str, Any] = {}

    def steps(self) -> list[Step]:
        """The steps in order: both jobs are submitted first and looked at when the drivers have run."""
        return [
            Step("ray job submit", "a submission id, and the client goes away", self.submit, "R3"),
            Step("ray hello", "a task runs on a worker", self.hello, "R1"),
            Step("ray gpus", "num_gpus=1: different GPUs; 0.5 twice: one; 0.6 twice: two; 0: none; 1.5: refused",
                 self.gpus, "R2 R6"),
            Step("placement group", "two bundles: CREATED; 999 CPUs: PENDING, INFEASIBLE, nothing reserved",
                 self.placement, "R4"),
            Step("ray job logs", "SUCCEEDED with exit code 0, its loss in the log, its line in the list", self.job,
                 "R3", ("ray job submit",)),
            Step("ray probe", "gpu_probe.py has one GPU under Ray", self.run_probe, "B1", ("ray job submit",)),
        ]  # fmt: skip

    def submit(self) -> str:
        """Two jobs from the working directory: the training and the probe."""
        workers = self.lab.ray.workers
        if not workers.count or workers.cpus < 1:
            raise NotHere("the lab has no Ray worker with a CPU")
        self.train = self.ray.job_submit("python", "train.py", "--epochs", "1", options=("--entrypoint-num-cpus", "1"),
                                         name="train")  # fmt: skip
        if workers.gpus:
            self.probe_id = self.ray.job_submit("python", "gpu_probe.py", options=("--entrypoint-num-gpus", "1"),
                                                name="probe")  # fmt: skip
        return " and ".join(filter(None, (self.train, self.probe_id)))

    def hello(self) -> str:
        """ray_hello.py."""
        answer = self.ray.run("ray_hello.py").stdout
        said = next((line for line in answer.splitlines() if line.startswith("hello ")), "")
        on_worker = any(f"this is {name} " in said for name in self.ray.cluster.ray_workers())
        check(f"hello {self.ray.login.user}," in said and on_worker, f"it printed {answer!r}", LOOK)
        return said

    def gpus(self) -> str:
        """ray_gpu.py."""
        if self.lab.ray.workers.gpus < 5:
            raise NotHere("ray_gpu.py needs five GPUs on one Ray worker")
        rows = {row["task"]: row for row in json_lines(self.ray.run("ray_gpu.py").stdout)}
        refused = rows.pop("refused", {})
        where = {name: (row["host"], row["ids"], row["CUDA_VISIBLE_DEVICES"]) for name, row in rows.items()}
        told = all(",".join(ids) == (visible or "") for _, ids, visible in where.values())
        check(len(rows) == 7 and told, f"ray.get_gpu_ids and CUDA_VISIBLE_DEVICES: {where}", LOOK)
        check(where["whole-1"] != where["whole-2"], f"both whole GPUs are {where['whole-1']}", LOOK)
        check(where["half-1"] == where["half-2"], f"the halves are {where['half-1']} and {where['half-2']}", LOOK)
        halves = where["half-1"]
        check(halves not in (where["whole-1"], where["whole-2"]), f"a half lies on a whole one: {where}", LOOK)
        check(where["most-1"] != where["most-2"], f"0.6 and 0.6 share {where['most-1']}", LOOK)
        check("error" in refused, f"num_gpus=1.5 is not refused: {refused}", LOOK)
        check(not rows["none"]["ids"], f"num_gpus=0 sees {where['none']}", LOOK)
        shown = {name: f"{host}:{','.join(ids)}" for name, (host, ids, _) in where.items()}
        return f"whole {shown['whole-1']} and {shown['whole-2']}, halves both {shown['half-1']}, 0 none, 1.5 refused"

    def placement(self) -> str:
        """ray_pg_demo.py; it counts free CPUs, so the submitted jobs must have given theirs back."""
        for job_id in self.ray.submitted:
            self.ray.wait_job(job_id, sorted(FINAL))
        rows = {row["group"]: row for row in json_lines(self.ray.run("ray_pg_demo.py").stdout)}
        check(set(rows) == {"fits", "over", "after"}, f"it printed {rows}", LOOK)
        fits, over, after = rows["fits"], rows["over"], rows["after"]
        check(fits["ready"] and fits["state"] == "CREATED" and fits["nodes"] == 1, f"{fits}", LOOK)
        check(not over["ready"] and (over["state"], over["scheduling"]) == ("PENDING", "INFEASIBLE"), f"{over}", LOOK)
        check(over["free"][0] == over["free"][1], f"free CPUs before and during the over-ask: {over['free']}", LOOK)
        check(after["free"][0] == after["free"][1], f"free CPUs before and after: {after['free']}", LOOK)
        free = fits["free"]
        return (f"two bundles CREATED on one node ({free[0]:g} -> {free[1]:g} CPUs free); 999 CPUs: wait(5) False, "
                f"PENDING, INFEASIBLE, still {over['free'][1]:g} free")  # fmt: skip

    def job(self) -> str:
        """Status, logs and list of the submitted training."""
        job = self.ray.wait_job(self.train)
        text = self.ray.job_cli("logs", self.train)
        check(job["driver_exit_code"] == 0 and "epoch 1/1  loss" in text, f"{job['status']}, log {text[-300:]!r}", LOOK)
        listed = self.ray.job_cli("list")
        check(self.train in listed, f"ray job list has no {self.train}", LOOK)
        loss = next(line for line in text.splitlines() if line.startswith("epoch 1/1"))
        return f"{self.train}: {job['status']}, exit code 0, log: {loss}"

    def run_probe(self) -> str:
        """The probe as a submitted job."""
        if not self.probe_id:
            raise NotHere("the Ray workers have no GPUs")
        self.record = self.ray.wait_job(self.probe_id)
        text = self.ray.job_cli("logs", self.probe_id)
        found = json_lines(text)
        right = len(found) == 1 and found[0]["scheduler"] == "ray" and len(found[0]["gpus"]) == 1
        # Ray answers with an empty log where the job's record names no agent to ask
        agent = self.record["driver_agent_http_address"]
        check(right, f"{found or text[-500:]!r}, read from {agent}", f"ray job logs {self.probe_id}")
        self.probe = found[0]
        return f"{self.probe_id} on {found[0]['host']}: CUDA_VISIBLE_DEVICES={found[0]['CUDA_VISIBLE_DEVICES']}"


def side_by_side(slurm: SlurmLane, ray: RayLane) -> list[tuple[str, str, str]]:
    """The life of gpu_probe.py under both schedulers, from their own records: what, under Slurm, under Ray."""
    batch, job = slurm.record, ray.record
    begin, start, end = (float(batch[name]) for name in ("Submit", "Start", "End"))
    started, ended = job["start_time"] / 1000, job["end_time"] / 1000

    def clock(at: float) -> str:
        return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")

    return [
        ("submit", "sbatch --gres=gpu:1 --wrap 'python3 gpu_probe.py'",
         "ray job submit --entrypoint-num-gpus 1 -- python gpu_probe.py"),
        ("id", slurm.probe_id, ray.probe_id),
        ("look", "squeue, scontrol show job", "ray job status, ray job list"),
        ("times (UTC)", f"submitted {clock(begin)}, started {clock(start)}, ended {clock(end)}",
         f"submitted {clock(started)}, ended {clock(ended)}"),
        ("host", str(slurm.probe["host"]), str(ray.probe["host"])),
        ("CUDA_VISIBLE_DEVICES", str(slurm.probe["CUDA_VISIBLE_DEVICES"]), str(ray.probe["CUDA_VISIBLE_DEVICES"])),
        ("GPU device files", f"{len(slurm.probe['devices'])} open", f"{len(ray.probe['devices'])} open (Ray counts)"),
        ("output", f"logs/probe-{slurm.probe_id}.out", "ray job logs"),
        ("stop", "scancel", "ray job stop"),
        ("end", f"{batch['State']}, exit code {batch['ExitCode']}",
         f"{job['status']}, exit code {job['driver_exit_code']}"),
        ("record", "sacct: in the database", "job API: in the head's storage"),
    ]  # fmt: skip
