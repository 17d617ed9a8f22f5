"""Never twice: what one reading of a lab says, and what two readings agree on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from provisioning.errors import LabError
from smoke import audit as audit_module
from smoke import audit_agent
from smoke.audit import as_json, audit, belief
from smoke.audit_agent import option, slots, task
from smoke.audit_find import (
    NO_GRANT,
    NOT_VISIBLE,
    TWICE,
    Belief,
    Find,
    Process,
    Raylet,
    Reading,
    agreed,
    lines,
    parse_visible,
    process,
)
from smoke.slurm import Job

#: A Ray inside job 1 of alice, which has GPU 4 and 5 of c1: raylet, a worker with GPU 5, and its child.
RAYLET = Process(20, 10, 2001, "20", "raylet", start="4,5", job="1", raylet=Raylet("node-1", "10.0.0.1:6000", 2))
WORKER = Process(30, 20, 2001, "30", "ray::train", start="4,5", now="5", now_known=True, job="1")
CHILD = Process(31, 30, 2001, "31", "sleep", start="5", job="1")
BATCH = Process(10, 1, 2001, "10", "bash script", start="4,5", job="1")


def job(number: int, gpus: Sequence[int], node: str = "c1", state: str = "RUNNING", user: str = "alice") -> Job:
    fields = {"JobId": str(number), "JobState": state, "UserId": f"{user}(2001)", "NodeList": node}
    return Job(fields, {node: tuple(gpus)} if gpus else {})


def reading(*processes: Process, jobs: Sequence[Job] = (), ray: bool = False,
            workers: dict[int, tuple[tuple[int, ...], str]] | None = None, node: str = "c1") -> Reading:  # fmt: skip
    beliefs = {} if workers is None else {"node-1": Belief(2, workers, 2)}
    nodes = {node: processes}
    return Reading(jobs, {} if ray else nodes, nodes if ray else {}, beliefs, {2001: "alice", 2002: "bob"})


def told(one: Reading) -> list[tuple[str, int]]:
    return [(find.kind, find.gpu) for find in one.finds()]


@pytest.mark.parametrize(
    ("text", "gpus"),
    [(None, ()), ("", ()), ("NoDevFiles", ()), ("0", (0,)), ("3, 1", (3, 1)), ("0,-1,2", (0,)), ("1,1", (1,)),
     ("GPU-8932f937,2", ())],
)  # fmt: skip
def test_cuda_visible_devices_as_cuda_reads_it(text: str | None, gpus: tuple[int, ...]) -> None:
    assert parse_visible(text) == gpus


def test_a_job_with_its_own_gpus_is_clean() -> None:
    assert told(reading(BATCH, jobs=[job(1, [4, 5])])) == []


def test_jobs_with_shards_of_a_gpu_share_it_but_with_no_job_that_has_it_whole() -> None:
    mine, theirs = (replace(job(number, []), shares={"c1": (4, 5)}) for number in (1, 2))
    assert told(reading(BATCH, jobs=[mine, theirs])) == []
    assert told(reading(BATCH, jobs=[mine, theirs, job(3, [5])])) == [(TWICE, 5)]
    assert told(reading(BATCH, jobs=[replace(mine, shares={"c1": (4,)}), theirs])) == [(TWICE, 5)]
    assert told(reading(replace(BATCH, start="4"), jobs=[mine])) == [(NOT_VISIBLE, 5)]


def test_a_process_in_no_job() -> None:
    by_hand = Process(7, 1, 2002, "7", "python train.py", start="3")
    (find,) = reading(by_hand, jobs=[job(1, [4])]).finds()
    assert (find.kind, find.node, find.gpu) == (NO_GRANT, "c1", 3)
    assert find.what == "process 7 of bob (python train.py), in no job"
    assert "kill 7 in c1" in find.advice


def test_a_process_on_a_gpu_of_somebodys_job() -> None:
    (find,) = reading(Process(7, 1, 2002, "7", "python", start="4", job="9"), jobs=[job(1, [4])]).finds()
    assert (find.kind, find.gpu) == (TWICE, 4)
    assert find.what == "job 1 of alice and process 7 of bob (python), in job 9"


def test_a_job_that_takes_more_than_it_has() -> None:
    wide = replace(BATCH, start="4,5,6")
    assert told(reading(wide, jobs=[job(1, [4, 5])])) == [(NO_GRANT, 6)]


def test_children_are_not_told_again_and_a_wiped_environment_keeps_its_job() -> None:
    mother = Process(7, 1, 2002, "7", "bash", start="3")
    assert told(reading(mother, Process(8, 7, 2002, "8", "sleep", start="3"))) == [(NO_GRANT, 3)]
    wiped = Process(11, 10, 2001, "11", "ray-dashboard", start="4,5")
    assert told(reading(BATCH, wiped, jobs=[job(1, [4, 5])])) == []


def test_what_a_process_has_now_counts_more_than_its_start() -> None:
    changed = Process(7, 1, 2002, "7", "python", start="", now="2", now_known=True)
    assert told(reading(changed)) == [(NO_GRANT, 2)]
    assert told(reading(replace(changed, start="2", now=None))) == []


def test_processes_of_a_job_that_is_ending_are_left_alone() -> None:
    assert told(reading(BATCH, jobs=[job(1, [], state="COMPLETING")])) == []
    assert told(reading(BATCH, jobs=[job(1, [], state="COMPLETED")])) == [(NO_GRANT, 4), (NO_GRANT, 5)]


def test_all_parts_of_a_heterogeneous_job() -> None:
    parts = [job(1, [4]), Job({**job(2, [5]).fields, "HetJobId": "1"}, {"c1": (5,)})]
    assert told(reading(BATCH, jobs=parts)) == []


def test_two_jobs_with_one_gpu() -> None:
    (find,) = reading(jobs=[job(1, [4]), job(2, [4], user="bob")]).finds()
    assert (find.kind, find.what) == (TWICE, "job 1 of alice and job 2 of bob")


def test_a_ray_inside_a_job_is_clean() -> None:
    one = reading(BATCH, RAYLET, WORKER, CHILD, jobs=[job(1, [4, 5])], workers={30: ((1,), "1")})
    assert told(one) == []


def test_a_second_ray_started_by_hand() -> None:
    by_hand = Process(50, 1, 2002, "50", "raylet", raylet=Raylet("node-2", "10.0.0.1:7000", 2))
    finds = reading(by_hand, jobs=[job(1, [1])]).finds()
    assert [(find.kind, find.gpu) for find in finds] == [(NO_GRANT, 0), (TWICE, 1)]
    assert finds[0].what.startswith("Ray at 10.0.0.1:7000 (process 50 of bob")
    inside = replace(by_hand, job="1")
    assert told(reading(inside, jobs=[job(1, [1])])) == [(NO_GRANT, 0)]


def test_the_standing_set_and_a_second_ray_beside_it() -> None:
    standing = Process(6, 1, 1000, "6", "raylet", raylet=Raylet("node-1", "ray-head:6379", 2))
    assert told(reading(standing, ray=True, node="ray-worker-1")) == []
    joined = replace(standing, pid=9, started="9", raylet=Raylet("node-2", "ray-head:6379", 1))
    assert told(reading(standing, joined, ray=True, node="ray-worker-1")) == [(TWICE, 0)]
    other = replace(joined, raylet=Raylet("node-2", "10.0.0.9:6379", 3))
    assert told(reading(standing, other, ray=True, node="ray-worker-1")) == [(TWICE, 0), (TWICE, 1), (NO_GRANT, 2)]


def test_a_runtime_env_that_escapes() -> None:
    away = replace(WORKER, start="7", now="7")
    (find,) = reading(BATCH, RAYLET, away, jobs=[job(1, [4, 5])], workers={30: ((1,), "1")}).finds()
    assert (find.kind, find.gpu, find.stale_s) == (NO_GRANT, 7, 0)
    assert "whom Ray gave GPU 5" in find.what and "runtime_env" in find.advice
    neighbour = job(2, [7], user="bob")
    assert told(reading(BATCH, RAYLET, away, jobs=[job(1, [4, 5]), neighbour], workers={30: ((1,), "1")})) == [
        (TWICE, 7)
    ]


def test_a_task_without_gpus_that_sees_some() -> None:
    idle_gpu = replace(WORKER, now="4,5")
    finds = reading(BATCH, RAYLET, idle_gpu, jobs=[job(1, [4, 5])], workers={30: ((), "1")}).finds()
    assert [(find.kind, find.gpu) for find in finds] == [(NO_GRANT, 4), (NO_GRANT, 5)]
    assert "whom Ray gave none" in finds[0].what and "OVERRIDE_ON_ZERO" in finds[0].advice
    assert finds[0].stale_s == 2, "Ray's word may be old: it is asked again"
    other = replace(WORKER, pid=40, started="40", now="5", title="ray::other")
    finds = reading(BATCH, RAYLET, WORKER, replace(other, now="4,5"), jobs=[job(1, [4, 5])],
                    workers={30: ((1,), "1"), 40: ((), "1")}).finds()  # fmt: skip
    assert [(find.kind, find.gpu) for find in finds] == [(NO_GRANT, 4), (TWICE, 5)]


def test_workers_that_do_nothing_or_cannot_be_looked_into() -> None:
    jobs, workers = [job(1, [4, 5])], {30: ((), "1")}
    idle = replace(WORKER, title="ray::IDLE", now="4,5")
    assert told(reading(BATCH, RAYLET, idle, jobs=jobs, workers=workers)) == []
    closed = replace(WORKER, now=None, now_known=False)
    assert told(reading(BATCH, RAYLET, closed, jobs=jobs, workers=workers)) == []
    assert told(reading(BATCH, RAYLET, WORKER, jobs=jobs)) == [], "its API does not answer"


def test_a_task_that_ray_does_not_know_yet_is_not_sure() -> None:
    finds = reading(BATCH, RAYLET, WORKER, jobs=[job(1, [4, 5])], workers={}).finds()
    assert [find.unsure for find in finds] == [True]
    agent = replace(WORKER, title="ray::DashboardAgent")
    assert told(reading(BATCH, RAYLET, agent, jobs=[job(1, [4, 5])], workers={})) == []


def test_granted_and_not_visible() -> None:
    hidden = Process(11, 10, 2001, "11", "sleep", start="", job="1")
    assert told(reading(BATCH, hidden, jobs=[job(1, [4, 5])])) == [(NOT_VISIBLE, 4), (NOT_VISIBLE, 5)]
    assert told(reading(BATCH, replace(hidden, start="4"), jobs=[job(1, [4, 5])])) == [(NOT_VISIBLE, 5)]
    assert told(reading(BATCH, replace(hidden, start="4,5"), jobs=[job(1, [4, 5])])) == []
    assert told(reading(jobs=[job(1, [4, 5])])) == [], "nothing of the job runs on this node"


def test_steps_that_use_a_part_are_no_fault() -> None:
    srun = Process(12, 10, 2001, "12", "srun", start="4,5", job="1", is_srun=True)
    step = Process(13, 2, 2001, "13", "train", start="4", job="1", step="0", step_gpus="4")
    assert told(reading(BATCH, srun, step, jobs=[job(1, [4, 5])])) == []
    assert told(reading(step, jobs=[job(1, [4, 5])])) == []
    assert told(reading(replace(step, start=""), jobs=[job(1, [4, 5])])) == [(NOT_VISIBLE, 4)]


def test_two_readings_agree_on_the_same_process_only() -> None:
    find = Find(NO_GRANT, "c1", 3, "x", "y", ("7@1",))
    again, another = replace(find, kind=TWICE), replace(find, who=("7@2",))
    assert agreed([find], [again, another, replace(find, gpu=4)]) == [again]


def test_one_line_for_several_gpus() -> None:
    find = Find(NO_GRANT, "c1", 3, "process 7", "kill 7", ("7@1",))
    assert lines([find, replace(find, gpu=1), replace(find, node="c2")]) == [
        "c1 GPU 1,3: used without a grant: process 7; kill 7",
        "c2 GPU 3: used without a grant: process 7; kill 7",
    ]


def test_json_has_one_entry_a_pair() -> None:
    answer = json.loads(as_json([Find(NO_GRANT, "c1", 3, "what", "do", ("7@1",))], reading(BATCH, jobs=[job(1, [4])])))
    assert answer["finds"] == [{"kind": NO_GRANT, "node": "c1", "gpu": 3, "what": "what", "next": "do"}]
    assert (answer["clean"], answer["jobs"], answer["gpus_granted"], answer["processes"]) == (False, 1, 1, 1)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Reading]:
    """Readings that are played back; the last one stays."""
    readings: list[Reading] = []
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(audit_module, "read", lambda _, **__: readings.pop(0) if len(readings) > 1 else readings[0])
    return readings


def test_a_job_that_starts_between_two_questions_is_not_told(played: list[Reading]) -> None:
    played += [reading(BATCH), reading(BATCH, jobs=[job(1, [4, 5])])]
    assert audit(None)[0] == []  # type: ignore[arg-type]
    played[:] = [reading(BATCH), reading(replace(BATCH, started="99"))]
    assert audit(None)[0] == []  # type: ignore[arg-type]


def test_what_ray_said_must_be_of_the_same_task(played: list[Reading]) -> None:
    def at(number: str, slots: tuple[int, ...] = ()) -> Reading:
        return reading(BATCH, RAYLET, WORKER, jobs=[job(1, [4, 5])], workers={30: (slots, number)})

    played += [at("1"), at("1"), at("2"), at("3")]
    assert audit(None)[0] == [], "other tasks each time"  # type: ignore[arg-type]
    played[:] = [at("1"), at("1"), at("1", (1,))]
    assert audit(None)[0] == [], "Ray had not said yet that it gave the GPU"  # type: ignore[arg-type]
    played[:] = [at("1")]
    assert [find.gpu for find in audit(None)[0]] == [5]  # type: ignore[arg-type]


def test_a_task_that_has_just_begun_is_asked_about_again(played: list[Reading]) -> None:
    unknown = reading(BATCH, RAYLET, WORKER, jobs=[job(1, [4, 5])], workers={})
    known = reading(BATCH, RAYLET, WORKER, jobs=[job(1, [4, 5])], workers={30: ((), "1")})
    played += [unknown, unknown, known, known]
    assert audit(None)[0] == []  # type: ignore[arg-type]
    played[:] = [unknown]
    assert audit(None)[0] == [], "Ray never spoke of it"  # type: ignore[arg-type]


def test_what_the_agent_reports() -> None:
    row = {"pid": 7, "ppid": 1, "uid": 2001, "started": "5", "title": "raylet", "start": "0", "SLURM_JOB_ID": "3",
           "raylet": {"node": "n", "gcs": "h:1", "gpus": 2}}  # fmt: skip
    assert process(row) == Process(7, 1, 2001, "5", "raylet", start="0", job="3", raylet=Raylet("n", "h:1", 2))
    assert process({**row, "now": None}).now_known
    assert [process({**row, "SLURM_STEP_ID": step}).step for step in ("0", "-5")] == ["0", ""]
    assert belief({"gpus": 2, "workers": {"30": [[1], "4"]}}, 2) == Belief(2, {30: ((1,), "4")}, 2)


@pytest.mark.parametrize(
    ("used", "held"),
    [({}, []), ({"CPU": {"resourceSlots": [{"slot": "0", "allocation": 1}]}}, []),
     ({"GPU": {"resourceSlots": [{"slot": "1", "allocation": 0.5}, {"slot": "3", "allocation": 0}]}}, [1]),
     ({"GPU_group_0_ab": {"resourceSlots": [{"slot": "2", "allocation": 1}]},
       "GPU_group_ab": {"resourceSlots": [{"slot": "2", "allocation": 1}]}}, [2])],
)  # fmt: skip
def test_gpus_of_a_worker_in_rays_answer(used: dict[str, Any], held: list[int]) -> None:
    assert slots(used) == held


def test_an_actor_is_known_by_its_id_and_a_task_by_its_number() -> None:
    assert task({"actorId": "f" * 32, "numExecutedTasks": 3}) == "3"
    assert task({"actorId": "ab" * 16, "numExecutedTasks": 3}) == "ab" * 16
    assert option(["raylet", "--node_id=x=y"], "node_id") == "x=y"
    assert option(["raylet"], "node_id") == ""


def test_the_agent_reads_what_a_running_python_has_set() -> None:
    """The start of a process, and what it has changed since; of one process, since a host also sees the containers'."""
    code = "import os, sys; os.environ['CUDA_VISIBLE_DEVICES'] = '6'; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], env={"CUDA_VISIBLE_DEVICES": "1", "SLURM_JOB_ID": "3"},
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # fmt: skip
        assert child.stdout
        child.stdout.readline()
        found = audit_agent.look_at(str(child.pid), audit_agent.place_of_environ())
        child.communicate(b"")
    assert found
    one = process({"uid": os.getuid(), **found[0]})
    assert (one.start, one.job) == ("1", "3")
    assert one.now == "6" or not one.now_known, "some machines do not let look into a process"


def test_a_lab_that_is_not_up_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Down:
        settings = type("Settings", (), {"project": "nowhere"})

        @classmethod
        def open(cls) -> Down:
            return cls()

        def containers(self) -> dict[str, Any]:
            return {}

    monkeypatch.setattr(audit_module, "Cluster", Down)
    with pytest.raises(LabError, match="nowhere is not up"):
        audit_module.main([])
