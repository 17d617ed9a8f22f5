"""Whatever accounting was before, the plan is empty after it was applied, and sacctmgr refused nothing."""

from __future__ import annotations

from itertools import count

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from provisioning.accounting import settle_accounting
from provisioning.lab import Account, Lab, Qos, User
from tests.unit.fake_sacctmgr import FakeSacctmgr
from tests.unit.test_accounting import lab

NAMES = ("dev", "High", "low", "long")
TIMES = ("", "30", "00:00:30", "1-0", "UNLIMITED")
TRES = ("", "cpu=4", "gres/gpu=8,mem=1536", "mem=2G,node=3", "gres/gpu:a100=2")
INTS = st.none() | st.integers(0, 9)


def labs() -> st.SearchStrategy[Lab]:
    def qos(name: str, others: list[str]) -> st.SearchStrategy[Qos]:
        beaten = [one for one in others if one != name] or ["normal"]
        time, tres = st.sampled_from(TIMES), st.sampled_from(TRES)
        flags = st.sampled_from(("NoDecay", "DenyOnLimit"))
        return st.builds(
            Qos, st.just(name), description=st.sampled_from(("", "It's one | two", name)), priority=st.integers(0, 9),
            preempt=st.lists(st.sampled_from(beaten), unique=True).map(tuple), preempt_exempt_time=time,
            preempt_mode=st.sampled_from(("", "cluster", "requeue")), grace_time=st.sampled_from(TIMES[:-1]),
            usage_factor=st.sampled_from((0.0, 0.5, 1.0)), flags=st.lists(flags, unique=True).map(tuple), max_wall=time,
            max_tres_per_user=tres, max_tres_per_job=tres, grp_tres=tres, max_jobs_per_user=INTS,
            max_submit_jobs_per_user=INTS)  # fmt: skip

    @st.composite
    def made(draw: st.DrawFn) -> Lab:
        names = draw(st.lists(st.sampled_from(NAMES), unique=True))
        qualities = tuple(draw(qos(name, names)) for name in names)
        accounts: list[Account] = []
        for name in draw(st.lists(st.sampled_from(("teamA", "b", "c", "d")), unique=True)):
            parents = ["root", *(one.name for one in accounts)]
            allowed = draw(st.lists(st.sampled_from(["normal", *names]), unique=True).map(tuple))
            accounts.append(draw(st.builds(
                Account, st.just(name), parent=st.sampled_from(parents), fairshare=st.integers(0, 3),
                qos=st.just(allowed), default_qos=st.sampled_from(["", *allowed]), grp_tres=st.sampled_from(TRES),
                max_jobs=INTS, max_submit_jobs=INTS, max_wall=st.sampled_from(TIMES))))  # fmt: skip
        users = []
        numbers = count(2001)
        if accounts:
            for name in draw(st.lists(st.sampled_from(("alice", "bob")), unique=True)):
                member = draw(st.lists(st.sampled_from([one.name for one in accounts]), min_size=1, unique=True))
                users.append(User(name, next(numbers), tuple(member), draw(st.sampled_from(["", *member])),
                                  draw(st.sampled_from(["", "normal", *names])), draw(st.integers(0, 3)),
                                  draw(st.sampled_from(("", "Operator")))))  # fmt: skip
        shuffled = tuple(draw(st.permutations(accounts)))
        return lab(qualities, shuffled, tuple(users))

    return made()


@settings(deadline=None, max_examples=60, phases=(Phase.explicit, Phase.generate))
@given(st.lists(labs(), min_size=1, max_size=4))
def test_whatever_was_before_the_plan_is_empty_after_it_was_applied(steps: list[Lab]) -> None:
    fake = FakeSacctmgr()
    for wanted in steps:
        settle_accounting(wanted, fake)
        assert fake.refused == []
        assert settle_accounting(wanted, fake) == []
