"""Eight GPUs of c1, from the YAML to what a job sees (S9, field cases 2 and 4)."""

from __future__ import annotations

import re

from provisioning.cluster import Cluster
from provisioning.plan_config import parse_rows
from provisioning.slurmtypes import expand_hosts


def test_c1_has_8_a100_from_the_yaml_to_a_job(cluster: Cluster) -> None:
    nodes = next(nodes for nodes in cluster.lab.nodes if "c1" in expand_hosts(nodes.name))
    assert nodes.gres == "gpu:a100:8"
    conf = cluster.exec("slurmctld", ["cat", "/etc/slurm/slurm.conf"]).stdout
    line = next(line for line in conf.splitlines() if line.startswith(f"NodeName={nodes.name} "))
    assert f" Gres={nodes.gres} " in f"{line} "
    assert cluster.exec("login", ["sinfo", "-hN", "-n", "c1", "-o", "%G"], user="alice").stdout.split()[0] == nodes.gres
    text = cluster.exec("slurmctld", ["scontrol", "-o", "show", "node", "c1"]).stdout
    node = parse_rows(text, "NodeName")["c1"]
    assert "gres/gpu=8" in node["CfgTRES"]
    devices = cluster.exec("c1", ["stat", "-c", "%F %t:%T", *[f"/dev/nvidia{index}" for index in range(8)]]).stdout
    assert set(devices.splitlines()) == {"character special file 1:3"}
    seen = cluster.exec("login", ["srun", "-w", "c1", "--gres=gpu:a100:8", "-c", "1", "--mem=100M", "bash", "-c",
                                  "echo $CUDA_VISIBLE_DEVICES"], user="alice", workdir="/home/alice")  # fmt: skip
    assert seen.stdout.strip() == "0,1,2,3,4,5,6,7"


def test_every_node_has_what_the_yaml_says(cluster: Cluster) -> None:
    text = cluster.exec("slurmctld", ["scontrol", "-o", "show", "node"]).stdout
    nodes = parse_rows(text, "NodeName")
    assert sorted(nodes) == sorted(cluster.nodes())
    for name, node in nodes.items():
        assert (node["CPUTot"], node["RealMemory"], node["Gres"]) == ("64", "515000", "gpu:a100:8"), name
        assert "gres/gpu:a100=8" in node["CfgTRES"], name


def test_jobs_on_one_node_see_disjoint_gpus(cluster: Cluster) -> None:
    one = "srun -w c2 --gres=gpu:{} -c 1 --mem=100M bash -c 'echo $CUDA_VISIBLE_DEVICES; sleep 2' &"
    script = f"{one.format(3)} {one.format(5)} wait"
    seen = cluster.exec("login", ["bash", "-c", script], user="alice", workdir="/home/alice").stdout.split()
    sets = [set(line.split(",")) for line in seen]
    assert sorted(len(one) for one in sets) == [3, 5]
    assert not sets[0] & sets[1]


def test_a_job_without_gpus_sees_none(cluster: Cluster) -> None:
    command = ["srun", "-c", "1", "--mem=100M", "bash", "-c", "echo [$CUDA_VISIBLE_DEVICES]"]
    seen = cluster.exec("login", command, user="alice", workdir="/home/alice")
    assert re.fullmatch(r"\[(NoDevFiles)?\]", seen.stdout.strip())
