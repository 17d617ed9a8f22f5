"""Chaos without containers: the plan is a function of its seed, and each invariant is seen to break."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from smoke.chaos import command, inflict
from smoke.chaos.load import Submission, answer, asks, every_s
from smoke.chaos.plan import KINDS, Fault, plan
from smoke.chaos.run import Outcome
from smoke.chaos.verdict import SAVE_S, Settled, grown, overlaps, ran_again, runs, settle
from smoke.chaos.watch import extra, size

NODES, WORKERS = ["c1", "c2", "c3"], ["ray-worker-1"]


# -- the plan


def test_the_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    assert plan(1, 10, NODES, WORKERS) == plan(1, 10, NODES, WORKERS)
    assert len({tuple(plan(seed, 10, NODES, WORKERS)) for seed in range(20)}) == 20


@pytest.mark.parametrize("minutes", [0.5, 1, 3, 10, 60])
def test_a_plan_fills_its_minutes_and_no_more(minutes: float) -> None:
    for seed in range(50):
        faults = plan(seed, minutes, NODES, WORKERS)
        assert minutes * 60 - 40 < sum(fault.cost_s for fault in faults) <= minutes * 60
        for fault in faults:
            kind = KINDS[fault.kind]
            among = {"node": NODES, "ray-worker": WORKERS}.get(kind.targets, [kind.targets])
            assert fault.target in among
            assert fault.hold_s in kind.holds_s


def test_ten_minutes_have_nearly_every_kind_and_an_hour_has_all_of_them_often() -> None:
    for seed in range(20):
        assert len({fault.kind for fault in plan(seed, 10, NODES, WORKERS)}) >= len(KINDS) - 2
        assert min(Counter(fault.kind for fault in plan(seed, 60, NODES, WORKERS)).values()) >= 3


def test_only_the_kinds_that_are_asked_for() -> None:
    faults = plan(1, 10, NODES, WORKERS, ["db-kill", "slurmctld-kill"])
    assert {fault.kind for fault in faults} == {"db-kill", "slurmctld-kill"}
    assert len(faults) > 10


def test_a_lab_without_ray_workers_has_no_faults_of_theirs() -> None:
    assert "ray-worker" not in " ".join(str(fault) for fault in plan(1, 60, NODES, []))


def test_every_kind_is_taken_away_again_whatever_happens_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a context manager whose end undoes its beginning: seen in the order of docker's commands."""
    assert set(inflict.HOW) == set(KINDS)
    said: list[str] = []

    def docker(*argv: str) -> str:
        said.append(argv[1] if argv[0] == "network" else argv[0])
        return '{"lab": {}}'

    cluster: Any = SimpleNamespace(
        container_name=str, containers=dict, settings=SimpleNamespace(project="p"),
        kill=lambda _: said.append("kill"), start=lambda _: said.append("start"),
    )  # fmt: skip
    monkeypatch.setattr("smoke.faults.docker", docker)
    monkeypatch.setattr("smoke.faults.remove_containers", lambda *_, **__: said.append("rm"))
    for module in ("smoke.faults", "smoke.chaos.inflict"):
        monkeypatch.setattr(f"{module}.up", lambda _: said.append("up"))
    monkeypatch.setattr("smoke.chaos.inflict.down", lambda _: said.append("down"))
    undone = {"kill": {"start", "up"}, "pause": {"unpause"}, "disconnect": {"connect"}, "rm": {"up"}, "down": {"up"}}
    for name, how in inflict.HOW.items():
        said.clear()
        block: AbstractContextManager[None] = how(cluster, "c1")
        with pytest.raises(LabError), block:
            done = next(word for word in said if word in undone)
            begun = len(said)
            raise LabError("meanwhile")
        assert undone[done] & set(said[begun:]), name


def test_a_fault_is_told_in_a_line() -> None:
    assert str(Fault("node-cut", "c2", 5, 3)) == "node-cut c2 for 5 s"
    assert str(Fault("all-kill", "all", 1, 3)) == "all-kill for 1 s"
    assert str(Fault("slurmctld-kill", "slurmctld", 4, 3)) == "slurmctld-kill for 4 s"


# -- the load


def test_each_user_has_jobs_of_their_own_that_the_nodes_can_run() -> None:
    alice, bob = (list(islice(asks(1, user, [2, 8, 0]), 200)) for user in ("alice", "bob"))
    assert alice == list(islice(asks(1, "alice", [2, 8, 0]), 200))
    assert alice != bob
    for one in alice:
        assert one.nodes <= sum(gpus >= one.gpus for gpus in (2, 8, 0))
    assert {one.requeue for one in alice} == {True, False}
    assert {one.nodes for one in alice} == {1, 2}
    assert {one.gpus for one in alice} == {0, 1, 2, 4, 8}


def test_a_small_lab_is_given_fewer_jobs() -> None:
    assert every_s([8] * 4, 2) == pytest.approx(2.0, abs=0.1)
    assert every_s([2, 2], 2) == pytest.approx(6.0)
    assert every_s([0], 2) == 2.0


@pytest.mark.parametrize(
    ("text", "job", "refusal"),
    [
        ("answer 0 17\n", "17", ""),
        ("answer 0 sbatch: error: Batch job submission failed, retrying 18;lab\n", "18", ""),
        ("answer 1 sbatch: error: Unable to contact slurm controller\n", "", "Unable to contact slurm controller"),
        ("answer 137\n", "", ""),
        ("Error response from daemon: Container is not running\n", "", ""),
        ("", "", ""),
    ],
)
def test_only_what_sbatch_itself_said_is_an_answer(text: str, job: str, refusal: str) -> None:
    said = answer("alice", "alice-1-0", text)
    assert (said.job, bool(said.refusal)) == (job, bool(refusal))
    assert refusal in said.refusal


# -- records


def row(name: str, job: str, state: str, submit: int = 100, end: str = "110") -> dict[str, str]:
    return {"JobID": job, "JobName": name, "State": state, "Submit": str(submit), "Start": "101", "End": end}


def judged(*rows: dict[str, str], states: dict[str, str] | None = None, kills: tuple[tuple[float, float], ...] = (),
           one: Submission | None = None) -> Settled:  # fmt: skip
    return settle([one or Submission("alice", "a", 100, "7")], rows, states or {}, kills)


def test_one_final_record_is_what_a_job_must_have() -> None:
    known = {"a": "COMPLETED"}
    assert judged(row("a", "7", "COMPLETED"), states=known).ended == ["a"]
    assert judged(row("a", "7", "CANCELLED by 0"), states=known).ended == ["a"]
    assert judged(row("a", "7", "NODE_FAIL"), states={"a": "NODE_FAIL"}).ended == ["a"]
    again = judged(row("a", "7", "NODE_FAIL"), row("a", "7", "COMPLETED", 200, "210"), states=known)
    assert (again.ended, again.problems) == (["a"], [])
    twice = judged(row("a", "7", "COMPLETED"), row("a", "7", "FAILED", 200, "210"), states=known)
    assert "2 final records: 7 COMPLETED, 7 FAILED" in twice.problems[0]


def test_a_job_that_waits_is_no_loss_and_one_that_nobody_knows_is() -> None:
    assert judged(states={"a": "PENDING"}).queued == ["a"]
    assert judged(row("a", "7", "NODE_FAIL"), states={"a": "PENDING"}).queued == ["a"]
    assert judged().lost == ["a"]
    still_open = judged(row("a", "7", "RUNNING", end="Unknown"))
    assert "slurmctld says nothing, accounting 7 RUNNING" in still_open.problems[0]


def test_what_was_accepted_just_before_the_kill_may_be_forgotten_and_its_record_is_closed() -> None:
    kill = ((101.0, 102.0),)
    assert judged(kills=kill).forgotten == judged(kills=((99.0, 102.0),)).forgotten == ["a"]
    assert judged(kills=((98.0, 99.0),)).lost == judged(kills=((101.0 + SAVE_S, 120.0),)).lost == ["a"]
    closed = judged(row("a", "7", "COMPLETED"), kills=kill)
    assert (closed.forgotten, closed.problems) == (["a"], [])
    assert judged(row("a", "7", "RUNNING", end="Unknown"), kills=kill).problems


def test_an_end_just_before_the_kill_may_be_recorded_twice() -> None:
    rows = row("a", "7", "COMPLETED"), row("a", "7", "COMPLETED", 200, "210")
    assert judged(*rows, states={"a": "COMPLETED"}, kills=((111.0, 112.0),)).ended_again == ["a"]
    assert judged(*rows, states={"a": "COMPLETED"}, kills=((108.0, 109.0),)).problems


def test_a_requeue_that_was_forgotten_has_a_record_without_a_start_which_is_no_end() -> None:
    rows = (row("a", "7", "NODE_FAIL"), {**row("a", "7", "COMPLETED", 105, "120"), "Start": "None"},
            row("a", "7", "FAILED", 110, "130"))  # fmt: skip
    assert judged(*rows, states={"a": "FAILED"}) == Settled(ended=["a"])
    assert judged(rows[1]).lost == ["a"]


def test_a_refused_job_must_not_exist_and_one_without_an_answer_must_have_an_end_if_it_does() -> None:
    refused, unanswered = Submission("alice", "a", 100, refusal="no"), Submission("alice", "a", 100)
    assert judged(one=refused) == judged(one=unanswered) == Settled()
    assert "was refused (no) and exists" in judged(row("a", "7", "COMPLETED"), one=refused).problems[0]
    assert judged(states={"a": "PENDING"}, one=refused).problems
    assert judged(row("a", "7", "COMPLETED"), states={"a": "COMPLETED"}, one=unanswered).ended == ["a"]
    assert judged(row("a", "7", "RUNNING", end="Unknown"), one=unanswered).problems


def test_an_id_is_given_once() -> None:
    found = judged(row("a", "7", "COMPLETED"), row("b", "7", "COMPLETED"), states={"a": "COMPLETED"})
    assert found.problems == ["the id 7 was given to a and b"]


# -- GPUs, processes, memory


def test_two_runs_may_not_have_a_gpu_at_the_same_time() -> None:
    stamps = {
        "a.7.c1.1.1": ["100.000001 0,1", "105.000001 0,1", "end"],
        "b.8.c1.1.1": ["105.500001 1", "109.000001 1", "109.5"],  # the last line was cut short
        "c.9.c1.1.1": ["108.000001 1", "110.000001 1"],
        "d.9.c2.1.1": ["100.000001 1", "110.000001 1"],
        "e.9.c1.1.1": ["100.000001 ", "110.000001 "],
        "f.9.c1.1.1": ["100.0"],
    }
    found = runs(stamps)
    assert [(one.name, one.gpus, one.came_to_end) for one in found] == [
        ("a", (0, 1), True), ("b", (1,), False), ("c", (1,), False), ("d", (1,), False), ("e", (), False),
    ]  # fmt: skip
    assert overlaps(found) == ["c1 GPU 1: c had it 1.0 s before b gave it back"]
    assert overlaps(found, ["b"]) == []
    [begun] = {one.first for one in found if one.name == "b"}
    assert overlaps(found, kills=[(begun + SAVE_S - 1, begun + SAVE_S)]) == [], "that it had begun was not saved"
    assert overlaps(found, kills=[(begun + SAVE_S + 1, begun + SAVE_S + 2)]) == overlaps(found)


def test_a_job_that_ran_to_its_end_twice_is_told() -> None:
    ended = ["100.000001 0", "end"]
    assert ran_again(runs({"a.7.c1.1.1": ended, "a.7.c1.2.1": ended, "b.8.c1.1.1": ended})) == ["a"]
    assert ran_again(runs({"a.7.c1.1.1": ended, "a.7.c2.1.1": ended})) == []  # a job of two nodes


def test_a_process_that_was_not_there_before_is_told() -> None:
    before, after = {"c1": Counter(slurmd=1, sleep=2)}, {"c1": Counter(slurmd=1, sleep=1, slurmstepd=2)}
    assert extra(before, after) == ["c1: 2 more slurmstepd"]


def test_memory_has_a_tolerance() -> None:
    mib = 1024**2
    assert [size("512B"), size("1.5KiB"), size("25.5MiB"), size("1.2GiB")] == [512, 1536, 25.5 * mib, 1.2 * 1024 * mib]
    assert grown({"db": 100 * mib, "c1": 100 * mib}, {"db": 299 * mib, "c1": 301 * mib, "new": 900 * mib}) == [
        "c1: 100 MiB before, 301 MiB after"
    ]


# -- the command


def test_the_counts_are_lines_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(1, 2, [Fault("db-kill", "db", 3, 2)], {"jobs": 5, "losses": 0}, 4.2, judged=True)
    assert [*command.lines(outcome)] == [
        "     1 faults injected (db-kill 1); slowest recovery 4 s", "     5 Slurm jobs accepted", "     0 losses", "ok",
    ]  # fmt: skip
    outcome.problems.append("c1 is lost")
    assert [*command.lines(outcome)][-1] == "BROKEN c1 is lost"
    assert outcome.as_dict()["kinds"] == {"db-kill": 1}
    lab = Cluster.open()
    assert command.main(["--minutes=1", "--seed=3", "--plan"]) == 0
    assert capsys.readouterr().out.splitlines() == [str(one) for one in plan(3, 1, lab.nodes(), lab.ray_workers())]


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "x", "1e9"])
def test_wrong_minutes_are_refused_in_a_line(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main([f"--minutes={minutes}"])
    assert ended.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
