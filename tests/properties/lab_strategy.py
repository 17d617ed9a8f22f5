"""Valid labs for property-based tests: ``labs()`` gives Lab objects, ``as_yaml`` the file that describes one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from provisioning import slurmtypes
from provisioning.lab import Account, Lab, Nodes, Partition, Ports, Qos, Ray, RayNodes, Slurm, User

TYPES = ("a100", "h100", "v100s")
_FEATURES = ("nvlink", "a100", "h100", "big.mem", "rack_1")
_QOS = ("low", "high", "debug", "capped", "long-runs", "Team.Q")
_ACCOUNTS = ("research", "teaching", "teamA", "group_1", "x")
_USERS = ("alice", "bob", "carol", "dan-2", "_eve")


def _subset(names: tuple[str, ...] | list[str], least: int = 0) -> st.SearchStrategy[tuple[str, ...]]:
    if not names:
        return st.just(())
    return st.lists(st.sampled_from(names), unique=True, min_size=least, max_size=4).map(tuple)


def _maybe(strategy: st.SearchStrategy[Any], otherwise: Any = "") -> st.SearchStrategy[Any]:
    return st.one_of(st.just(otherwise), strategy)


def _times(least: int = 60, most: int = 14 * 86400) -> st.SearchStrategy[str]:
    """Times in each of Slurm's ways of writing them."""
    return st.integers(least, most).flatmap(
        lambda s: st.sampled_from([slurmtypes.format_time(s), str(s // 60), f"{s // 60}:{s % 60:02}"])
    )


@st.composite
def _node_lines(draw: st.DrawFn) -> tuple[Nodes, ...]:
    lines = []
    for prefix in draw(st.lists(st.sampled_from(["c", "gpu-", "n0x", "a"]), unique=True, min_size=1, max_size=3)):
        first, count = draw(st.integers(0, 12)), draw(st.integers(1, 4))
        hosts = [f"{prefix}{number}" for number in range(first, first + count)]
        if draw(st.booleans()):
            hosts.append(f"{prefix}{first + count + 3}")
        kinds = draw(_subset(TYPES))
        gpus = [slurmtypes.Gres("gpu", kind, draw(st.integers(1, 8))) for kind in kinds]
        if not gpus and draw(st.booleans()):
            gpus = [slurmtypes.Gres("gpu", "", draw(st.integers(1, 8)))]
        gres = [str(one) for one in gpus]
        if gpus and draw(st.booleans()):
            gres.append(f"shard:{sum(one.count for one in gpus) * draw(st.integers(1, 4))}")
        lines.append(
            Nodes(
                name=slurmtypes.compress_hosts(hosts),
                cpus=draw(st.integers(1, 256)),
                real_memory=draw(st.sampled_from(["8000", "515000", "64G", "1T", "9000000K"])),
                gres=",".join(gres),
                features=draw(_subset(_FEATURES)),
                weight=draw(st.integers(1, 1000)),
                extra=draw(st.sampled_from([{}, {"TmpDisk": "1000"}, {"MemSpecLimit": "100"}])),
            )
        )
    return tuple(lines)


@st.composite
def _tres(draw: st.DrawFn, nodes: tuple[Nodes, ...], billing: bool = False) -> str:
    """A TRES text that names only what some node has."""
    known = ["cpu", "mem", "node"]
    for line in nodes:
        for gres in slurmtypes.parse_gres(line.gres):
            known += [f"gres/{gres.name}"] + ([f"gres/{gres.name}:{gres.type}"] if gres.type else [])
    names = draw(_subset(sorted(set(known)), least=1))
    return ",".join(f"{name}={draw(st.integers(1, 64))}" + ("G" if name == "mem" else "") for name in names) if (
        not billing
    ) else ",".join(f"{name}={draw(st.sampled_from(['1.0', '0.25', '2']))}" for name in names)  # fmt: skip


@st.composite
def _qos_list(draw: st.DrawFn, nodes: tuple[Nodes, ...]) -> tuple[Qos, ...]:
    found: list[Qos] = []
    for name in draw(_subset(_QOS)):
        jobs = draw(_maybe(st.integers(0, 50), None))
        found.append(
            Qos(
                name=name,
                description=draw(st.sampled_from(["", "for everyone, each day: ok", "a (short) text = fine"])),
                priority=draw(st.integers(0, 100000)),
                preempt=draw(_subset([one.name for one in found])),
                preempt_mode=draw(st.sampled_from(["", "cluster", "cancel", "requeue"])),
                preempt_exempt_time=draw(_maybe(_times(0, 3600))),
                grace_time=draw(_maybe(st.integers(0, 600), None)),
                usage_factor=draw(st.sampled_from([0.0, 0.5, 1.0, 2.25])),
                flags=draw(_subset(("DenyOnLimit", "NoDecay", "OverPartQOS"))),
                max_tres_per_user=draw(_maybe(_tres(nodes))),
                max_tres_per_job=draw(_maybe(_tres(nodes))),
                grp_tres=draw(_maybe(_tres(nodes))),
                max_jobs_per_user=jobs,
                max_submit_jobs_per_user=draw(_maybe(st.integers(jobs or 0, 100), None)),
                max_wall=draw(_maybe(_times())),
            )
        )
    return tuple(found)


@st.composite
def _account_tree(draw: st.DrawFn, qos: list[str], nodes: tuple[Nodes, ...]) -> tuple[Account, ...]:
    found: list[Account] = []
    allowed: dict[str, tuple[str, ...]] = {"root": ("normal",)}
    for name in draw(_subset(_ACCOUNTS, least=1)):
        parent = draw(st.sampled_from(sorted(allowed)))
        own = draw(_subset(qos))
        allowed[name] = own or allowed[parent]
        found.append(
            Account(
                name=name,
                parent=parent,
                fairshare=draw(st.integers(0, 100)),
                qos=own,
                default_qos=draw(_maybe(st.sampled_from(allowed[name]))),
                grp_tres=draw(_maybe(_tres(nodes))),
                max_jobs=draw(_maybe(st.integers(0, 50), None)),
                max_wall=draw(_maybe(_times())),
            )
        )
    return tuple(found)


@st.composite
def _partition_list(draw: st.DrawFn, nodes: tuple[Nodes, ...], qos: list[str], accounts: list[str],
                    slurm: Slurm) -> tuple[Partition, ...]:  # fmt: skip
    hosts = [host for line in nodes for host in slurmtypes.expand_hosts(line.name)]
    names = draw(st.lists(st.sampled_from(["gpu", "debug", "Batch", "a.b"]), unique=True, min_size=1, max_size=3))
    default = draw(st.sampled_from(names))
    tiers = slurm.preempt_type == "preempt/partition_prio"
    modes = ["", "OFF", "REQUEUE", "CANCEL"] + (["SUSPEND"] if "GANG" in slurm.preempt_mode else [])
    found = []
    for name in names:
        mine = draw(st.lists(st.sampled_from(hosts), unique=True, min_size=1))
        longest = draw(_maybe(_times(3600)))
        found.append(
            Partition(
                name=name,
                nodes=draw(st.sampled_from(["ALL", slurmtypes.compress_hosts(mine)])),
                default=name == default,
                max_time=longest,
                default_time=draw(_maybe(_times(60, 3599))),
                allow_accounts=draw(_subset(accounts)),
                allow_qos=draw(_subset(qos)),
                qos=draw(_maybe(st.sampled_from(qos))),
                priority_tier=draw(_maybe(st.integers(0, 1000), None)),
                preempt_mode=draw(st.sampled_from(modes)) if tiers else "",
                over_subscribe=draw(st.sampled_from(["", "NO", "YES:2", "FORCE", "EXCLUSIVE"])),
                max_nodes=draw(_maybe(st.integers(1, 64), None)),
                def_mem_per_cpu=draw(st.sampled_from(["", "100", "1G"])),
                tres_billing_weights=draw(_maybe(_tres(nodes, billing=True))),
                grace_time=draw(_maybe(st.integers(0, 600), None)),
                extra=draw(st.sampled_from([{}, {"LLN": "YES"}, {"OverTimeLimit": "5"}])),
            )
        )
    return tuple(found)


@st.composite
def _cluster(draw: st.DrawFn) -> Slurm:
    kind = draw(st.sampled_from(["preempt/none", "preempt/qos", "preempt/partition_prio"]))
    modes = ["OFF", "GANG"] if kind == "preempt/none" else ["REQUEUE", "CANCEL", "SUSPEND,GANG", "REQUEUE,GANG"]
    scheduler = {"bf_interval": "2", "bf_continue": "", "bf_window": "10080", "sched_min_interval": "100000"}
    return Slurm(
        def_mem_per_cpu=draw(st.sampled_from(["100", "4000", "1G"])),
        select_type_parameters=draw(st.sampled_from(["CR_Core_Memory", "CR_CPU_Memory,CR_LLN"])),
        scheduler_parameters={name: scheduler[name] for name in draw(_subset(tuple(scheduler)))},
        preempt_type=kind,
        preempt_mode=draw(st.sampled_from(modes)),
        preempt_exempt_time=draw(_maybe(_times(0, 3600))),
        priority_weights={name: str(draw(st.integers(0, 10**6))) for name in draw(_subset(("age", "qos", "job_size")))},
        priority_favor_small=draw(st.booleans()),
        private_data=draw(_subset(("jobs", "users"))),
        kill_wait=draw(st.integers(0, 60)),
        requeue_exit=draw(st.sampled_from(["", "99", "1-4,99"])),
        extra=draw(st.sampled_from([{}, {"JobRequeue": "1", "CompleteWait": "0"}, {"DebugFlags": "Gres,Backfill"}])),
    )


@st.composite
def _ray_nodes(draw: st.DrawFn, head: bool = False) -> RayNodes:
    return RayNodes(
        count=1 if head else draw(st.integers(0, 4)),
        cpus=draw(st.integers(0, 64)),
        gpus=draw(st.integers(0, 8)),
        memory=draw(st.sampled_from(["1G", "2048"])),
        object_store_memory=draw(st.sampled_from(["80M", "128"])),
        resources=draw(st.sampled_from([{}, {"tpu": "2", "half": "0.5"}])),
        labels=draw(st.sampled_from([{}, {"zone": "a-1", "example.org/kind": "x"}])),
    )


@st.composite
def labs(draw: st.DrawFn) -> Lab:
    """A valid lab: ``check`` finds nothing in it, and every renderer takes it."""
    slurm, nodes = draw(_cluster()), draw(_node_lines())
    qos = draw(_qos_list(nodes))
    qos_names = [*(one.name for one in qos), "normal"]
    accounts = draw(_account_tree(qos_names, nodes))
    account_names = [one.name for one in accounts]
    users = []
    for number, name in enumerate(draw(_subset(_USERS))):
        mine = draw(_subset(account_names, least=1))
        users.append(User(name=name, uid=2000 + number * 7, accounts=mine,
                          default_account=draw(_maybe(st.sampled_from(mine))), fairshare=draw(st.integers(0, 9)),
                          admin_level=draw(st.sampled_from(["", "None", "Operator"]))))  # fmt: skip
    return Lab(
        name=draw(st.sampled_from(["mine", "lab-2", "x_1"])),
        description=draw(st.sampled_from(["", "a lab, for tests: yes"])),
        timezone=draw(st.sampled_from(["UTC", "Europe/Berlin"])),
        slurm=slurm,
        nodes=nodes,
        partitions=draw(_partition_list(nodes, qos_names, account_names, slurm)),
        qos=qos,
        accounts=accounts,
        users=tuple(users),
        ray=Ray(head=draw(_ray_nodes(head=True)), workers=draw(_ray_nodes())),
        ports=Ports(dashboard=draw(st.sampled_from(["8265", "127.0.0.1:9000", "[::1]:80"]))),
    )


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)
                if getattr(value, one.name) is not None}  # fmt: skip
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return value


def as_yaml(lab: Lab) -> str:
    """A file that describes the lab: JSON, which is YAML too, every field written out."""
    return json.dumps(_plain(lab), indent=1)
