"""Workloads to replay: what is read, what is refused and in which words, and the figures that come out."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from provisioning.lab import Lab
from provisioning.load import LabInvalid, load_lab
from smoke import replay
from smoke.clock import Clock
from smoke.models.replay import Work, longest_min, shortest_min, used_share
from smoke.records import Record
from smoke.swf import parse_swf, shape, users_line
from smoke.workload import EXAMPLE, MOST_JOBS, Entry, Job, Placed, fit, parse_yaml, read_yaml
from smoke.workloads.make_hundred import text as hundred

ROOT = Path(__file__).parents[2]
#: number, submission, wait, run time, processors, -, -, asked, time asked for, -, status, user, ...
SWF = """\
; Version: 2.2
; Computer: an example
  1  100  5   60   8 -1 -1   8  120 -1 1  7 1 -1 -1 -1 -1 -1
  2  160 -1   30  -1 -1 -1  20   -1 -1 1  9 1 -1 -1 -1 -1 -1
  3  170 -1   -1   4 -1 -1   4   60 -1 5  7 1 -1 -1 -1 -1 -1
  4  220  0 3600   1 -1 -1  -1 3600 -1 0  8 1 -1 -1 -1  2 10 ; a remark
"""


@pytest.fixture(scope="module")
def lab() -> Lab:
    return load_lab("default")


def said(text: str, lab: Lab) -> list[str]:
    """What is wrong with a YAML text, one line for each problem."""
    with pytest.raises(LabInvalid) as caught:
        fit(parse_yaml(text, "w.yaml")[0], lab, "w.yaml")
    assert caught.value.hint == "correct the file; nothing was submitted"
    return caught.value.what.splitlines()


def job(name: str = "a", at: float = 0, nodes: int = 1, gpus: int = 8, runs: float = 10, limit: int = 60) -> Job:
    return Job(name, "alice", "research", "gpu", "normal", at, nodes, gpus, runs, limit)


# -- YAML


def test_the_example_is_what_its_program_makes_and_fits_the_default_lab(lab: Lab) -> None:
    assert (ROOT / EXAMPLE).read_text(encoding="utf-8") == hundred()
    placed, description = read_yaml(ROOT / EXAMPLE)
    jobs = fit(placed, lab, EXAMPLE)
    assert len(jobs) == 100 and description
    assert {one.user for one in jobs} == {"alice", "bob"}
    assert {one.qos for one in jobs} == {"low", "normal", "high"}
    assert len({(one.nodes, one.gpus) for one in jobs}) >= 5
    assert all(one.runs_min <= one.limit_min for one in jobs)


def test_times_are_slurm_s_and_what_is_left_out_comes_from_the_lab(lab: Lab) -> None:
    text = (
        "jobs:\n"
        "  - {user: bob, runs: 01:30:00, at: 90, limit: 1-00}\n"
        "  - {user: alice, runs: 00:01:30, qos: low, nodes: 2, gpus: 8, partition: gpu-batch, name: two}\n"
    )
    late, early = reversed(fit(parse_yaml(text, "w.yaml")[0], lab, "w.yaml"))
    assert late == Job("job-1", "bob", "teaching", "gpu", "normal", 90, 1, 1, 90, 1440)
    # a limit that is not said is the run time, rounded up to Slurm's whole minutes
    assert early == Job("two", "alice", "research", "gpu-batch", "low", 0, 2, 8, 1.5, 2)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{user: carol, runs: 5}", "jobs[0].user: carol is not a user of the lab default; valid: alice, bob"),
        ("{user: alice, runs: 5, qos: hihg}", "jobs[0].qos: hihg is not a QOS of the lab default; did you mean high?"),
        ("{user: alice, runs: 5, partition: cpu}", "jobs[0].partition: cpu is not a partition"),
        ("{user: alice, runs: 5, gpus: 9}", "jobs[0].gpus: 9 GPUs a node; no node of gpu has more than 8"),
        ("{user: alice, runs: 5, nodes: 5}", "jobs[0].nodes: 5 nodes with 1 GPUs; gpu has 4; write at most 4"),
        ("{user: alice, runs: 5, limit: 2-0}", "jobs[0].limit: 2880 min; the partition gpu allows 1440; a longer"),
        ("{user: alice, runs: 5, qos: debug, limit: 60}", "jobs[0].limit: 60 min; the QOS debug allows 30"),
        ("{user: alice, runs: 5, qos: capped, gpus: 5}", "jobs[0].gpus: 5 gres/gpu in all; the QOS capped allows 4"),
        ("{user: alice, runs: 8h}", "jobs[0].runs: '8h' is not a Slurm time"),
        ("{user: alice, runs: 0}", "jobs[0].runs: a job that takes no time is none"),
        ("{user: alice, runs: UNLIMITED}", "jobs[0].runs: UNLIMITED has no end"),
        ("{user: alice, runs: 5, at: infinite}", "jobs[0].at: infinite has no end"),
        ("{user: alice, runs: 5, gpu: 1}", "jobs[0].gpu: is not a key of a workload; did you mean gpus?"),
        ("{user: alice, runs: 5, gpus: 1.5}", "jobs[0].gpus: '1.5' is not a whole number"),
        ("{user: alice, runs: 5, name: a b}", "jobs[0].name: 'a b' is not a name"),
        ("{user: alice}", "jobs[0].runs: is missing; write it: how long it works"),
        ("{runs: 5}", "jobs[0].user: is missing"),
        ("alice", "jobs[0]: a map of keys and values belongs here"),
    ],
)
def test_a_job_that_cannot_be_played_is_one_clear_line(lab: Lab, entry: str, message: str) -> None:
    [line] = said(f"jobs:\n  - {entry}\n", lab)
    assert line.startswith(f"w.yaml:2: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "w.yaml: the file is empty; start from smoke/workloads/hundred.yaml"),
        ("- a\n", "w.yaml:1: the file is not a map; write jobs: and a list as in smoke/workloads/hundred.yaml"),
        ("jobs: []\n", "w.yaml:1: jobs: there is no job"),
        ("jobs:\n", "w.yaml:1: jobs: has no value"),
        ("description: none\n", "w.yaml:1: jobs: is missing"),
        ("jobs: [{user: alice\n", "w.yaml:2: this is not YAML"),
        ("jobs: &a []\n", "w.yaml:1: anchors and aliases"),
    ],
)
def test_a_file_that_is_no_workload(lab: Lab, text: str, message: str) -> None:
    assert said(text, lab)[0].startswith(message)


def test_all_mistakes_are_said_at_once_with_their_lines(lab: Lab) -> None:
    second = "{user: bob, runs: 5, gpus: 9, limit: 9-0, name: x}"
    text = f"jobs:\n  - {{user: eve, runs: 5}}\n  - {second}\n  - {{user: bob, runs: 1, name: x}}\n"
    assert [line.split(": ")[:2] for line in said(text, lab)] == [
        ["w.yaml:2", "jobs[0].user"], ["w.yaml:3", "jobs[1].gpus"], ["w.yaml:3", "jobs[1].limit"],
        ["w.yaml:4", "jobs[2].name"]]  # fmt: skip
    text = "jobs:\n  - {user: eve, runs: 5x}\n  - {user: 1, gpus: -1}\n"
    assert [line.split(": ")[1] for line in said(text, lab)] == ["jobs[0].runs", "jobs[1].runs", "jobs[1].gpus"]


def test_too_many_jobs_are_refused(lab: Lab) -> None:
    placed = [Placed(Entry(user="alice", runs="1"), "", 1)] * (MOST_JOBS + 1)
    with pytest.raises(LabInvalid, match=f"has {MOST_JOBS + 1} jobs, at most {MOST_JOBS}"):
        fit(placed, lab, "w.swf")


# -- traces


def test_a_trace_becomes_jobs_of_the_lab(lab: Lab) -> None:
    trace = parse_swf(SWF.splitlines(), "t.swf", lab)
    jobs = fit(trace.jobs, lab, "t.swf")
    assert trace.skipped == 1
    assert users_line(trace.people) == "7 is alice, 9 is bob, 8 is alice"
    assert [(one.name, one.user, one.at_min, one.nodes, one.gpus) for one in jobs] == [
        ("u7-1", "alice", 0, 1, 8), ("u9-2", "bob", 1, 3, 7), ("u8-4", "alice", 2, 1, 1)]  # fmt: skip
    assert [(one.runs_min, one.limit_min) for one in jobs] == [(1, 2), (0.5, 1), (60, 60)]


def test_the_first_jobs_of_a_trace_and_more_processors_a_gpu(lab: Lab) -> None:
    lines = iter(SWF.splitlines())
    trace = parse_swf(lines, "t.swf", lab, first=2, processors=5)
    assert [(one.entry.nodes, one.entry.gpus) for one in trace.jobs] == [(1, 2), (1, 4)]
    assert "3  170" in next(lines), "no more was read than was needed"


@pytest.mark.parametrize(("gpus", "nodes", "each"), [(1, 1, 1), (8, 1, 8), (9, 2, 5), (16, 2, 8), (20, 3, 7)])
def test_processors_fill_the_fewest_nodes_evenly(gpus: int, nodes: int, each: int) -> None:
    assert shape(gpus, 8) == (nodes, each)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3\n", "t.swf:1: '1 2 3' is not a job; write 18 numbers"),
        (SWF.replace("3600 -1 0", "long -1 0"), "t.swf:6: "),
        (SWF.replace(" 100 ", " nan "), "t.swf:3: "),
        (SWF.replace(" 100 ", " -1 "), "t.swf:3: field 2: -1 is not a time of submission"),
        (SWF.replace("  20 ", "  -1 "), "t.swf:4: fields 5 and 8: the number of processors is unknown"),
        ("; nothing\n", "t.swf: there is no job that ran"),
        (SWF.replace("8 -1 -1   8", "8 -1 -1 999"), "t.swf:3: nodes: 125 nodes with 8 GPUs; gpu has 4"),
        (SWF.replace("  120 -1", " 999999 -1"), "t.swf:3: limit: 16667 min; the partition gpu allows 1440"),
        ("1 " * 5000, "t.swf:1: "),
    ],
)
def test_a_trace_that_cannot_be_played(lab: Lab, text: str, message: str) -> None:
    with pytest.raises(LabInvalid) as caught:
        fit(parse_swf(text.splitlines(), "t.swf", lab).jobs, lab, "t.swf")
    assert caught.value.what.startswith(message)


# -- the model and the figures


def test_the_ideal_is_work_over_gpus_or_the_longest_job_or_the_late_ones() -> None:
    assert shortest_min([Work(0, 8, 10), Work(0, 8, 30)], 16) == 30
    assert shortest_min([Work(5, 32, 10)] * 3, 32) == 30
    assert shortest_min([Work(0, 1, 1), Work(100, 32, 20), Work(100, 32, 20)], 32) == 140
    assert longest_min([Work(5, 1, 10), Work(7, 1, 10)]) == 22
    assert used_share([Work(0, 16, 10)], 32, 10) == 0.5
    with pytest.raises(ValueError, match="at least one job"):
        shortest_min([], 32)


def test_a_job_over_its_limit_works_up_to_it() -> None:
    assert job(runs=90, limit=60).work == Work(0, 8, 60)
    assert job(nodes=2, runs=90, limit=120).work.gpu_min == 16 * 90


def test_the_command_asks_for_written_minutes_and_sleeps_compressed_ones() -> None:
    words = replay.command(job(runs=30, limit=45), Clock(0.1))
    assert "--time=45" in words and "--gres=gpu:8" in words and "'exec sleep 3.000'" in words
    assert "--gres" not in replay.command(job(gpus=0), Clock(0.1))


def test_figures_waits_and_preemptions() -> None:
    def record(number: str, name: str, state: str, start: float, end: float) -> Record:
        return Record(number, name, "alice", state, 1000, start, end, "c1", 8)

    records = (
        record("1", "a", "PREEMPTED", 1000, 1010),
        record("2", "b", "COMPLETED", 1010, 1020),
        record("1", "a", "COMPLETED", 1020, 1030),
    )
    played = replay.Played((job("a", runs=10), job("b", runs=10)), records, Clock(1.0), 32)
    figures = {name: (ideal, seen) for name, _, ideal, seen in played.figures()}
    assert figures["makespan"] == (10, 30)
    assert figures["GPU time used for work that lasts"] == pytest.approx((50, 100 * 160 / 960))
    assert figures["GPU time held"][1] == 25
    assert figures["preemptions"] == (0, 1)
    assert figures["mean wait"][1] == 5
    assert played.last_states() == {"COMPLETED": 2}
    assert played.groups() == [("QOS normal", 2, 5, 10, 1), ("user alice", 2, 5, 10, 1)]
    out = io.StringIO()
    replay.show(played, Console(file=out, width=100))
    assert "2 COMPLETED" in out.getvalue()
    assert "<td class=number>30</td>" in replay.html_tables(played)


@pytest.mark.parametrize(
    ("argv", "words"),
    [(["w.yaml", "--scale", "0"], "--scale"), (["w.yaml", "--scale", "x"], "--scale"),
     (["w.yaml", "--scale", "61"], "--scale"), (["w.yaml", "--first", "-1"], "--first"),
     (["w.swf", "--processors", "0"], "--processors")],
)  # fmt: skip
def test_a_wrong_choice_is_refused(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        replay.main(argv)
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nothing.yaml", "nothing.swf"])
def test_a_file_that_is_not_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB", "default")
    with pytest.raises(LabInvalid, match=f"{name}: cannot be read: No such file"):
        replay.main([name])
