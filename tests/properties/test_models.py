"""What must hold for any numbers, not only the course's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoke.models import backfill, fairshare, fragmentation, gang, granularity, preemption, rlhf, utilization

minutes = st.integers(1, 2000).map(float)
jobs = st.builds(preemption.Job, minutes, st.integers(1, 500).map(float), st.integers(0, 60).map(float))


@given(jobs, st.integers(0, 20), st.integers(0, 500))
def test_one_preemption_more_never_shortens(job: preemption.Job, count: int, wait: float) -> None:
    less, more = preemption.expected(job, count, wait), preemption.expected(job, count + 1, wait)
    assert more.wall_min > less.wall_min
    assert more.effective < less.effective


@given(jobs, st.lists(st.integers(1, 500).map(float), max_size=6), st.integers(1, 500).map(float), st.integers(0, 90))
def test_replayed_preemptions_never_shorten(
    job: preemption.Job, uptimes: list[float], one_more: float, wait: float
) -> None:
    before = preemption.replay(job, uptimes, wait)
    after = preemption.replay(job, [*uptimes, one_more], wait)
    assert after.wall_min >= before.wall_min - 1e-6
    assert after.saved_min == job.work_min


@given(jobs, st.lists(st.integers(1, 500).map(float), max_size=6), st.integers(0, 90))
def test_time_is_accounted_for(job: preemption.Job, uptimes: list[float], wait: float) -> None:
    end = preemption.replay(job, uptimes, wait, to_the_end=False)
    held = 0.0
    saved = 0.0
    for uptime in uptimes:
        if saved >= job.work_min:
            break
        used, _, _, saved = preemption.run(job, saved, uptime)
        held += used
    assert end.burned_min == pytest.approx(held)


@given(minutes, st.lists(st.integers(1, 500).map(float), max_size=6), st.integers(0, 90))
def test_no_checkpoint_is_the_limit_of_an_infinite_interval(work: float, uptimes: list[float], wait: float) -> None:
    never = preemption.replay(preemption.Job(work), uptimes, wait)
    rarely = preemption.replay(preemption.Job(work, 1e9, 5), uptimes, wait)
    assert rarely == never
    assert preemption.expected(preemption.Job(work, 1e9, 5), 3, wait) == preemption.expected(
        preemption.Job(work), 3, wait
    )


@given(st.integers(1, 50).map(float), st.integers(60, 5000).map(float), st.floats(0.2, 5))
def test_young_loses_least(cost: float, between: float, other: float) -> None:
    def loss(interval: float) -> float:
        return cost / interval + interval / (2 * between)

    best = preemption.young(cost, between)
    assert loss(best) <= loss(best * other) + 1e-12


@given(st.integers(1, 16), st.data())
def test_idle_and_taken_are_the_whole(per_node: int, data: st.DataObject) -> None:
    taken = data.draw(st.lists(st.integers(0, per_node), min_size=1, max_size=12))
    assert sum(fragmentation.idle_gpus(per_node, taken)) + sum(taken) == per_node * len(taken)
    assert 0 <= fragmentation.idle_share(per_node, taken) <= 1
    counts = [fragmentation.nodes_that_qualify(per_node, taken, wanted) for wanted in range(1, per_node + 1)]
    assert counts == sorted(counts, reverse=True)


requests = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 200)), max_size=6)


@given(requests, requests)
def test_nobody_who_comes_later_moves_the_first(first: list[tuple[int, int]], later: list[tuple[int, int]]) -> None:
    queue = [backfill.Request(f"a{number}", nodes, limit) for number, (nodes, limit) in enumerate(first)]
    more = [backfill.Request(f"b{number}", nodes, limit) for number, (nodes, limit) in enumerate(later)]
    alone, together = backfill.plan(4, [], queue), backfill.plan(4, [], [*queue, *more])
    assert all(together[name] == start for name, start in alone.items())


@given(requests)
def test_no_node_is_planned_twice(wanted: list[tuple[int, int]]) -> None:
    queue = [backfill.Request(str(number), nodes, limit) for number, (nodes, limit) in enumerate(wanted)]
    starts = backfill.plan(4, [], queue)
    for at in starts.values():
        assert sum(job.nodes for job in queue if starts[job.name] <= at < starts[job.name] + job.limit_min) <= 4


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1))
def test_more_usage_never_raises_the_factor(one: float, other: float, shares: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= fairshare.factor(high, shares) <= fairshare.factor(low, shares) <= 1


@given(st.floats(0, 1000), st.floats(0, 100), st.floats(0, 100), st.floats(1, 100))
def test_decay_in_two_steps_is_decay_in_one(usage: float, first: float, second: float, half_life: float) -> None:
    twice = fairshare.decayed(fairshare.decayed(usage, first, half_life), second, half_life)
    assert twice == pytest.approx(fairshare.decayed(usage, first + second, half_life))


@given(st.floats(0.001, 100), st.floats(0.01, 0.99))
def test_the_shortest_task_has_the_wanted_share(overhead: float, share: float) -> None:
    assert granularity.efficiency(granularity.shortest_task(overhead, share), overhead) == pytest.approx(share)


@given(st.integers(1, 4), st.lists(st.sampled_from("ABCD"), max_size=10))
def test_a_gang_that_fits_never_locks(spare: int, parts: list[str]) -> None:
    slots = max([parts.count(job) for job in parts], default=0) + spare - 1
    assert not gang.play(max(slots, 1), parts, gang=True).deadlock


@given(st.integers(0, 1000), st.integers(1, 1000), st.integers(1, 32))
def test_halves_use_half(rollout: int, training: int, pairs: int) -> None:
    work = rlhf.Work(rollout, training, 2 * pairs)
    assert work.used(rlhf.static_min(work)) == pytest.approx(0.5)
    assert work.used(rlhf.elastic_min(work)) == pytest.approx(1)
    assert rlhf.elastic_min(work) <= rlhf.static_min(work, max(1, pairs // 2)) + 1e-9


@given(st.floats(0.1, 1), st.floats(0.1, 1), st.floats(0.1, 1))
def test_lost_work_never_adds_output(before: float, after: float, effective: float) -> None:
    low, high = sorted((before, after))
    assert 0 <= utilization.output_gain(low, high, effective) <= utilization.output_gain(low, high) + 1e-12
    assert not math.isnan(utilization.output_gain(low, high))
