"""The course's own numbers."""

from __future__ import annotations

import math

import pytest

from smoke.models import (
    backfill,
    cures,
    failure,
    fairshare,
    fragmentation,
    gang,
    granularity,
    preemption,
    rlhf,
    utilization,
)
from smoke.models.durations import format_minutes, parse_minutes

EIGHT_HOURS = preemption.Job(480, 30, 2)


def test_a_quarter_is_idle_and_no_node_qualifies() -> None:
    assert fragmentation.idle_gpus(8, (5, 6, 6, 7)) == (3, 2, 2, 1)
    assert fragmentation.idle_share(8, (5, 6, 6, 7)) == 0.25
    assert fragmentation.nodes_that_qualify(8, (5, 6, 6, 7), 8) == 0
    assert fragmentation.nodes_that_qualify(8, (5, 6, 6, 7), 2) == 3


def test_the_gang_waits_for_the_second_node() -> None:
    assert fragmentation.gang_start((30, 10, 20, 40), 2) == 20
    with pytest.raises(ValueError, match="never starts"):
        fragmentation.gang_start((1, 2), 3)


def test_more_taken_than_there_is() -> None:
    with pytest.raises(ValueError, match="node 2 cannot have 9 of 8"):
        fragmentation.idle_share(8, (5, 9))


def test_checkpointed_job_takes_677_minutes() -> None:
    end = preemption.expected(EIGHT_HOURS, 3, 40)
    assert (end.checkpoint_min, end.lost_min, end.wait_min) == (32, 45, 120)
    assert end.wall_min == 677
    assert end.stretch == pytest.approx(1.41, abs=0.005)
    assert end.burned_min == 557
    assert end.effective == pytest.approx(0.862, abs=0.0005)


def test_replay_of_the_same_preemptions_agrees() -> None:
    uptimes = [_uptime(135, 0), _uptime(255, 120), _uptime(375, 240)]
    assert preemption.replay(EIGHT_HOURS, uptimes, 40) == preemption.expected(EIGHT_HOURS, 3, 40)


def _uptime(progress: float, start: float) -> float:
    """Minutes of a run from the progress ``start`` to ``progress``, with its checkpoints."""
    return progress - start + 2 * (progress // 30 - start // 30)


def test_without_checkpoint_all_progress_is_lost() -> None:
    end = preemption.replay(preemption.Job(480), [135, 255, 375], 40)
    assert end.lost_min == 135 + 255 + 375
    assert end.wall_min == 480 + 765 + 120


def test_a_checkpoint_cut_short_saves_nothing() -> None:
    end = preemption.replay(EIGHT_HOURS, [31], 0, to_the_end=False)
    assert (end.saved_min, end.lost_min, end.checkpoint_min) == (0, 31, 0)


def test_it_never_ends() -> None:
    assert not preemption.ends(preemption.Job(120), 60)
    assert preemption.ends(preemption.Job(120), 120)
    assert preemption.ends(preemption.Job(120, 30, 2), 60)
    assert not preemption.ends(preemption.Job(120, 30, 2), 31)
    assert math.isinf(preemption.replay(preemption.Job(120), [60] * 5, 10, to_the_end=False).wall_min)


def test_best_interval() -> None:
    assert preemption.young(2, 160) == pytest.approx(25.3, abs=0.05)
    assert preemption.daly(2, 160) == pytest.approx(24.0, abs=0.1)
    assert preemption.daly(10, 4) == 4


def test_preemption_gives_28_percent_more() -> None:
    assert utilization.output_gain(0.7, 0.9) == pytest.approx(0.286, abs=0.001)
    assert utilization.output_gain(0.7, 0.9, 0.862) == pytest.approx(0.246, abs=0.001)
    assert utilization.wait_without(480) == 240
    assert utilization.utilization(160, 16, 10) == 1


def test_who_passes() -> None:
    job = backfill.Request
    running = [job("runs", 3, 60)]
    queue = [job("first", 4, 30), job("short", 1, 50), job("long", 1, 70)]
    assert backfill.plan(4, running, queue) == {"first": 60, "short": 0, "long": 90}
    assert backfill.passes(4, running, queue) == ["short"]


def test_a_long_job_may_pass_on_a_node_nobody_needs() -> None:
    job = backfill.Request
    assert backfill.passes(4, [job("runs", 3, 60)], [job("first", 3, 30), job("long", 1, 600)]) == ["long"]


def test_a_job_that_nearly_fills_the_gap_passes_by_luck_of_the_grid() -> None:
    """Slurm rounds planned starts down to the minute: seen at second 57, a limit of 1 did not fit a gap of 2."""
    job = backfill.Request
    gap = [job("runs", 3, 2)], [job("first", 4, 1), job("short", 1, 1)]
    assert backfill.passes(4, *gap) == ["short"]
    assert backfill.passes(4, *gap, grid_min=1) == []
    wider = [job("runs", 3, 3)], gap[1]
    assert backfill.passes(4, *wider) == backfill.passes(4, *wider, grid_min=1) == ["short"]


def test_fairshare_halves() -> None:
    assert fairshare.factor(0, 0.5) == 1
    assert fairshare.factor(0.5, 0.5) == 0.5
    assert fairshare.factor(1, 0.5) == 0.25
    assert fairshare.decayed(1, 14, 7) == 0.25
    assert fairshare.ranks({"alice": 0.5, "bob": math.inf}) == {"alice": 0.5, "bob": 1.0}


def test_light_user_catches_up() -> None:
    at = fairshare.crossing(100, 0, 10, 7)
    assert fairshare.decayed(100, at, 7) == pytest.approx(fairshare.busy(10, at, 7))
    assert math.isinf(fairshare.crossing(100, 0, 0, 7))


def test_overhead() -> None:
    assert granularity.efficiency(1, 1) == 0.5
    assert granularity.shortest_task(2, 0.9) == pytest.approx(18)
    assert granularity.makespan(100, 1, 1, 10) == 20
    assert granularity.makespan(100, 0, 1, 100, serial_overhead=1) == 100


def test_deadlock_and_gang() -> None:
    stuck = gang.play(2, ["A", "B", "A", "B"], gang=False)
    assert stuck.deadlock and stuck.stuck == ("A", "B")
    cured = gang.play(2, ["A", "B", "A", "B"], gang=True)
    assert cured.ended == ("A", "B") and cured.rounds == 2
    assert not gang.play(2, ["A", "A", "B", "B"], gang=False).deadlock


def test_rlhf_halves_against_pool() -> None:
    work = rlhf.Work(160, 80, 16)
    assert rlhf.static_min(work) == 30
    assert work.used(30) == 0.5
    assert rlhf.elastic_min(work) == 15
    assert work.used(15) == 1
    assert rlhf.elastic_min(work, 0.1) == pytest.approx(16.7, abs=0.05)


@pytest.mark.parametrize(
    ("text", "minutes"), [("8h", 480), ("30m", 30), ("1h30m", 90), ("90s", 1.5), ("none", math.inf)]
)
def test_durations(text: str, minutes: float) -> None:
    assert parse_minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "8", "8x", "h", "-3h", "30 minutes"])
def test_not_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_minutes(text)


def test_format() -> None:
    assert [format_minutes(value) for value in (0.5, 25.3, 677, 480, math.inf)] == [
        "30 s", "25.3 min", "11 h 17 min", "8 h", "never"]  # fmt: skip


# -- failure


def test_a_dead_node_is_noticed_between_two_and_four_thirds_of_the_time_out() -> None:
    assert failure.slurm_notices_s(30) == (20, 35, 40)
    assert failure.ray_notices_s(1, 2, 3) == 10
    with pytest.raises(ValueError, match="never noticed"):
        failure.slurm_notices_s(0)


def test_a_death_costs_what_was_not_saved_and_the_silence() -> None:
    assert failure.saved_min(35, 10) == 30
    assert failure.saved_min(35) == 0
    assert failure.lost_gpu_min(8, 35, 5) == 320
    assert failure.lost_gpu_min(8, 35, 5, 10) == 80


# -- cures for fragmentation

#: Three nodes of 8 GPUs; a gang of two. The later job fits in beside nobody.
FIRST = tuple(cures.Small(0, 5, end, limit_min=end) for end in (30, 70, 110))
LATER = tuple(cures.Small(15, 8, 100, limit_min=100) for _ in range(2))
GANG = cures.Gang(10, 2)


def gang_start(cure: cures.Cure, first: tuple[cures.Small, ...] = FIRST) -> float:
    return cures.gang_start(3, 8, (*first, *LATER), GANG, cure)


def test_who_is_kept_no_place_for_waits_for_the_last_small_job() -> None:
    assert gang_start(cures.Cure(in_line=False)) == 130


def test_honest_limits_keep_the_nodes_that_are_empty_first() -> None:
    assert gang_start(cures.Cure()) == 70


def test_padded_limits_let_others_onto_a_node_that_is_empty_early() -> None:
    padded = tuple(cures.Small(0, 5, one.runs_min, limit_min=1000) for one in FIRST)
    # a later job takes the first node at 30, since its 100 min fit before the 1000; then the plan is 130
    assert gang_start(cures.Cure(), padded) == 110


def test_draining_does_not_look_at_limits_and_partitions_wait_for_nobody() -> None:
    padded = tuple(cures.Small(0, 5, one.runs_min, limit_min=1000) for one in FIRST)
    assert gang_start(cures.Cure(drained=(0, 1)), padded) == 70
    assert gang_start(cures.Cure(in_line=False, small_on=(2,)), padded) == 10


def test_whole_nodes_hold_one_small_job_each() -> None:
    pair = (cures.Small(0, 4, 20, 20), cures.Small(0, 4, 60, 60))
    start = {whole: cures.gang_start(3, 8, pair, cures.Gang(10, 3), cures.Cure(whole=whole)) for whole in (True, False)}
    assert start == {True: 60, False: 60}
    assert cures.gang_start(3, 8, pair, GANG, cures.Cure(whole=True)) == 20
    assert cures.gang_start(3, 8, pair, GANG, cures.Cure()) == 10


def test_late_starts_add_up_and_a_gang_that_is_too_large_never_starts() -> None:
    assert cures.gang_start(3, 8, FIRST, GANG, cures.Cure(), late_min=5) == 75
    with pytest.raises(ValueError, match="never starts"):
        cures.gang_start(1, 8, FIRST, GANG, cures.Cure())
