"""What a lab must keep beyond the types of its values; each check is shown to find what it is for, and only that."""

# ruff: noqa: E501 (one case a line reads better)

from __future__ import annotations

import pytest

from provisioning.checks import check, warnings_of
from provisioning.load import load_text
from provisioning.render.slurm_conf import slurm_conf
from tests.unit.small_lab import SMALL, changed, said

PREEMPT = "preempt_mode: REQUEUE"
PARTITION = "max_time: 01:00:00"
GRES = "gres: gpu:a100:2"
NODE = "real_memory: 8000"
QOS = "- name: low"
RAY = "name: small"


def slurm(text: str) -> str:
    return f"{PREEMPT}\n  {text}"


def partition(text: str) -> str:
    return f"{PARTITION}\n    {text}"


def ray(text: str) -> str:
    return f"name: small\nray: {{{text}}}"


CASES = [
    # nodes
    (GRES, f"{GRES}\n  - {{name: c2, cpus: 1, real_memory: 8000}}", "nodes[1].name: the node c2 is also in nodes[0]"),
    ("name: c[1-2]", "name: c[1-2],c2", "nodes[0].name: the node c2 is twice in this line"),
    ("name: cpu1", "name: Cpu1", "nodes[1].name: Cpu1 cannot be the host name of a container"),
    ("name: cpu1", "name: cpu_1", "nodes[1].name: cpu_1 cannot be the host name"),
    ("name: cpu1", "name: cpu-", "nodes[1].name: cpu- cannot be the host name"),
    ("name: cpu1", "name: 1cpu", "nodes[1].name: 1cpu cannot be the host name"),
    ("name: cpu1", "name: slurmctld", "nodes[1].name: slurmctld is the name of another part of the lab"),
    ("name: cpu1", "name: ray-worker-3", "nodes[1].name: ray-worker-3 is the name of another part"),
    ("name: cpu1", "name: d[1-63]", "nodes: the lab has 65 nodes, each is a container; at most 64"),
    (GRES, "gres: gpu:a100:65", "nodes[0].gres: a node with 65 GPUs; at most 64"),
    (GRES, "gres: gpu:a100:40,gpu:h100:40", "nodes[0].gres: a node with 80 GPUs"),
    (GRES, "gres: gpu:a100:0", "nodes[0].gres: gpu:a100:0 has none of it"),
    (GRES, "gres: gpu:a100:2,gpu:a100:2", "nodes[0].gres: gpu:a100 is there twice"),
    (GRES, "gres: gpu:a100:2,gpu:2", "nodes[0].gres: gpu is there with and without a type"),
    (GRES, "gres: shard:4", "nodes[0].gres: shards need GPUs on the same node"),
    (GRES, "gres: gpu:a100:4,shard:6", "nodes[0].gres: 6 shards do not spread evenly over 4 GPUs"),
    (GRES, "gres: gpu:a100:4,shard:a100:8", "nodes[0].gres: shards take no type here; write shard:8"),
    (GRES, "gres: gpu:a100:4,mps:400", "nodes[0].gres: mps needs hardware"),
    (NODE, f"{NODE}\n    extra: {{Gres: x}}", "nodes[1].extra.Gres: has a key of its own; write gres"),
    (NODE, f"{NODE}\n    extra: {{Tmpdisk: 5}}", "nodes[1].extra.Tmpdisk: is no parameter of this line in slurm.conf; did you mean TmpDisk?"),
    (NODE, f"{NODE}\n    extra: {{NodeAddr: x}}", "nodes[1].extra.NodeAddr: is written by the lab itself"),
    (NODE, f"{NODE}\n    extra: {{TmpDisk: 5 Port=1}}", "nodes[1].extra.TmpDisk: '5 Port=1' would break the line"),
    (NODE, f"{NODE}\n    extra: {{AutoDetect: nvml}}", "nodes[1].extra.AutoDetect: is of gres.conf"),
    # slurm
    (PREEMPT, "cluster_name: Lab", "slurm.cluster_name: Lab is no name of a cluster"),
    (PREEMPT, "preempt_mode: SUSPEND", "slurm.preempt_mode: SUSPEND needs GANG"),
    (PREEMPT, "preempt_mode: OFF", "slurm.preempt_mode: preempt/qos needs a way to preempt"),
    (PREEMPT, "preempt_mode: GANG", "slurm.preempt_mode: preempt/qos needs a way to preempt"),
    (PREEMPT, "preempt_mode: REQUEUE,CANCEL", "slurm.preempt_mode: REQUEUE,CANCEL is more than one way to preempt"),
    (PREEMPT, slurm("preempt_type: preempt/partition_prio").replace("REQUEUE", "REQUEUE,WITHIN"), "WITHIN is for preempt/qos"),
    (PREEMPT, slurm("select_type_parameters: CR_Foo"), "slurm.select_type_parameters: 'CR_Foo' is not known to Slurm"),
    (PREEMPT, slurm("select_type_parameters: CR_Core,CR_CPU"), "exactly one word for what is counted"),
    (PREEMPT, slurm("select_type_parameters: CR_LLN"), "exactly one word for what is counted"),
    (PREEMPT, slurm("def_mem_per_cpu: 16001"), "slurm.def_mem_per_cpu: 16001 MB for one CPU is more than any node has"),
    (PREEMPT, slurm("def_mem_per_cpu: ''"), "slurm.def_mem_per_cpu: '' is not a memory size"),
    (PREEMPT, slurm("priority_weights: {agee: 1}"), "slurm.priority_weights.agee: is no factor of the priority; did you mean age?"),
    (PREEMPT, slurm("priority_weights: {age: 4294967295}"), "slurm.priority_weights.age: '4294967295' is not a weight"),
    (PREEMPT, slurm("priority_weights: {age: -1}"), "slurm.priority_weights.age: '-1' is not a weight"),
    (PREEMPT, slurm("priority_calc_period: 0"), "slurm.priority_calc_period: 0 is not possible"),
    (PREEMPT, slurm("priority_max_age: UNLIMITED"), "slurm.priority_max_age: UNLIMITED is not possible"),
    (PREEMPT, slurm("accounting_storage_enforce: [limit]"), "'limit' is not known to Slurm here; did you mean limits?"),
    (PREEMPT, slurm("private_data: [secrets]"), "slurm.private_data: 'secrets' is not known"),
    (PREEMPT, slurm("scheduler_parameters: {bf_intervall: 2}"), "bf_intervall: is not known to Slurm; did you mean bf_interval?"),
    (PREEMPT, slurm("scheduler_parameters: {bf_interval: 0}"), "bf_interval: 0 is refused by Slurm"),
    (PREEMPT, slurm("scheduler_parameters: {bf_interval: 2s}"), "bf_interval: '2s' is not a whole number"),
    (PREEMPT, slurm("scheduler_parameters: {bf_continue: yes}"), "bf_continue: is a flag and takes no value"),
    (PREEMPT, slurm("preempt_parameters: {young_first: ''}"), "did you mean youngest_first?"),
    (PREEMPT, slurm("requeue_exit: 99;98"), "slurm.requeue_exit: 99;98 are no exit codes"),
    (PREEMPT, slurm("requeue_exit: 256"), "slurm.requeue_exit: an exit code is at most 255"),
    (PREEMPT, slurm("extra: {KillWait: 3}"), "slurm.extra.KillWait: has a key of its own; write slurm.kill_wait"),
    (PREEMPT, slurm("extra: {killwait: 3}"), "slurm.extra.killwait: has a key of its own; write slurm.kill_wait"),
    (PREEMPT, slurm("extra: {PriorityWeightJobSize: 3}"), "write slurm.priority_weights.job_size"),
    (PREEMPT, slurm("extra: {PriorityWeightQOS: 3}"), "write slurm.priority_weights.qos"),
    (PREEMPT, slurm("extra: {AuthType: auth/munge}"), "slurm.extra.AuthType: is written by the lab itself"),
    (PREEMPT, slurm("extra: {ReturnToservice: 1}"), "slurm.extra.ReturnToservice: is written by the lab itself"),
    (PREEMPT, slurm("extra: {JobRequeu: 1}"), "slurm.extra.JobRequeu: is no parameter of this line in slurm.conf; did you mean JobRequeue?"),
    (PREEMPT, slurm("extra: {JobRequeue: 1 AuthType=x}"), "slurm.extra.JobRequeue: '1 AuthType=x' would break the line"),
    (PREEMPT, slurm("extra: {JobRequeue: ''}"), "slurm.extra.JobRequeue: '' would break the line"),
    (PREEMPT, slurm("extra: {DefMemPerGPU: 5}"), "slurm.extra.DefMemPerGPU: cannot stand beside slurm.def_mem_per_cpu"),
    # partitions
    ("default: yes", "default: no", "partitions: no partition is the default"),
    (PARTITION, f"{PARTITION}\n  - {{name: b, nodes: ALL, default: yes}}", "partitions: gpu, b are all the default"),
    (PARTITION, f"{PARTITION}\n  - {{name: gpu, nodes: ALL}}", "partitions[1].name: gpu is already the name of partitions[0]"),
    ("name: gpu", "name: Default", "partitions[0].name: Default has a meaning of its own"),
    ("nodes: c[1-2]", "nodes: c[1-4]", "partitions[0].nodes: 'c[3-4]' is not in nodes; the lab has c[1-2],cpu1"),
    (PARTITION, partition("default_time: 02:00:00"), "default_time: 02:00:00 is longer than max_time 01:00:00"),
    (PARTITION, partition("default_time: UNLIMITED"), "default_time: UNLIMITED is longer than max_time"),
    (PARTITION, "max_time: 0", "partitions[0].max_time: no job can run for no time"),
    (PARTITION, partition("allow_qos: [hihg]"), "partitions[0].allow_qos: 'hihg' is not in qos; did you mean high?"),
    (PARTITION, partition("qos: big"), "partitions[0].qos: 'big' is not in qos"),
    (PARTITION, partition("allow_accounts: [reserach]"), "'reserach' is not in accounts; did you mean research?"),
    (PARTITION, partition("deny_accounts: [nobody]"), "partitions[0].deny_accounts: 'nobody' is not in accounts"),
    (PARTITION, partition("min_nodes: 3"), "partitions[0].min_nodes: 3 is more than the partition's 2 nodes"),
    (PARTITION, partition("{min_nodes: 2, max_nodes: 1}").replace("{", "").replace(", ", "\n    ").replace("}", ""), "max_nodes: 1 is less than min_nodes 2"),
    (PARTITION, partition("def_mem_per_cpu: 17000"), "def_mem_per_cpu: is more for one CPU than any node of the partition"),
    (PARTITION, partition("over_subscribe: MAYBE"), "partitions[0].over_subscribe: MAYBE is not known to Slurm"),
    (PARTITION, partition("preempt_mode: GANG"), "partitions[0].preempt_mode: GANG is for the whole cluster"),
    (PARTITION, partition("preempt_mode: SUSPEND"), "partitions[0].preempt_mode: SUSPEND needs GANG in slurm"),
    (PARTITION, partition("tres_billing_weights: gres/gpu:h100=2"), "tres_billing_weights: no node has gres/gpu:h100"),
    (PARTITION, partition("tres_billing_weights: mem=0.25g"), "tres_billing_weights: mem=0.25g is not a weight"),
    (PARTITION, partition("extra: {MaxTime: 5}"), "partitions[0].extra.MaxTime: has a key of its own; write max_time"),
    (PARTITION, partition("extra: {Hiden: yes}"), "partitions[0].extra.Hiden: is no parameter of this line in slurm.conf; did you mean Hidden?"),
    # qos
    (QOS, f"{QOS}\n    preempt: [high]", "qos[2].preempt: preemption runs in a circle: high preempts low preempts high"),
    (QOS, f"{QOS}\n    preempt: [low]", "qos[1].preempt: preemption runs in a circle: low preempts low"),
    ("preempt: [low]", "preempt: [lowest]", "qos[2].preempt: 'lowest' is not in qos; valid: high, low, normal"),
    (QOS, f"{QOS}\n  - name: LOW", "qos[2].name: LOW is already the name of qos[1]"),
    (QOS, f"{QOS}\n    max_tres_per_user: gres/gpu:h100=2", "max_tres_per_user: no node has gres/gpu:h100; did you mean gres/gpu:a100?"),
    (QOS, f"{QOS}\n    grp_tres: gres/gpu=1.5", "grp_tres: gres/gpu=1.5 is not a whole number"),
    (QOS, f"{QOS}\n    max_tres_per_job: cpu=4G", "max_tres_per_job: cpu=4G is not a whole number"),
    (QOS, f"{QOS}\n    preempt_mode: suspend", "qos[1].preempt_mode: suspend needs GANG"),
    (QOS, f"{QOS}\n    max_jobs_per_user: 5\n    max_submit_jobs_per_user: 4", "5 can never run"),
    # accounts and users
    ("parent: research", "parent: reserch", "accounts[1].parent: 'reserch' is not in accounts; did you mean research?"),
    ("parent: research", "parent: teamA", "accounts[1].parent: the accounts run in a circle: teama below teama"),
    ("qos: [normal, low, high]", "parent: teamA", "accounts[0].parent: the accounts run in a circle: research below teama below research"),
    ("- name: teamA", "- name: RESEARCH\n  - name: teamA", "accounts[1].name: RESEARCH is already the name of accounts[0]"),
    ("- name: teamA", "- name: root\n  - name: teamA", "accounts[1].name: root is the top of Slurm's own tree"),
    ("[normal, low, high]", "[normal, lo]", "accounts[0].qos: 'lo' is not in qos"),
    ("parent: research", "default_qos: low", "accounts[1].default_qos: low is not among the QOS of the account teama: normal"),
    ("qos: [normal, low, high]", "qos: [normal]\n    default_qos: low", "default_qos: low is not among the QOS of the account research: normal"),
    ("uid: 2001", "uid: 1999", "users[0].uid: 1999 is out of range; write 2000 to 60000"),
    ("uid: 2002", "uid: 2001", "users[1].uid: 2001 is the uid of alice too"),
    ("name: bob", "name: alice", "users[1].name: alice is already the name of users[0]"),
    ("name: bob", "name: Bob", "users[1].name: Bob cannot be a Unix user"),
    ("name: bob", "name: slurm", "users[1].name: slurm is a name that the system uses"),
    ("name: bob", "name: labusers", "users[1].name: labusers is a name that the system uses"),
    ("[teamA, research]", "[team, research]", "users[1].accounts: 'team' is not in accounts; did you mean teamA?"),
    ("[teamA, research]", "[teamA, TEAMA]", "users[1].accounts: an account is there twice"),
    ("uid: 2001", "uid: 2001\n    default_account: teamA", "users[0].default_account: teamA is not among the user's accounts"),
    ("uid: 2001", "uid: 2001\n    default_qos: big", "users[0].default_qos: 'big' is not in qos"),
    (GRES, "gres: fpga:70000", "nodes[0].gres: fpga:70000 is too many; at most 65533"),
    (PREEMPT, slurm("priority_weights: {tres: gres/gpu:h100=5}"), "slurm.priority_weights.tres: no node has gres/gpu:h100"),
    (PREEMPT, slurm("priority_weights: {tres: lots}"), "slurm.priority_weights.tres: 'lots' is not of the form name=value"),
    (PREEMPT, slurm("scheduler_parameters: {bf_hetjob_prio: 'min max'}"), "bf_hetjob_prio: 'min max' is not one plain word"),
    (PARTITION, partition("allow_accounts: teamA\n    deny_accounts: teamA"), "deny_accounts: Slurm ignores it beside allow_accounts"),
    (PARTITION, partition("preempt_mode: REQUEUE,CANCEL"), "partitions[0].preempt_mode: REQUEUE,CANCEL is more than one way"),
    (PARTITION, partition("def_mem_per_cpu: 5\n    extra: {DefMemPerGPU: 5}"), "extra.DefMemPerGPU: cannot stand beside def_mem_per_cpu"),
    (PARTITION, partition("extra: {DefMemPerNode: 5, DefMemPerGPU: 5}"), "extra.DefMemPerGPU: cannot stand beside DefMemPerNode"),
    ("parent: research", "default_qos: lowe", "accounts[1].default_qos: 'lowe' is not in qos"),
    ("parent: research", "grp_tres: gres/gpu:h100=1", "accounts[1].grp_tres: no node has gres/gpu:h100"),
    ("parent: research", "max_jobs: 5\n    max_submit_jobs: 4", "accounts[1].max_jobs: 5 can never run: max_submit_jobs is 4"),
    (RAY, ray("workers: {resources: {'a b': 2}}"), "ray.workers.resources.a b: is no name of a resource"),
    # Ray, ports, zone, name
    (RAY, ray("workers: {count: 65}"), "ray.workers.count: 65 is out of range; write 0 to 64"),
    (RAY, ray("head: {count: 2}"), "ray.head.count: there is one head"),
    (RAY, ray("workers: {object_store_memory: 74M}"), "ray.workers.object_store_memory: Ray needs at least 75M"),
    (RAY, ray("head: {memory: 100M}"), "ray.head.memory: 100M is less than object_store_memory"),
    (RAY, ray("workers: {resources: {GPU: 2}}"), "ray.workers.resources.GPU: is a resource of Ray's own"),
    (RAY, ray("workers: {resources: {tpu: many}}"), "ray.workers.resources.tpu: 'many' is not an amount"),
    (RAY, ray("workers: {labels: {ray.io/x: y}}"), "ray.workers.labels.ray.io/x: labels of ray.io are Ray's own"),
    (RAY, ray("workers: {labels: {zone: 'a,b=c'}}"), "ray.workers.labels.zone: 'a,b=c' is no label Ray takes"),
    (RAY, "name: small\nports: {dashboard: 70000}", "ports.dashboard: '70000' is no port"),
    (RAY, "name: small\nports: {dashboard: 'example.org:80'}", "ports.dashboard: 'example.org:80' is no port"),
    (RAY, "name: small\nports: {dashboard: '::1:80'}", "ports.dashboard: '::1:80' is no port"),
    (RAY, "name: small\ntimezone: Europe/Berlim", "timezone: 'Europe/Berlim' is no time zone; did you mean Europe/Berlin?"),
    (RAY, "name: small\ntimezone: ../etc/passwd", "timezone: '../etc/passwd' is no time zone; write host, UTC"),
    (RAY, "name: Small", "name: Small is no name of a lab"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), CASES, ids=[message[:60] for _, _, message in CASES])
def test_it_is_found_and_nothing_else_with_it(old: str, new: str, message: str) -> None:
    lines = said(changed(old, new))
    assert len(lines) == 1, lines
    assert message in lines[0]


def test_nodes_and_partitions_are_needed() -> None:
    lines = said("name: small\n")
    assert [line.split(": ", 1)[1].split(";")[0] for line in lines] == [
        "nodes: the lab has no node", "partitions: the lab has no partition"]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (GRES, "gres: ''"),
        (GRES, "gres: gpu:a100:4,gpu:h100:4,shard:16"),
        ("name: c[1-2]", "name: c[1-2]"),
        ("parent: research", "parent: root"),
        ("[teamA, research]", "[TEAMA, Research]"),
        (PREEMPT, "preempt_type: preempt/none\n  preempt_mode: GANG"),
        (PREEMPT, slurm("extra: {InteractiveStepOptions: '\"--pty $SHELL\"', JobRequeue: 0}")),
        (PREEMPT, slurm("scheduler_parameters: {bf_continue: , bf_max_job_test: 500}")),
        (PREEMPT, slurm("priority_weights: {tres: 'cpu=10,gres/gpu=100'}")),
        (PREEMPT, slurm("priority_decay_half_life: 0")),
        (PARTITION, partition("preempt_mode: OFF")),
        (PARTITION, "max_time: UNLIMITED\n    default_time: 7-0"),
        (RAY, "name: small\nports: {dashboard: '[::1]:8265'}"),
        (RAY, "name: small\ntimezone: America/Argentina/Buenos_Aires"),
        (RAY, ray("workers: {count: 0}")),
    ],
)
def test_what_is_right_is_let_through(old: str, new: str) -> None:
    assert said(changed(old, new)) == []


def test_a_lab_without_gpus_is_a_lab() -> None:
    lab = load_text(changed(f"    {GRES}\n", ""), "small.yaml")
    assert "GresTypes" not in slurm_conf(lab)


def test_checks_can_be_asked_without_a_file() -> None:
    lab = load_text(SMALL, "small.yaml")
    assert check(lab) == []
    assert warnings_of(lab) == []


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        (RAY, "name: small\nports: {dashboard: '0.0.0.0:8265'}", "ports.dashboard: 0.0.0.0:8265 can be reached from other"),
        (PARTITION, partition("preempt_mode: CANCEL"), "partitions[0].preempt_mode: has no effect with preempt/qos"),
        (PREEMPT, slurm("preempt_type: preempt/partition_prio"), "qos[2].preempt: has no effect with preempt/partition_prio"),
        (PREEMPT, slurm("scheduler_parameters: {requeue_delay: 5}"), "requeue_delay: only Slurm 26.05 knows it"),
        (PREEMPT, slurm("extra: {GetEnvTimeout: 5}"), "slurm.extra.GetEnvTimeout: only Slurm 24.11 knows it"),
        (PREEMPT, slurm("slurmd_timeout: 30"), "30 s is short beside message_timeout 5 s: a frozen node may take healthy"),
        (PREEMPT, slurm("message_timeout: 10"), "a frozen node may take healthy ones with it; 64 s is enough"),
        (PARTITION, partition("extra: {Exclusive: USER}"), "partitions[0].extra.Exclusive: only Slurm 26.05 knows it"),
    ],
)  # fmt: skip
def test_what_works_otherwise_than_thought_gives_a_warning(old: str, new: str, warning: str) -> None:
    (one,) = warnings_of(load_text(changed(old, new), "small.yaml"))
    assert warning in one
