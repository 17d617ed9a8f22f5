"""The frame around every scenario: verdicts, refusal, clean-up, exit status. No containers."""
# ruff: noqa: ARG001, ARG005 - measurements take what the frame hands them

from __future__ import annotations

import dataclasses
import io
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from provisioning.cluster import Cluster, Result
from provisioning.errors import LabError
from provisioning.lab import Lab, Nodes, Partition, User
from provisioning.settings import Settings
from smoke import scenario as frame
from smoke.clock import Clock
from smoke.scenario import Scenario
from smoke.scenarios import SCENARIOS, machine
from smoke.stage import Stage
from smoke.verdict import Prediction, compare

LAB = Lab(
    name="test",
    nodes=(Nodes(name="c[1-4]", cpus=64, real_memory="515000", gres="gpu:a100:8"),),
    partitions=(Partition(name="gpu", nodes="ALL", default=True),),
    users=(User(name="alice", uid=2001, accounts=("ml",)),),
)


class FakeCluster(Cluster):
    """Answers what the stage asks; remembers every command."""

    def __init__(self, root: Path, queue: str = "") -> None:
        super().__init__(Settings(root=root), LAB)
        self.queue = queue
        self.ran: list[list[str]] = []

    def exec(self, service: str, argv: Any, **_: Any) -> Result:
        self.ran.append([service, *argv])
        if argv[0] == "squeue":
            if "--states=all" in argv:
                rows = "7|scenario|RUNNING\n8|somebody|RUNNING\n" if self.queue == "mine" else ""
                return Result(0, rows, "")
            return Result(0, self.queue if self.queue != "mine" else "", "")
        if argv[0] == "scancel":
            self.queue = ""
        if argv[0] == "sinfo":
            return Result(0, "c1 idle\nc2 idle\n", "")
        return Result(0, "", "")


@pytest.fixture(autouse=True)
def rays(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Ray's API says of tasks and actors."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr("smoke.scenario.ray_runs", lambda *_: found)
    return found


def one(measure: Any) -> Scenario:
    return Scenario("demo", ("P0",), "Demo", "One. Two. Three.", "Lesson.", 0.1, lambda lab, clock: clock,
                    lambda lab, work: [Prediction.within("time", 10, 0.1, "min", "a tenth")], measure)  # fmt: skip


def play(scenario: Scenario, cluster: Cluster) -> frame.Report:
    return frame.play(scenario, cluster, None, Console(file=io.StringIO()))


def test_verdict_lies_within_the_bounds(tmp_path: Path) -> None:
    assert play(one(lambda stage, work: {"time": 10.9}), FakeCluster(tmp_path)).ok
    report = play(one(lambda stage, work: {"time": 11.1}), FakeCluster(tmp_path))
    assert not report.ok
    assert report.as_dict()["expectations"][0]["verdict"] == "MISSED"


def test_the_report_has_what_began_in_ray_meanwhile(tmp_path: Path, rays: list[dict[str, Any]]) -> None:
    rays += [{"job": "before", "start": time.time() - 9}, {"job": "meanwhile", "start": time.time() + 9}]
    report = play(one(lambda stage, work: {"time": 10}), FakeCluster(tmp_path))
    assert [run["job"] for run in report.as_dict()["runs"]] == ["meanwhile"]


def test_what_was_not_measured_is_missed() -> None:
    [missing] = compare([Prediction.exact("time", 1)], {})
    assert math.isnan(missing.measured) and not missing.met
    with pytest.raises(LabError, match="measured but not predicted: other"):
        compare([], {"other": 1})


def test_refuses_a_lab_with_somebody_elses_jobs(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, "9|train|bob|RUNNING|None|gres/gpu:1|c1\n")
    with pytest.raises(LabError, match="1 jobs of bob"):
        play(one(lambda stage, work: {}), cluster)
    assert not [argv for argv in cluster.ran if argv[1] == "scancel"]


@pytest.mark.parametrize("error", [LabError("broken"), KeyboardInterrupt()])
def test_restores_after_failure_and_ctrl_c(tmp_path: Path, error: BaseException) -> None:
    cluster = FakeCluster(tmp_path)
    undone = []

    def measure(stage: Stage, work: Clock) -> dict[str, float]:
        stage.undo("first", lambda: undone.append("first"))
        stage.undo("second", lambda: undone.append("second"))
        cluster.queue = "mine"
        raise error

    with pytest.raises(type(error)):
        play(one(measure), cluster)
    assert undone == ["second", "first"]
    assert ["slurmctld", "scancel", "7"] in cluster.ran  # its own job, not somebody else's


def test_a_failing_undo_does_not_stop_the_others(tmp_path: Path) -> None:
    undone = []

    def fail() -> None:
        raise LabError("no answer")

    def measure(stage: Stage, work: Clock) -> dict[str, float]:
        stage.undo("first", lambda: undone.append("first"))
        stage.undo("second", fail)
        return {"time": 10}

    with pytest.raises(LabError, match="second: no answer"):
        play(one(measure), FakeCluster(tmp_path))
    assert undone == ["first"]


def test_two_scenarios_on_one_lab(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)

    def measure(stage: Stage, work: Clock) -> dict[str, float]:
        cluster.queue = "mine"
        with pytest.raises(LabError, match="another scenario"):
            play(one(measure), cluster)
        assert cluster.queue == "mine", "the other one's jobs are left alone"
        return {"time": 10}

    assert play(one(measure), cluster).ok


def test_exit_status_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"good": 10.0, "bad": 20.0}
    made = {name: dataclasses.replace(one(lambda stage, work, value=value: {"time": value}), name=name)
            for name, value in answers.items()}  # fmt: skip
    monkeypatch.setattr("smoke.scenarios.SCENARIOS", made)
    monkeypatch.setattr(Cluster, "open", lambda settings=None: FakeCluster(tmp_path))
    assert frame.main(["good", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert frame.main(["all"]) == 1
    said = capsys.readouterr().out
    assert "bad: MISSED" in said
    scale = made["bad"].scale_s
    assert said.count("SCALE=") == 1 and f"make scenario NAME=bad SCALE={2 * scale:g}" in said
    made["good"] = dataclasses.replace(made["good"], quick=True)
    assert frame.main(["quick", "--json"]) == 0, "only the quick one"
    capsys.readouterr()
    assert frame.main(["nothing"]) == 2
    assert frame.main(["good", "--scale", "0"]) == 2
    assert frame.main([]) == 0


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_says_what_it_does(name: str) -> None:
    scenario = SCENARIOS[name]
    assert scenario.name == name and scenario.claims and scenario.lesson
    assert frame.one_line(scenario.story).count(". ") == 2, "the story has three sentences"


def test_a_lab_that_is_too_small() -> None:
    with pytest.raises(LabError, match="needs 5 nodes with 8 GPUs, the lab test has 4"):
        machine.room(LAB, nodes=5, gpus=8)
    with pytest.raises(LabError, match="no QOS that preempts"):
        machine.preempting(LAB)


def test_parts_stop_when_one_fails(tmp_path: Path) -> None:
    stage = Stage(FakeCluster(tmp_path), Clock(1), "demo")

    def fails() -> None:
        raise LabError("broken")

    started = time.monotonic()
    with pytest.raises(LabError, match="broken"):
        stage.parallel(lambda: stage.sleep_until(time.time() + 60), fails)
    assert time.monotonic() - started < 5
    assert Stage(FakeCluster(tmp_path), Clock(1), "demo").parallel(lambda: 1, lambda: 2) == [1, 2]
