"""Never twice: which GPUs are held by two, used without a grant, or granted and not visible. Pure: facts in, finds out.

A GPU of a Slurm node belongs to the job that scontrol names with its index (GRES IDX). A GPU of a container of the
standing Ray set belongs to that Ray, whose API names the worker process it gave it to. Everything else that takes one,
a process or another Ray, takes it without a grant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from smoke.slurm import Job, parse_indices

#: States in which a job has its GPUs, or is giving them back.
HOLDING = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "CONFIGURING", "SIGNALING", "STAGE_OUT"})
TWICE, NO_GRANT, NOT_VISIBLE = "held twice", "used without a grant", "granted and not visible"


def parse_visible(text: str | None) -> tuple[int, ...]:
    """The GPUs in CUDA_VISIBLE_DEVICES, read as CUDA does: up to the first entry that is no index."""
    found: list[int] = []
    for part in (text or "").split(","):
        if not part.strip().isdigit():
            break
        found.append(int(part))
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Find:
    """One (node, GPU) pair with something wrong, and who has to do with it."""

    kind: str
    node: str
    gpu: int
    what: str
    advice: str
    #: who it is, so that two readings can be compared: process ids with their start, or job ids
    who: tuple[str, ...]
    #: the find rests on what a Ray dashboard said, which may be that old
    stale_s: float = 0

    @property
    def unsure(self) -> bool:
        """Whether Ray's API has not spoken of the task yet."""
        return bool(self.stale_s) and not self.who[-1]

    @property
    def key(self) -> tuple[str, int, tuple[str, ...]]:
        """What must be the same in two readings."""
        return (self.node, self.gpu, self.who)


@dataclass(frozen=True)
class Raylet:
    """Ray on one node, as its command line says."""

    node_id: str
    gcs: str
    gpus: int


@dataclass(frozen=True)
class Process:
    """One process in a container; ``start`` and ``now`` are its CUDA_VISIBLE_DEVICES, None without."""

    pid: int
    ppid: int
    uid: int
    started: str
    title: str
    start: str | None = None
    now: str | None = None
    now_known: bool = False
    job: str = ""
    step: str = ""
    step_gpus: str = ""
    is_srun: bool = False
    raylet: Raylet | None = None

    @property
    def sees(self) -> tuple[int, ...]:
        """The GPUs that it sees now, as far as one can tell."""
        return parse_visible(self.now if self.now_known else self.start)

    @property
    def who(self) -> str:
        """Its identity: process ids are used again."""
        return f"{self.pid}@{self.started}"


def process(row: Mapping[str, Any]) -> Process:
    """A process as audit_agent.py reports it."""
    ray, step = row.get("raylet"), row.get("SLURM_STEP_ID", "")
    return Process(
        row["pid"], row["ppid"], row["uid"], row["started"], row["title"], row["start"], row.get("now"), "now" in row,
        # the batch script is no step, or one with a negative number, as the Slurm may be
        row.get("SLURM_JOB_ID", ""), "" if step.startswith("-") else step, row.get("SLURM_STEP_GPUS", ""),
        row.get("srun", False), Raylet(ray["node"], ray["gcs"], ray["gpus"]) if ray else None,
    )  # fmt: skip


@dataclass(frozen=True)
class Belief:
    """What a Ray cluster's API says about one of its nodes: GPUs in all, and those of each worker process.

    With the GPUs comes what the worker was at: the same words in two readings are the same task or actor.
    """

    gpus: int
    workers: Mapping[int, tuple[tuple[int, ...], str]]
    stale_s: float


@dataclass
class Reading:
    """One look at the whole lab."""

    jobs: Sequence[Job]
    #: by container: nodes of Slurm, and those of the standing Ray set
    slurm_nodes: Mapping[str, Sequence[Process]]
    ray_nodes: Mapping[str, Sequence[Process]]
    #: by Ray's node id
    beliefs: Mapping[str, Belief]
    users: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def holding(self) -> list[Job]:
        """Jobs that have GPUs."""
        return [job for job in self.jobs if job.state in HOLDING]

    def finds(self) -> list[Find]:
        """Everything wrong in this reading; some of it may only be a job that was starting or ending."""
        found: list[Find] = []
        for name, rows in self.slurm_nodes.items():
            here = _Node(self, name, rows, [job for job in self.holding if name in job.grants or name in job.nodes])
            found += [*here.twice(), *here.taken(), *here.not_visible()]
        for name, rows in self.ray_nodes.items():
            here = _Node(self, name, rows, [])
            found += [*here.twice(), *here.taken()]
        return found


class _Node:
    """One container in one reading."""

    def __init__(self, reading: Reading, name: str, processes: Sequence[Process], jobs: Sequence[Job]) -> None:
        self.reading, self.name, self.jobs = reading, name, jobs
        self.processes = {one.pid: one for one in processes}
        for one in processes:  # an environment can be wiped, or written over by a title: the job is the parent's then
            job_id = next((above.job for above in self._above(one) if above.job), "")
            self.processes[one.pid] = replace(one, job=job_id)
        #: whose each GPU is: (identity, words)
        self.owners: dict[int, list[tuple[str, str]]] = {}
        for job in jobs:
            for gpu in (*job.grants.get(name, ()), *job.shares.get(name, ())):
                self.owners.setdefault(gpu, []).append((f"job {job.id}", self._job_words(job)))
        for one in self.processes.values():
            if self._is_standing(one):
                for gpu in self.claims(one):
                    owner = (one.who, f"the standing Ray (raylet {one.pid})")
                    self.owners.setdefault(gpu, []).append(owner)

    # -- who is who

    @staticmethod
    def _job_words(job: Job) -> str:
        return f"job {job.id} of {job.fields.get('UserId', '?').partition('(')[0]}"

    def _words(self, one: Process) -> str:
        user = self.reading.users.get(one.uid, str(one.uid))
        where = f"in job {one.job}" if one.job else "in no job"
        return f"process {one.pid} of {user} ({one.title[:30].strip()}), {where}"

    def _is_standing(self, one: Process) -> bool:
        if not one.raylet or self.name not in self.reading.ray_nodes:
            return False
        own_head = self.name == "ray-head" and one.raylet.gcs.endswith(":6379")
        return own_head or one.raylet.gcs == "ray-head:6379"

    def granted(self, job_id: str) -> set[int]:
        """GPUs of this node that a job has, or has shards of; those of all parts of a heterogeneous one."""
        mine = [job for job in self.jobs if job_id in (job.id, job.fields.get("HetJobId"))]
        return {gpu for job in mine for grants in (job.grants, job.shares) for gpu in grants.get(self.name, ())}

    def _is_ending(self, job_id: str) -> bool:
        return any(job.id == job_id and job.state != "RUNNING" for job in self.jobs)

    def claims(self, one: Process) -> tuple[int, ...]:
        """The GPUs that a raylet gives out: those that it sees, in order, or the first ones."""
        assert one.raylet
        belief = self.reading.beliefs.get(one.raylet.node_id)
        count = belief.gpus if belief else one.raylet.gpus
        return parse_visible(one.start)[:count] if one.start is not None else tuple(range(count))

    def _above(self, one: Process) -> Iterator[Process]:
        """A process and those that started it."""
        seen: set[int] = set()
        here: Process | None = one
        while here and here.pid not in seen:
            yield here
            seen.add(here.pid)
            here = self.processes.get(here.ppid)

    def ray_of(self, one: Process) -> tuple[Process | None, Process | None]:
        """The raylet that a process descends from, and the worker between them (or itself)."""
        below = None
        for here in self._above(one):
            if here.raylet:
                return here, below
            below = here
        return None, None

    def given(self, raylet: Process, worker: Process) -> tuple[set[int] | None, float]:
        """The GPUs that Ray gave to a worker, and how old that may be; None if its API does not say."""
        assert raylet.raylet
        belief = self.reading.beliefs.get(raylet.raylet.node_id)
        if belief is None or worker.pid not in belief.workers:
            return None, belief.stale_s if belief else 0
        claims = self.claims(raylet)
        return {claims[slot] for slot in belief.workers[worker.pid][0] if slot < len(claims)}, belief.stale_s

    def task_of(self, one: Process) -> str:
        """What Ray says that the worker of a process is at."""
        raylet, worker = self.ray_of(one)
        belief = self.reading.beliefs.get(raylet.raylet.node_id) if raylet and raylet.raylet else None
        return belief.workers.get(worker.pid, ((), ""))[1] if belief and worker else ""

    # -- the three kinds

    def twice(self) -> Iterator[Find]:
        """GPUs with two owners; those that all have a GPU's shards share it by Slurm's leave."""
        shares = Counter(gpu for job in self.jobs for gpu in job.shares.get(self.name, ()))
        for gpu, owners in sorted(self.owners.items()):
            if len(owners) > 1 and shares[gpu] < len(owners):
                words, who = " and ".join(words for _, words in owners), tuple(sorted(who for who, _ in owners))
                yield Find(TWICE, self.name, gpu, words, "end one of them: scancel a job, kill a raylet", who)

    def taken(self) -> Iterator[Find]:
        """GPUs that a Ray or a process takes although they are not its own."""
        takers: dict[int, set[int]] = {}
        for one in sorted(self.processes.values(), key=lambda one: int(one.started)):
            extra, words, advice, stale_s = self._extra(one)
            takers[one.pid] = set(extra)
            for gpu in sorted(extra):
                if not one.raylet and gpu in takers.get(one.ppid, ()):
                    continue  # it has this from the process that started it
                others = [who for who in self._others(one, gpu) if who]
                kind = TWICE if others else NO_GRANT
                who = (one.who, self.task_of(one)) if stale_s else (one.who,)
                yield Find(kind, self.name, gpu, " and ".join([*others, words]), advice, who, stale_s)

    def _extra(self, one: Process) -> tuple[Collection[int], str, str, float]:
        """GPUs that a process has and must not have; who it is, what to do, and how old Ray's word on it may be."""
        own = self.granted(one.job) if one.job else set()
        ending = bool(one.job) and self._is_ending(one.job)
        if one.raylet:
            words = f"Ray at {one.raylet.gcs} ({self._words(one)})"
            advice = f"kill {one.pid} in {self.name}; ray_on_slurm.slurm starts a Ray that has what its job has"
            return () if ending or self._is_standing(one) else set(self.claims(one)) - own, words, advice, 0
        raylet, worker = self.ray_of(one)
        if raylet and worker:
            return self._extra_under_ray(one, raylet, worker)
        advice = f"kill {one.pid} in {self.name}; srun --gres=gpu:N starts it with GPUs of its own"
        return () if ending else set(one.sees) - own, self._words(one), advice, 0

    def _extra_under_ray(self, one: Process, raylet: Process,
                         worker: Process) -> tuple[Collection[int], str, str, float]:  # fmt: skip
        claims, (given, stale_s) = set(self.claims(raylet)), self.given(raylet, worker)
        words, sees = f"Ray's {self._words(one)}", set(one.sees)
        from_env = one is worker and one.start != raylet.start
        if one.title.startswith("ray::IDLE") or (one is worker and not from_env and not one.now_known):
            return (), words, "", 0
        if given is None:
            # Ray's API may not know a task yet that has just begun (its agents it never names)
            begun = one is worker and one.title.startswith("ray::") and not one.title.endswith("Agent")
            extra = sees - claims or (sees if begun and stale_s else set())
            advice = "take CUDA_VISIBLE_DEVICES out of its runtime_env"
            return extra, words, advice, 0 if sees - claims else stale_s
        words += f", whom Ray gave {'GPU ' + ', '.join(map(str, sorted(given))) if given else 'none'}"
        if from_env:
            advice = "take CUDA_VISIBLE_DEVICES out of the task's runtime_env, and ask with num_gpus="
        elif not given:
            advice = "set RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=1 before ray start, and ask with num_gpus="
        else:
            advice = "the task must not set CUDA_VISIBLE_DEVICES: ask with num_gpus="
        extra = sees - given
        return extra, words, advice, 0 if extra - claims else stale_s

    def _others(self, one: Process, gpu: int) -> Iterator[str]:
        """Who else has a GPU, in words: its owner if that is somebody else, and a Ray worker that it was given to."""
        raylet, worker = self.ray_of(one)
        own = {f"job {job.id}" for job in self.jobs if one.job and one.job in (job.id, job.fields.get("HetJobId"))}
        own |= {raylet.who} if raylet else set()
        yield from (words for who, words in self.owners.get(gpu, ()) if who not in own)
        for other in self.processes.values():
            other_raylet, other_worker = self.ray_of(other)
            if raylet and other_raylet is raylet and other is other_worker and other is not worker:
                given, _ = self.given(raylet, other)
                if given and gpu in given:
                    yield f"Ray's {self._words(other)}"

    def _seen(self, rows: Iterable[Process]) -> set[int]:
        return {gpu for one in rows for gpu in (self.claims(one) if one.raylet else one.sees)}

    def not_visible(self) -> Iterator[Find]:
        """GPUs of a job that none of its working processes can see. A job without a process here does not count."""
        for job in self.jobs:
            mine = [one for one in self.processes.values() if one.job == job.id]
            busy = {one.ppid for one in mine}
            leaves = [one for one in mine if one.pid not in busy or one.raylet]  # a raylet gives out what it sees
            if job.state != "RUNNING" or not leaves:
                continue
            missing: set[int] = set()
            if any(not one.step for one in mine):  # the batch script is here, and with it all of the job's GPUs
                missing = self.granted(job.id) - self._seen(leaves)
            for step in {one.step for one in leaves if one.step}:
                rows = [one for one in leaves if one.step == step]
                has = {gpu for one in rows for gpu in parse_indices(one.step_gpus)}
                if not has & self._seen(rows):
                    missing |= has
            for gpu in sorted(missing):
                yield Find(NOT_VISIBLE, self.name, gpu, f"no process of {self._job_words(job)} sees it",
                           "the job's script hides it (CUDA_VISIBLE_DEVICES), or asked for more than it uses",
                           (f"job {job.id}",))  # fmt: skip


def agreed(first: Iterable[Find], second: Iterable[Find]) -> list[Find]:
    """The finds of the second reading that the first one has too."""
    before = {find.key for find in first}
    return [find for find in second if find.key in before]


def lines(finds: Iterable[Find]) -> list[str]:
    """One line for finds that differ in the GPU only."""
    groups: dict[tuple[str, str, str, str], list[int]] = {}
    for find in finds:
        groups.setdefault((find.node, find.kind, find.what, find.advice), []).append(find.gpu)
    return [f"{node} GPU {','.join(map(str, sorted(set(gpus))))}: {kind}: {what}; {advice}"
            for (node, kind, what, advice), gpus in groups.items()]  # fmt: skip
