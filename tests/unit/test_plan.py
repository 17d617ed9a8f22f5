"""make plan: facts in, differences out."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from provisioning.accounting import desired_accounting
from provisioning.cluster import Cluster, Container
from provisioning.lab import Account, Lab, Nodes, Partition, Qos, Ray, RayNodes, Slurm, User
from provisioning.plan import Plan, make_plan, plan_json, show, wanted_services
from provisioning.plan_config import SLURM_CONF, drift, held_back, parse_conf, parse_config, parse_rows
from provisioning.plan_facts import HASH_LABEL, Facts
from provisioning.render import render

LAB = Lab(
    "t", nodes=(Nodes("c[1-2]", 8, "32000", "gpu:a100:2", ("a100",)),),
    partitions=(Partition("gpu", "ALL", True, "01:00:00", "10"),), qos=(Qos("low"),), accounts=(Account("a"),),
    users=(User("alice", 2001, ("a",)),), ray=Ray(workers=RayNodes(count=1)),
)  # fmt: skip
NODE = (
    "NodeName={0} CPUTot=8 Gres=gpu:a100:2(S:0) OS=Linux 6.1 #1 SMP RealMemory=32000 State=IDLE AvailableFeatures=a100 "
    "ActiveFeatures=a100 Weight=1 CfgTRES=cpu=8,mem=32000M"
)
PARTITION = (
    "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES QoS=N/A DefaultTime=00:10:00 "
    "GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=01:00:00 MinNodes=0 LLN=NO Nodes=c[1-2] PriorityJobFactor=1 "
    "PriorityTier=1 RootOnly=NO OverSubscribe=NO State=UP TRES=cpu=16,mem=62.50G"
)
CONFIG = (
    "Configuration data as of now\nDebugFlags              = (null)\nHASH_VAL = Match\nSlurmctldDebug          = info\n"
)


def container(name: str, state: str = "running", hash_: str = "h", image: str = "i") -> Container:
    return Container(name, f"t-{name}-1", state, "", image, {HASH_LABEL: hash_})


def facts_of(lab: Lab) -> Facts:
    """A lab that is just what its YAML says."""
    services = wanted_services(lab)
    text = "\n".join(NODE.format(name) for name in ("c1", "c2"))
    return Facts(
        files=render(lab), containers={name: container(name) for name in services},
        hashes=dict.fromkeys(services, "h"), config=parse_config(CONFIG),
        partitions=parse_rows(PARTITION, "PartitionName"), nodes=parse_rows(text, "NodeName"),
        accounting=desired_accounting(lab), slurmdbd_conf=render(lab)["etc/slurm/slurmdbd.conf"],
        homes={user.name: str(user.uid) for user in lab.users},
    )  # fmt: skip


FACTS = facts_of(LAB)


def said(plan: Plan) -> list[str]:
    return [str(change) for change in plan.changes]


def test_a_lab_as_its_yaml_says_has_an_empty_plan() -> None:
    plan = make_plan(LAB, FACTS)
    assert said(plan) == []
    assert plan.empty


@pytest.mark.parametrize(("change", "expected"), [
    ({"slurm": Slurm(kill_wait=9)}, ["change slurm.conf KillWait: 5 -> 9"]),
    ({"slurm": Slurm(requeue_exit="99")}, ["add slurm.conf RequeueExit: unset -> 99"]),
    ({"partitions": (Partition("gpu", "ALL", True, "02:00:00", "10"),)},
     ["change partition gpu: MaxTime 01:00:00 -> 02:00:00"]),
    ({"partitions": (*LAB.partitions, Partition("x", "c1"))}, ["add partition x: Nodes=c1 State=UP"]),
    ({"qos": (Qos("low", priority=5),)}, ["change qos low: Priority 0 -> 5"]),
    ({"qos": ()}, ["remove qos low"]),
    ({"users": (*LAB.users, User("bob", 2002, ("a",)))},
     ["add user bob in a: DefaultAccount a", "add user bob: uid 2002"]),
    ({"users": (User("alice", 2005, ("a",)),)}, ["change user alice: uid 2001 -> 2005"]),
    ({"users": ()}, ["remove user alice", "remove user alice: the home is kept"]),
    ({"ray": Ray(workers=RayNodes(count=2))}, ["add service ray-worker-2: no container"]),
    ({"ray": Ray(workers=RayNodes(count=0))}, ["remove service ray-worker-1: the YAML has none of this name"]),
])  # fmt: skip
def test_a_changed_yaml_is_seen(change: dict[str, Any], expected: list[str]) -> None:
    assert said(make_plan(replace(LAB, **change), FACTS)) == expected


def test_a_new_node_is_a_line_a_gres_line_and_a_service() -> None:
    wanted = replace(LAB, nodes=(*LAB.nodes, Nodes("d1", 4, "1000", "gpu:h100:3")))
    plan = make_plan(wanted, FACTS)
    assert [one.what for one in plan.configuration] == ["slurm.conf AccountingStorageTRES", "nodes d1", "gres.conf"]
    assert [str(one) for one in plan.services] == ["add service d1: no container"]


def test_another_environment_of_a_container_is_named() -> None:
    wanted = replace(LAB, nodes=(replace(LAB.nodes[0], gres="gpu:a100:4"),))
    facts = replace(FACTS, hashes={**FACTS.hashes, "c1": "new"})
    assert "change service c1: LAB_GPU_DEVICES 2 -> 4" in said(make_plan(wanted, facts))


def test_a_template_that_changed_makes_containers_differ() -> None:
    facts = replace(FACTS, hashes={**FACTS.hashes, "db": "new"})
    assert said(make_plan(LAB, facts)) == ["change service db: made from another definition"]


def test_containers_that_do_not_run_are_differences_and_what_they_know_is_unknown() -> None:
    facts = replace(FACTS, containers={**FACTS.containers, "slurmctld": container("slurmctld", "exited")}, config=None,
                    silent=("slurmctld does not run",))  # fmt: skip
    plan = make_plan(LAB, facts)
    assert said(plan) == ["change service slurmctld: exited -> running"]
    assert not plan.empty
    assert not Plan(unknown=("x",)).empty


def test_an_older_image_is_a_note() -> None:
    facts = replace(FACTS, containers={**FACTS.containers, "c1": container("c1", image="sha256:1")})
    plan = make_plan(LAB, facts)
    assert plan.empty
    assert "older image: c1" in plan.notes[0]


@pytest.mark.parametrize(("homes", "expected"), [
    ({}, ["change home of alice: missing"]), ({"alice": "0"}, ["change home of alice: owner 0 -> 2001"]), (None, []),
])  # fmt: skip
def test_homes(homes: dict[str, str] | None, expected: list[str]) -> None:
    assert said(make_plan(LAB, replace(FACTS, homes=homes))) == expected


def test_slurmdbd_that_has_not_read_its_file() -> None:
    (change,) = make_plan(LAB, replace(FACTS, slurmdbd_conf="old\n")).changes
    assert change.what == "slurmdbd"


def drifted(**texts: str) -> list[str]:
    text = "\n".join(NODE.format(name) for name in ("c1", "c2"))
    nodes = parse_rows(texts.get("nodes", text), "NodeName")
    partitions = parse_rows(texts.get("partitions", PARTITION), "PartitionName")
    return [
        str(one) for one in drift(render(LAB)[SLURM_CONF], parse_config(texts.get("config", CONFIG)), partitions, nodes)
    ]


def test_what_scontrol_changed_is_drift() -> None:
    assert drifted() == []
    assert drifted(config=CONFIG.replace("Match", "Different Ours=0x1 Slurmctld=0x2")) == [
        "change slurmctld: has not read its slurm.conf as it is now"]  # fmt: skip
    assert drifted(config=CONFIG.replace("(null)", "Gres").replace("info", "debug")) == [
        "change slurmctld SlurmctldDebug: debug -> info", "change slurmctld DebugFlags: gres -> none"]  # fmt: skip
    assert drifted(partitions=PARTITION.replace("MaxTime=01", "MaxTime=02").replace("State=UP", "State=DOWN")) == [
        "change partition gpu: by hand: State DOWN -> UP, MaxTime 02:00:00 -> 01:00:00"]  # fmt: skip
    assert drifted(partitions=f"{PARTITION}\n{PARTITION.replace('=gpu', '=x', 1)}") == [
        "remove partition x: made by hand"
    ]
    assert drifted(partitions="") == ["add partition gpu: slurmctld does not have it"]
    assert drifted(nodes=NODE.format("c1").replace("Weight=1", "Weight=3")) == [
        "change node c1: by hand: Weight 3 -> 1", "add node c2: slurmctld does not have it"]  # fmt: skip


@pytest.mark.parametrize(("given", "shown"), [
    ("OverSubscribe=YES", "OverSubscribe=YES:4"), ("OverSubscribe=FORCE:2", "OverSubscribe=FORCE:2"),
    ("DenyAccounts=b,a", "DenyAccounts=a,b"), ("QOS=high", "QoS=high"), ("DefMemPerCPU=1G", "DefMemPerCPU=1024"),
    ("MaxTime=1-0", "MaxTime=1-00:00:00"), ("MaxTime=90", "MaxTime=01:30:00"), ("AllowQos=b,a", "AllowQos=a,b"),
])  # fmt: skip
def test_slurms_forms_of_a_value_are_no_drift(given: str, shown: str) -> None:
    row = dict(part.split("=", 1) for part in ["PartitionName=x", "Nodes=c1", "State=UP", shown])
    assert drift(f"NodeName=c1 CPUs=1\nPartitionName=x Nodes=c1 {given}", {}, {"x": row}, {"c1": {"CPUTot": "1"}}) == []


def test_shards_get_the_type_of_their_gpu_from_slurmctld() -> None:
    row = {"CPUTot": "1", "Gres": "gpu:a100:8(S:0),shard:a100:32(S:0)"}
    conf = "NodeName=c1 CPUs=1 Gres={}\n"
    assert drift(conf.format("gpu:a100:8,shard:32"), {}, {}, {"c1": row}) == []
    assert drift(conf.format("gpu:a100:8,shard:16"), {}, {}, {"c1": row}) != []
    assert drift(conf.format("gpu:h100:8,shard:32"), {}, {}, {"c1": row}) != []


def test_a_drain_is_shown_and_no_difference() -> None:
    rows = parse_rows(NODE.format("c1").replace("IDLE", "IDLE+DRAIN") + " Reason=bad fan [root@now]", "NodeName")
    assert held_back(rows) == ["c1 is idle+drain: bad fan [root@now]"]
    plan = make_plan(LAB, replace(FACTS, nodes={**FACTS.nodes, **rows}))
    assert plan.empty
    assert plan.notes == ("c1 is idle+drain: bad fan [root@now]",)


def test_the_lines_of_slurm_conf() -> None:
    lines = parse_conf("# why\nA=b=c\nNodeName=c1 CPUs=1\nPartitionName=x Nodes=c1\n")
    assert lines.params == {"A": "b=c"}
    assert lines.nodes == {"c1": {"CPUs": "1"}}
    assert lines.partitions == {"x": {"Nodes": "c1"}}


def test_the_plan_for_programs_and_for_people() -> None:
    plan = make_plan(replace(LAB, qos=(Qos("low", priority=5),)), FACTS)
    cluster = cast(Cluster, SimpleNamespace(lab=LAB, settings=SimpleNamespace(project="p")))
    told = json.loads(plan_json(plan, cluster))
    assert told["empty"] is False
    command = ["sacctmgr", "-i", "modify", "qos", "where", "name=low", "set", "Priority=5"]
    assert told["accounting"] == [
        {"kind": "change", "what": "qos low", "detail": "Priority 0 -> 5", "command": command}
    ]
    out = StringIO()
    show(plan, Console(file=out, width=200))
    assert out.getvalue() == "accounting:\n  ~ qos low: Priority 0 -> 5\n1 difference; make apply closes them\n"
    out = StringIO()
    show(Plan(), Console(file=out, width=200))
    assert out.getvalue() == "nothing to do: the lab is what its YAML says\n"
