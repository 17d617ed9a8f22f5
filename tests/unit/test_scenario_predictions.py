"""What the scenarios predict for the default lab, before anything runs."""

from __future__ import annotations

import dataclasses
import math

import pytest

from provisioning.errors import LabError
from provisioning.lab import Lab
from provisioning.load import load_lab
from smoke import quanta
from smoke.clock import Clock
from smoke.models import backfill as model
from smoke.scenarios import SCENARIOS, backfill, preemption_modes, which_scheduler
from smoke.verdict import Prediction


@pytest.fixture(scope="module")
def lab() -> Lab:
    return load_lab("default")


def predicted(lab: Lab, name: str, scale_s: float | None = None) -> dict[str, Prediction]:
    scenario = SCENARIOS[name]
    work = scenario.workload(lab, Clock(scale_s or scenario.scale_s))
    return {one.metric: one for one in scenario.predict(lab, work)}


@pytest.mark.parametrize("name", SCENARIOS)
def test_predictions_lie_within_their_bounds(lab: Lab, name: str) -> None:
    for one in predicted(lab, name).values():
        assert one.lower <= one.predicted <= one.upper, one
        assert not math.isnan(one.predicted)
        assert one.why


def test_the_course_s_figures(lab: Lab) -> None:
    fragmentation = predicted(lab, "fragmentation")
    assert fragmentation["idle share"].predicted == 25
    assert fragmentation["idle GPUs"].predicted == 8
    preemption = predicted(lab, "preemption")
    assert preemption["checkpoint every 30 min: time in all"].predicted == 677
    assert preemption["checkpoint every 30 min: times the work"].predicted == pytest.approx(1.41, abs=0.005)
    assert preemption["checkpoint every 30 min: effective share"].predicted == pytest.approx(86.2, abs=0.05)
    rlhf = predicted(lab, "elastic-rlhf")
    assert rlhf["fixed halves: time"].predicted == 30
    assert rlhf["fixed halves: GPU time used"].predicted == 50
    assert rlhf["one pool: time"].predicted == 15
    assert rlhf["faster by"].predicted == 2


def test_a_slower_clock_leaves_less_room_for_the_scheduler_s_quanta(lab: Lab) -> None:
    fast, slow = (predicted(lab, "fragmentation", scale)["gang's wait"] for scale in (0.5, 5))
    assert slow.upper - slow.predicted < fast.upper - fast.predicted


@pytest.mark.parametrize("resolution_s", [1, 60, 300])
def test_backfill_does_not_depend_on_the_second_of_the_minute(lab: Lab, resolution_s: int) -> None:
    """The short job passes and the long one does not, wherever a step of backfill's grid begins."""
    parameters = {**lab.slurm.scheduler_parameters, "bf_resolution": resolution_s}
    lab = dataclasses.replace(lab, slurm=dataclasses.replace(lab.slurm, scheduler_parameters=parameters))
    work = backfill.workload(lab, Clock(1.0))
    asked = len(work.nodes), [work.running], work.queue
    grid_min = quanta.resolution_s(lab) / 60
    assert model.passes(*asked) == model.passes(*asked, grid_min=grid_min) == ["short"]


def test_backfill_bounds_follow_the_lab_s_interval(lab: Lab) -> None:
    lazy = dataclasses.replace(lab, slurm=dataclasses.replace(lab.slurm, scheduler_parameters={"bf_interval": "30"}))
    assert predicted(lazy, "backfill")["the short job's wait"].upper > 30
    assert predicted(lab, "backfill")["the short job's wait"].upper < 10


def test_extra_qos_are_added_to_the_lab_s_own(lab: Lab) -> None:
    scenario = SCENARIOS["preemption-modes"]
    staged = preemption_modes.staged(lab, scenario.workload(lab, Clock(scenario.scale_s)))
    assert {one.name for one in lab.qos} < {one.name for one in staged.qos}
    [high] = [one for one in staged.qos if preemption_modes.CANCELLED in one.preempt]
    assert {"low", preemption_modes.PROTECTED} <= set(high.preempt)


def test_padded_limits_cost_the_gang_more_at_every_scale(lab: Lab) -> None:
    """Nobody is ended by a limit, and the order of the cures stays, also on a slower clock."""
    scenario = SCENARIOS["fragmentation-cures"]
    for scale in (0.1, 0.5, 2.0):
        work = scenario.workload(lab, Clock(scale))
        for case in work.cases:
            for job, limit_min in zip(work.first, case.limits_min, strict=True):
                assert work.clock.real_s(job.runs_min) < 60 * limit_min
        found = {name.partition(":")[0]: one.predicted for name, one in
                 predicted(lab, "fragmentation-cures", scale).items()}  # fmt: skip
        assert found["a partition for each"] == 0
        assert found["backfill, honest limits"] < found["backfill, padded limits"] < found["nothing"]


def test_failure_follows_the_scenario_s_time_out_or_a_shorter_one_of_the_lab(lab: Lab) -> None:
    quick = dataclasses.replace(lab, slurm=dataclasses.replace(lab.slurm, slurmd_timeout=12))
    assert predicted(lab, "failure")["Slurm: the node is DOWN after"].predicted == pytest.approx(15 * 7 / 6)
    assert predicted(quick, "failure")["Slurm: the node is DOWN after"].predicted == 14
    never = dataclasses.replace(lab, slurm=dataclasses.replace(lab.slurm, slurmd_timeout=0))
    with pytest.raises(LabError, match="never notices"):
        predicted(never, "failure")


def test_the_table_of_which_scheduler_has_each_figure_in_its_cell() -> None:
    lines = which_scheduler.table({"Slurm": 0.7, "Ray": 0.02}, 0, {"held": 16}, (1, 3), {"said": 3, "attempts": 2}, 1)
    assert [line.split()[0] for line in lines] == ["Slurm", "granularity", "gang", "state", "failure"]
    assert "0.7 s" in lines[1] and "0.02 s" in lines[1] and "16 held" in lines[2] and "2 runs" in lines[4]
    assert max(map(len, lines)) < 80
