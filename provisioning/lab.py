"""The model of one lab: what a YAML file under ``labs/`` says, as plain frozen data.

Keys are Slurm's own parameter names in snake_case (slurm.conf(5), gres.conf(5), sacctmgr(1)); values are kept as
Slurm writes them, so that ``gpu:a100:8`` is one string everywhere. Each field carries, in its metadata, the Slurm name
it stands for, the kind of value it takes and one sentence of help; the loader, the JSON Schema and the renderers are
derived from that. This module imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

#: A value that is not given: the parameter is left to Slurm's own default.
UNSET = ""

#: Services that every lab has; nodes and Ray workers come from its YAML.
FIXED_SERVICES = ("db", "slurmdbd", "slurmctld", "absent", "login", "ray-head")


#: The greatest number Slurm keeps in 16 and in 32 bits; the values above mean "not set" and "no limit".
MAX16, MAX32 = 65533, 4294967293


def param(
    kind: str,
    default: Any = UNSET,
    *,
    slurm: str = "",
    choices: tuple[str, ...] = (),
    bounds: tuple[int, int] = (0, MAX32),
    help: str,
) -> Any:
    """Describe one field.

    kind: name | hostlist | names | text | int | float | bool | time | memory | tres | gres | choice | choices | map.
    ``default=MISSING`` makes the key required. ``slurm`` is the parameter's name in Slurm's files or in sacctmgr;
    ``bounds`` are the least and the greatest value of a number.
    """
    metadata = {"kind": kind, "slurm": slurm, "choices": choices, "bounds": bounds, "help": help}
    if default is MISSING:
        return field(metadata=metadata)
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


PREEMPT_MODES = ("OFF", "CANCEL", "REQUEUE", "SUSPEND", "GANG", "WITHIN")
QOS_FLAGS = ("DenyOnLimit", "EnforceUsageThreshold", "NoReserve", "PartitionMaxNodes", "PartitionMinNodes",
             "OverPartQOS", "PartitionTimeLimit", "RequiresReservation", "NoDecay", "UsageFactorSafe")  # fmt: skip


@dataclass(frozen=True)
class Nodes:
    """One line of NodeName: one node or a range of equal nodes."""

    name: str = param("hostlist", MISSING, slurm="NodeName", help="a name or a range, such as c[1-4]")
    cpus: int = param("int", MISSING, bounds=(1, MAX16), slurm="CPUs", help="CPUs the node claims to have")
    real_memory: str = param("memory", MISSING, slurm="RealMemory", help="memory it claims, in MB or with a suffix")
    gres: str = param("gres", slurm="Gres", help="generic resources, such as gpu:a100:8 or gpu:a100:8,shard:32")
    features: tuple[str, ...] = param("names", (), slurm="Features", help="what a job can ask for with --constraint")
    weight: int = param("int", 1, slurm="Weight", help="nodes of a lower weight are given out first")
    extra: Mapping[str, str] = param("map", {}, help="further parameters of the NodeName line, by their Slurm names")


@dataclass(frozen=True)
class Partition:
    """One PartitionName line."""

    name: str = param("name", MISSING, slurm="PartitionName", help="the partition's name")
    nodes: str = param("hostlist", MISSING, slurm="Nodes", help="nodes of the partition, or ALL")
    default: bool = param("bool", False, slurm="Default", help="jobs that name no partition go here")
    max_time: str = param("time", slurm="MaxTime", help="longest time limit of a job")
    default_time: str = param("time", slurm="DefaultTime", help="time limit of a job that names none")
    allow_accounts: tuple[str, ...] = param("names", (), slurm="AllowAccounts", help="only these accounts may submit")
    deny_accounts: tuple[str, ...] = param("names", (), slurm="DenyAccounts", help="these accounts may not submit")
    allow_qos: tuple[str, ...] = param("names", (), slurm="AllowQos", help="only these QOS may be used")
    qos: str = param("name", slurm="QOS", help="the partition QOS, whose limits apply to all its jobs")
    priority_tier: int | None = param(
        "int", None, bounds=(0, MAX16), slurm="PriorityTier", help="higher tiers go first"
    )
    priority_job_factor: int | None = param(
        "int", None, bounds=(0, MAX16), slurm="PriorityJobFactor", help="its part of the priority"
    )
    preempt_mode: str = param("choices", slurm="PreemptMode", choices=PREEMPT_MODES, help="what happens to its jobs")
    over_subscribe: str = param("text", slurm="OverSubscribe", help="NO, YES[:n], FORCE[:n] or EXCLUSIVE")
    min_nodes: int | None = param("int", None, bounds=(1, 64), slurm="MinNodes", help="fewest nodes of a job")
    max_nodes: int | None = param("int", None, bounds=(1, 64), slurm="MaxNodes", help="most nodes of a job")
    def_mem_per_cpu: str = param("memory", slurm="DefMemPerCPU", help="memory of a job that names none, for each CPU")
    tres_billing_weights: str = param("tres", slurm="TRESBillingWeights", help="what a CPU, GB or GPU costs")
    grace_time: int | None = param(
        "int", None, slurm="GraceTime", help="seconds from warning to end of a preempted job"
    )
    extra: Mapping[str, str] = param(
        "map", {}, help="further parameters of the PartitionName line, by their Slurm names"
    )


@dataclass(frozen=True)
class Qos:
    """One quality of service, as sacctmgr(1) keeps it."""

    name: str = param("name", MISSING, slurm="Name", help="the QOS's name")
    description: str = param("text", slurm="Description", help="one sentence for people")
    priority: int = param("int", 0, slurm="Priority", help="the QOS's part of a job's priority")
    preempt: tuple[str, ...] = param("names", (), slurm="Preempt", help="QOS whose jobs it may preempt")
    preempt_mode: str = param("choice", slurm="PreemptMode", choices=("cluster", "cancel", "requeue", "suspend"),
                              help="what happens to ITS jobs when they are preempted")  # fmt: skip
    preempt_exempt_time: str = param("time", slurm="PreemptExemptTime", help="a job younger than this is not preempted")
    grace_time: int | None = param(
        "int", None, slurm="GraceTime", help="seconds from warning to end of a preempted job"
    )
    usage_factor: float = param("float", 1.0, slurm="UsageFactor", help="how much its usage counts")
    flags: tuple[str, ...] = param("choices", (), slurm="Flags", choices=QOS_FLAGS, help="QOS flags")
    max_tres_per_user: str = param("tres", slurm="MaxTRESPerUser", help="most resources one user holds at a time")
    max_tres_per_job: str = param("tres", slurm="MaxTRESPerJob", help="most resources of one job")
    grp_tres: str = param("tres", slurm="GrpTRES", help="most resources all its jobs hold at a time")
    max_jobs_per_user: int | None = param("int", None, slurm="MaxJobsPerUser", help="most running jobs of a user")
    max_submit_jobs_per_user: int | None = param("int", None, slurm="MaxSubmitJobsPerUser", help="most queued jobs")
    max_wall: str = param("time", slurm="MaxWall", help="longest time limit of a job")


@dataclass(frozen=True)
class Account:
    """One account of the tree; ``parent`` is ``root`` or another account."""

    name: str = param("name", MISSING, slurm="Name", help="the account's name (Slurm keeps it in lower case)")
    description: str = param("text", slurm="Description", help="one sentence for people")
    parent: str = param("name", "root", slurm="Parent", help="the account above it")
    fairshare: int = param("int", 1, slurm="FairShare", help="its shares among its siblings")
    qos: tuple[str, ...] = param("names", (), slurm="QosLevel", help="QOS that its users may name")
    default_qos: str = param("name", slurm="DefaultQOS", help="QOS of a job that names none")
    grp_tres: str = param("tres", slurm="GrpTRES", help="most resources all its jobs hold at a time")
    max_jobs: int | None = param("int", None, slurm="MaxJobs", help="most running jobs of each user")
    max_submit_jobs: int | None = param("int", None, slurm="MaxSubmitJobs", help="most jobs of each user in the queue")
    max_wall: str = param("time", slurm="MaxWall", help="longest time limit of a job")


@dataclass(frozen=True)
class User:
    """A person: a Unix user of every container and an association with each of the accounts."""

    name: str = param("name", MISSING, slurm="Name", help="the user's name")
    uid: int = param("int", MISSING, bounds=(2000, 60000), help="the same number on every node, 2000 to 60000")
    accounts: tuple[str, ...] = param("names", MISSING, slurm="Account", help="accounts the user belongs to")
    default_account: str = param("name", slurm="DefaultAccount", help="the account of a job that names none")
    default_qos: str = param("name", slurm="DefaultQOS", help="the QOS of a job that names none")
    fairshare: int = param("int", 1, slurm="FairShare", help="the user's shares within each account")
    admin_level: str = param("choice", slurm="AdminLevel", choices=("None", "Operator", "Administrator"),
                             help="what the user may change in accounting")  # fmt: skip


@dataclass(frozen=True)
class Slurm:
    """The cluster-wide part of slurm.conf."""

    cluster_name: str = param("name", "lab", slurm="ClusterName", help="the cluster's name in accounting")
    select_type_parameters: str = param("text", "CR_Core_Memory", slurm="SelectTypeParameters", help="what is counted")
    def_mem_per_cpu: str = param("memory", "4000", slurm="DefMemPerCPU", help="memory of a job that names none, a CPU")
    scheduler_parameters: Mapping[str, str] = param("map", {}, slurm="SchedulerParameters",
                                                    help="name: value; a flag has the value ''")  # fmt: skip
    preempt_type: str = param("choice", "preempt/qos", slurm="PreemptType",
                              choices=("preempt/none", "preempt/qos", "preempt/partition_prio"),
                              help="who preempts whom")  # fmt: skip
    preempt_mode: str = param(
        "choices", "REQUEUE", slurm="PreemptMode", choices=PREEMPT_MODES, help="what happens then"
    )
    preempt_exempt_time: str = param("time", slurm="PreemptExemptTime", help="a job younger than this is not preempted")
    preempt_parameters: Mapping[str, str] = param("map", {}, slurm="PreemptParameters", help="name: value, or ''")
    priority_weights: Mapping[str, str] = param("map", {}, help="age, fairshare, job_size, partition, qos: weight")
    priority_decay_half_life: str = param(
        "time", "7-0", slurm="PriorityDecayHalfLife", help="how fast usage is forgotten"
    )
    priority_max_age: str = param("time", "7-0", slurm="PriorityMaxAge", help="age at which the age factor is 1")
    # Slurm's own 5 minutes leave every fairshare factor at 0 for the first five minutes of a lab
    priority_calc_period: str = param(
        "time", "1", slurm="PriorityCalcPeriod", help="how often priorities are counted anew, in whole minutes"
    )
    priority_favor_small: bool = param("bool", False, slurm="PriorityFavorSmall", help="small jobs first")
    accounting_storage_enforce: tuple[str, ...] = param("names", ("associations", "limits", "qos"),
                                                        slurm="AccountingStorageEnforce",
                                                        help="what is enforced")  # fmt: skip
    enforce_part_limits: str = param(
        "choice", "ALL", slurm="EnforcePartLimits", choices=("ALL", "ANY", "NO"), help="at submit"
    )
    private_data: tuple[str, ...] = param("names", (), slurm="PrivateData", help="what users cannot see of each other")
    kill_wait: int = param("int", 5, bounds=(0, MAX16), slurm="KillWait", help="seconds between SIGTERM and SIGKILL")
    min_job_age: int = param("int", 3600, slurm="MinJobAge", help="seconds a finished job is remembered by slurmctld")
    slurmd_timeout: int = param(
        "int", 45, bounds=(0, MAX16), slurm="SlurmdTimeout", help="silent for so long (s), a node is DOWN"
    )
    # slurmctld waits twice as long for a frozen node, and only then heeds the answers of the others it asked with it
    message_timeout: int = param(
        "int", 5, bounds=(1, 100), slurm="MessageTimeout", help="seconds after which a message counts as lost"
    )
    inactive_limit: int = param(
        "int", 120, bounds=(0, MAX16), slurm="InactiveLimit", help="seconds until a silent srun or salloc is ended"
    )
    max_array_size: int = param(
        "int", 1001, bounds=(1, 4000001), slurm="MaxArraySize", help="one more than the highest array index"
    )
    requeue_exit: str = param("text", slurm="RequeueExit", help="exit codes that put a job back into the queue")
    extra: Mapping[str, str] = param("map", {}, help="further parameters of slurm.conf, by their Slurm names")


@dataclass(frozen=True)
class RayNodes:
    """The Ray head, or a set of equal Ray workers."""

    count: int = param("int", 1, bounds=(0, 64), help="how many")
    cpus: int = param("int", 0, bounds=(0, 1024), help="CPUs it offers")
    gpus: int = param("int", 0, bounds=(0, 64), help="GPUs it offers")
    memory: str = param("memory", "1G", help="memory it offers to tasks")
    object_store_memory: str = param("memory", "128M", help="size of the object store")
    resources: Mapping[str, str] = param("map", {}, help="custom resources, name: amount")
    labels: Mapping[str, str] = param("map", {}, help="labels, name: value")


@dataclass(frozen=True)
class Ray:
    """The standing Ray set."""

    head: RayNodes = field(default_factory=RayNodes, metadata={"help": "the head; 0 CPUs and GPUs keep work off it"})
    workers: RayNodes = field(default_factory=RayNodes, metadata={"help": "the workers"})


@dataclass(frozen=True)
class Ports:
    """What is published on the host, as ``port`` (on 127.0.0.1) or ``address:port``."""

    dashboard: str = param("text", "8265", help="Ray's dashboard and job API")


@dataclass(frozen=True)
class Lab:
    """One lab, complete."""

    name: str = param("name", MISSING, help="the lab's name; the file is NAME.yaml")
    description: str = param("text", help="one sentence for people")
    timezone: str = param("text", "host", help="time zone of every container: host (as this machine), or Europe/Berlin")
    slurm: Slurm = field(default_factory=Slurm, metadata={"help": "the cluster-wide part of slurm.conf"})
    nodes: tuple[Nodes, ...] = field(default=(), metadata={"help": "compute nodes"})
    partitions: tuple[Partition, ...] = field(default=(), metadata={"help": "partitions"})
    qos: tuple[Qos, ...] = field(default=(), metadata={"help": "qualities of service"})
    accounts: tuple[Account, ...] = field(default=(), metadata={"help": "the tree of accounts"})
    users: tuple[User, ...] = field(default=(), metadata={"help": "users"})
    ray: Ray = field(default_factory=Ray, metadata={"help": "the standing Ray set"})
    ports: Ports = field(default_factory=Ports, metadata={"help": "published ports"})


def slurm_params(item: Any) -> dict[str, Any]:
    """The given parameters of a dataclass of this module by their Slurm names, in order, without those left unset."""
    found = {}
    for one in fields(item):
        name, value = one.metadata.get("slurm", ""), getattr(item, one.name)
        if name and value not in (UNSET, None, ()) and value != {}:
            found[name] = value
    return found
