"""Accounting: facts in, commands out; and against a stand-in of sacctmgr, that a plan is empty after it was applied."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.accounting import (
    Accounting,
    apply_accounting,
    desired_accounting,
    plan_accounting,
    read_accounting,
    settle_accounting,
)
from provisioning.accounting_model import QOS, Key, canonical
from provisioning.accounting_read import parse_table
from provisioning.errors import LabError
from provisioning.lab import Account, Lab, Qos, User
from tests.unit.fake_sacctmgr import FakeSacctmgr


def lab(qos: tuple[Qos, ...] = (), accounts: tuple[Account, ...] = (), users: tuple[User, ...] = ()) -> Lab:
    return Lab(name="t", qos=qos, accounts=accounts, users=users)


def planned(wanted: Lab, actual: Accounting) -> list[str]:
    return [" ".join(change.argv[2:]) for change in plan_accounting(desired_accounting(wanted), actual)]


EMPTY = FakeSacctmgr().state()
HIGH = Qos(
    "high", priority=100, preempt=("low",), grace_time="30", max_tres_per_user="gres/gpu=8,mem=1536", max_wall="90"
)
LOW = Qos("low", usage_factor=0.5, flags=("NoDecay", "DenyOnLimit"))


@pytest.mark.parametrize(("name", "given", "kept"), [
    ("MaxWall", "30", "00:30:00"), ("MaxWall", "24:00:00", "1-00:00:00"), ("MaxWall", "0:30", "00:01:00"),
    ("MaxWall", "UNLIMITED", ""), ("GraceTime", "30", "00:00:30"), ("GraceTime", "00:01:00", "00:01:00"),
    ("GraceTime", "0", ""), ("PreemptExemptTime", "00:01:30", "00:01:30"), ("PreemptExemptTime", "5", "00:05:00"),
    ("MaxTRESPerUser", "mem=1.50G,gres/gpu=4,cpu=2", "cpu=2,gres/gpu=4,mem=1536M"),
    ("MaxTRESPerUser", "mem=2048", "mem=2048M"), ("MaxTRESPerUser", "mem=2G", "mem=2048M"),
    ("MaxTRESPerUser", "cpu=-1", ""), ("UsageFactor", "1.000000", ""), ("UsageFactor", 0.25, "0.250000"),
    ("UsageFactor", 0.0, "0.000000"), ("Priority", "0", ""), ("MaxJobsPerUser", 0, "0"), ("PreemptMode", "cluster", ""),
    ("PreemptMode", "REQUEUE", "requeue"), ("Preempt", ("Low", "dev"), "dev,low"), ("Flags", "NoDecay,DenyOnLimit",
    "DenyOnLimit,NoDecay"), ("Description", "It's |  \"Big\"\n", "it`s / `big`"),
])  # fmt: skip
def test_values_have_one_form(name: str, given: Any, kept: str) -> None:
    attribute = next(one for one in QOS if one.name == name)
    assert canonical(attribute, given) == kept
    assert canonical(attribute, kept or attribute.default) == kept


def test_a_lab_without_anything_needs_nothing() -> None:
    assert planned(lab(), EMPTY) == []


def test_a_qos_that_preempts_is_made_before_its_list_names_the_others() -> None:
    assert planned(lab((HIGH, LOW)), EMPTY) == [
        "add qos high Priority=100 GraceTime=30 MaxTRESPerUser=gres/gpu=8,mem=1536M MaxWall=01:30:00",
        "add qos low UsageFactor=0.500000 Flags=DenyOnLimit,NoDecay",
        "modify qos where name=high set Preempt=low",
    ]


def test_limits_are_changed_and_unset_by_name() -> None:
    actual = Accounting(EMPTY.clusters, {"normal": {}, "high": {
        "MaxTRESPerUser": "cpu=4,gres/gpu=2", "MaxWall": "01:00:00", "Flags": "NoDecay", "PreemptMode": "cancel",
        "GrpJobs": "3", "Description": "old"}}, EMPTY.accounts, EMPTY.users, EMPTY.associations)  # fmt: skip
    assert planned(lab((Qos("high", max_tres_per_user="gres/gpu=4"),)), actual) == [
        "modify qos where name=high set PreemptMode=cluster Flags=-1 MaxTRESPerUser=cpu=-1,gres/gpu=4 GrpJobs=-1 "
        "MaxWall=-1 Description=high"
    ]
    (change,) = plan_accounting(desired_accounting(lab((Qos("high"),))), actual)
    assert "PreemptMode cancel -> cluster" in change.detail and "MaxWall 01:00:00 -> unset" in change.detail


def test_accounts_are_made_from_the_root_down_and_users_with_one_command() -> None:
    wanted = lab(accounts=(Account("leaf", parent="teamA"), Account("teamA", fairshare=3)),
                 users=(User("alice", 2001, ("leaf", "TeamA"), "teamA", admin_level="Operator"),))  # fmt: skip
    assert planned(wanted, EMPTY) == [
        "add account teama cluster=lab Parent=root FairShare=3",
        "add account leaf cluster=lab Parent=teama",
        "add user alice cluster=lab account=teama,leaf DefaultAccount=teama AdminLevel=Operator",
    ]


def test_removals_come_last_and_in_reverse() -> None:
    fake = FakeSacctmgr()
    settle_accounting(lab((HIGH, LOW), (Account("a"), Account("b", parent="a")), (User("alice", 2001, ("b",)),)), fake)
    assert planned(lab(), fake.state()) == [
        "delete user where name=alice", "delete account where name=b", "delete account where name=a",
        "delete qos where name=high", "delete qos where name=low"]  # fmt: skip


def test_the_default_account_moves_before_its_association_goes() -> None:
    fake = FakeSacctmgr()
    accounts = (Account("a"), Account("b"))
    settle_accounting(lab(accounts=accounts, users=(User("alice", 2001, ("a",)),)), fake)
    assert planned(lab(accounts=accounts, users=(User("alice", 2001, ("b",)),)), fake.state()) == [
        "add user alice cluster=lab account=b",
        "modify user where name=alice set DefaultAccount=b",
        "delete user where name=alice account=a cluster=lab",
    ]


def test_a_list_of_qos_that_swaps_is_first_widened() -> None:
    fake = FakeSacctmgr()

    def of(name: str) -> Lab:
        return lab((HIGH, LOW), (Account("a", qos=(name,)),), (User("alice", 2001, ("a",), default_qos=name),))

    settle_accounting(of("high"), fake)
    assert planned(of("low"), fake.state()) == [
        "modify account where name=a cluster=lab set QosLevel=high,low",
        "modify user where name=alice account=a cluster=lab set DefaultQOS=low",
        "modify account where name=a cluster=lab set QosLevel=low",
    ]
    settle_accounting(of("low"), fake)


def test_a_default_qos_is_given_where_the_account_allows_it() -> None:
    wanted = desired_accounting(lab((HIGH,), (Account("a", qos=("high",)), Account("b")),
                                    (User("alice", 2001, ("a", "b"), default_qos="high"),)))  # fmt: skip
    assert wanted.associations[Key("lab", "a", "alice")] == {"DefaultQOS": "high"}
    assert wanted.associations[Key("lab", "b", "alice")] == {}


def test_what_was_done_by_hand_is_drift() -> None:
    fake = FakeSacctmgr()
    wanted = lab((LOW,), (Account("a"),), (User("bob", 2002, ("a",)),))
    settle_accounting(wanted, fake)
    fake.qos["low"]["LimitFactor"] = "2.000000"
    del fake.qos["normal"]
    fake.associations[Key("lab", "a", "bob")]["MaxJobs"] = "3"
    fake.associations[Key("lab", "a", "bob", "gpu")] = {}
    fake.associations[Key("lab", "root")]["MaxJobs"] = "9"
    fake.users["bob"] |= {"Coordinator": "a", "AdminLevel": "Operator"}
    assert planned(wanted, read_accounting(fake)) == [
        "add qos normal",
        "modify qos where name=low set LimitFactor=-1",
        "modify account where name=root cluster=lab set MaxJobs=-1",
        "modify user where name=bob set AdminLevel=None",
        "modify user where name=bob account=a cluster=lab set MaxJobs=-1",
        "delete coordinator account=a names=bob",
        "delete user where name=bob account=a cluster=lab partition=gpu",
    ]
    settle_accounting(wanted, fake)


def test_a_list_made_with_plus_or_minus_is_drift_though_the_association_has_none() -> None:
    def run(argv: list[str], stdin: str | None = None, /) -> str:
        text = FakeSacctmgr()(argv, stdin)
        return text.replace("lab|root|root||normal", "lab|root|root||") if "WOPLimits" not in argv else text

    assert read_accounting(run).associations[Key("lab", "root", "root")].get("QosLevel") == ""


def test_another_cluster_in_the_database_is_left_alone() -> None:
    actual = Accounting(frozenset({"lab", "old"}), EMPTY.qos, EMPTY.accounts, EMPTY.users,
                        {**EMPTY.associations, Key("old", "root"): {}, Key("old", "x"): {}})  # fmt: skip
    assert planned(lab(), actual) == []


def test_a_cluster_that_is_not_registered_yet_is_added_first() -> None:
    assert planned(lab((LOW,)), Accounting(qos={"normal": {}}))[:2] == [
        "add cluster lab",
        planned(lab((LOW,)), EMPTY)[0],
    ]


def test_one_sacctmgr_makes_all_changes() -> None:
    fake = FakeSacctmgr()
    wanted = lab((HIGH, LOW), (Account("a", description="two words"),), (User("alice", 2001, ("a",)),))
    changes = plan_accounting(desired_accounting(wanted), fake.state())
    apply_accounting(changes, fake)
    assert fake.calls == 1
    assert fake.accounts["a"] == {"Description": "two words"}


def test_nothing_to_do_asks_nothing() -> None:
    fake = FakeSacctmgr()
    apply_accounting([], fake)
    assert fake.calls == 0


def test_a_failure_says_what_was_done_and_what_was_not_and_the_next_run_goes_on() -> None:
    fake = FakeSacctmgr()
    settle_accounting(lab((LOW,), (Account("a"),), (User("alice", 2001, ("a",)),)), fake)
    fake.busy_users = {"alice"}
    with pytest.raises(LabError) as caught:
        settle_accounting(lab((HIGH, LOW)), fake)
    assert "remove user alice failed: Error with request: Job(s) active" in caught.value.what
    assert "done: add qos high, change qos high" in caught.value.what
    assert "not done: remove user alice, remove account a" in caught.value.what
    assert "scancel" in caught.value.hint
    fake.busy_users = set()
    assert [change.what for change in settle_accounting(lab((HIGH, LOW)), fake)] == ["user alice", "account a"]


def test_a_table_with_a_separator_in_its_last_column() -> None:
    assert list(parse_table("Name|Descr\nlow|a|b\n")) == [{"Name": "low", "Descr": "a|b"}]
    with pytest.raises(LabError, match="2 columns"):
        list(parse_table("Name|Descr\nlow\n"))


def test_a_column_that_is_missing_is_named() -> None:
    with pytest.raises(LabError, match="no column 'Priority'"):
        read_accounting(lambda _argv, _stdin=None: "Name|Descr\nlow|x\n")
