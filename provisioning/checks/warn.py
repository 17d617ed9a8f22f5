"""What is allowed in a lab but worth a line to the person who wrote it."""

from __future__ import annotations

import ipaddress

from provisioning import slurm_names
from provisioning.checks.rayset import dashboard_address
from provisioning.lab import Lab


def warnings_of(lab: Lab) -> list[str]:
    """One sentence for each thing that works otherwise than one may think."""
    found = []
    address = dashboard_address(lab.ports.dashboard)
    if address and not ipaddress.ip_address(address[0]).is_loopback:
        found.append(f"ports.dashboard: {lab.ports.dashboard} can be reached from other machines; Ray's dashboard runs "
                     "any code for whoever has the token")  # fmt: skip
    if lab.slurm.preempt_type != "preempt/partition_prio":
        found += [
            f"partitions[{index}].preempt_mode: has no effect with {lab.slurm.preempt_type}"
            for index, partition in enumerate(lab.partitions)
            if partition.preempt_mode
        ]
    if lab.slurm.preempt_type != "preempt/qos":
        found += [
            f"qos[{index}].preempt: has no effect with {lab.slurm.preempt_type}"
            for index, qos in enumerate(lab.qos)
            if qos.preempt
        ]
    slurm = lab.slurm
    # measured: a round of questions, one every third of SlurmdTimeout, lasts 2 MessageTimeout + 1 s with a frozen node
    # among them; a healthy node's last answer may then be a third and two rounds old
    enough = 3 * (2 * slurm.message_timeout + 1) + 1
    if 0 < slurm.slurmd_timeout < enough:
        found.append(f"slurm.slurmd_timeout: {slurm.slurmd_timeout} s is short beside message_timeout "
                     f"{slurm.message_timeout} s: a frozen node may take healthy ones with it; "
                     f"{enough} s is enough")  # fmt: skip
    if not lab.users:
        found.append("users: there is none, so nobody but root can submit jobs")
    return found + _one_version(lab)


def _one_version(lab: Lab) -> list[str]:
    found = []
    places = [("slurm.extra", lab.slurm.extra, slurm_names.CLUSTER_24_11, slurm_names.CLUSTER_26_05)]
    places += [
        (f"nodes[{index}].extra", nodes.extra, frozenset(), slurm_names.NODE_26_05)
        for index, nodes in enumerate(lab.nodes)
    ]
    places += [
        (f"partitions[{index}].extra", partition.extra, slurm_names.PARTITION_24_11, slurm_names.PARTITION_26_05)
        for index, partition in enumerate(lab.partitions)
    ]
    for path, extra, old, new in places:
        found += [f"{path}.{name}: only Slurm 24.11 knows it" for name in extra if name in old]
        found += [f"{path}.{name}: only Slurm 26.05 knows it" for name in extra if name in new]
    words = lab.slurm.scheduler_parameters
    new_words = sorted({"requeue_delay", "requeue_on_resume_failure", "bf_yield_rpc_cnt"} & set(words))
    return found + [f"slurm.scheduler_parameters.{name}: only Slurm 26.05 knows it" for name in new_words]
