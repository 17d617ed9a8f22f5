"""The labs that come with the repository: they load, and say what their purpose needs."""

from __future__ import annotations

import pytest

from provisioning import slurmtypes
from provisioning.checks import warnings_of
from provisioning.lab import Lab
from provisioning.load import LABS, lab_names, load_lab

EVERY = {name: load_lab(name) for name in lab_names()}


def gpus(lab: Lab) -> dict[str, str]:
    return {host: nodes.gres for nodes in lab.nodes for host in slurmtypes.expand_hosts(nodes.name)}


def test_the_labs_of_the_readme_are_there() -> None:
    assert set(EVERY) >= {"default", "ci", "preempt-partition", "shards", "heterogeneous", "classroom"}


def test_in_the_classroom_students_are_private_and_a_teacher_is_not() -> None:
    lab = EVERY["classroom"]
    assert set(lab.slurm.private_data) == {"accounts", "jobs", "reservations", "usage", "users"}
    assert [user.name for user in lab.users if user.admin_level == "Operator"] == ["teacher"]


@pytest.mark.parametrize("name", EVERY)
def test_each_is_without_warnings_and_helps_editors(name: str) -> None:
    assert warnings_of(EVERY[name]) == []
    assert EVERY[name].description
    first = (LABS / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=../../docs/lab.schema.json"


def test_the_default_lab() -> None:
    lab = EVERY["default"]
    assert gpus(lab) == {f"c{number}": "gpu:a100:8" for number in (1, 2, 3, 4)}
    assert [(nodes.cpus, nodes.real_memory, nodes.features) for nodes in lab.nodes] == [(64, "515000", ("a100",))]
    limits = {one.name: (one.default, slurmtypes.parse_time(one.max_time)) for one in lab.partitions}
    assert limits == {"gpu": (True, 86400), "gpu-debug": (False, 1800), "gpu-batch": (False, 7 * 86400)}
    qos = {one.name: one for one in lab.qos}
    assert set(qos) == {"normal", "low", "high", "debug", "capped"}
    assert qos["high"].preempt == ("low",)
    assert (qos["low"].preempt_mode, lab.slurm.preempt_mode) == ("requeue", "REQUEUE")
    assert slurmtypes.parse_tres(qos["capped"].max_tres_per_user) == {"gres/gpu": "4"}
    assert slurmtypes.parse_time(qos["debug"].max_wall) == 1800
    assert {(user.name, user.uid) for user in lab.users} == {("alice", 2001), ("bob", 2002)}
    assert all(set(account.qos) == set(qos) for account in lab.accounts)
    assert (lab.slurm.min_job_age, lab.slurm.enforce_part_limits) == (3600, "ALL")
    assert set(lab.slurm.accounting_storage_enforce) == {"associations", "limits", "qos"}
    assert (lab.ray.head.cpus, lab.ray.head.gpus) == (0, 0)
    assert (lab.ray.workers.count, lab.ray.workers.gpus) == (2, 8)


def test_the_memory_default_lets_two_jobs_share_a_node() -> None:
    for name, lab in EVERY.items():
        for nodes in lab.nodes:
            every_cpu = nodes.cpus * slurmtypes.parse_memory_mb(lab.slurm.def_mem_per_cpu)
            assert every_cpu <= slurmtypes.parse_memory_mb(nodes.real_memory), (name, nodes.name)


def test_the_ci_lab_is_the_smallest() -> None:
    assert len(gpus(EVERY["ci"])) == 2
    assert EVERY["ci"].ray.workers.count == 1


def test_preemption_by_partition_has_three_tiers_over_the_same_nodes() -> None:
    lab = EVERY["preempt-partition"]
    assert lab.slurm.preempt_type == "preempt/partition_prio"
    tiers = sorted(lab.partitions, key=lambda one: one.priority_tier or 0)
    assert [one.preempt_mode for one in tiers] == ["REQUEUE", "CANCEL", "OFF"]
    assert len({one.priority_tier for one in tiers}) == 3
    assert {one.nodes for one in tiers} == {"c[1-4]"}


def test_shards_are_four_to_a_gpu() -> None:
    for gres in gpus(EVERY["shards"]).values():
        counts = {one.name: one.count for one in slurmtypes.parse_gres(gres)}
        assert counts["shard"] == 4 * counts["gpu"]


def test_the_heterogeneous_lab_has_each_kind_of_node() -> None:
    lab = EVERY["heterogeneous"]
    kinds = {tuple(one.type for one in slurmtypes.parse_gres(gres)) for gres in gpus(lab).values()}
    assert kinds == {(), ("a100",), ("h100",), ("a100", "h100")}
    assert len({nodes.weight for nodes in lab.nodes}) == len(lab.nodes)
