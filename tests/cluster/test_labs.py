"""Every shipped lab comes up under a name of its own, beside the one under test, and does what it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from provisioning.cluster import Cluster
from provisioning.plan_config import parse_rows
from provisioning.pytest_plugin import own_lab
from provisioning.slurmtypes import expand_hosts, parse_gres, parse_memory_mb
from provisioning.waiting import wait_for
from smoke.audit import audit, summary
from smoke.audit_find import NO_GRANT, lines
from smoke.slurm import Slurm
from tests.cluster.people import Person

#: On the second Slurm line the smallest lab is enough: what differs between labs is not what differs between lines.
NAMES = {"24.11": ["ci", "preempt-partition", "shards", "heterogeneous", "classroom"],
         "26.05": ["ci", "heterogeneous", "classroom"]}  # fmt: skip


@pytest.fixture(params=sorted(set(NAMES["24.11"])))
def other(request: pytest.FixtureRequest, lab: Cluster) -> Iterator[Cluster]:
    """Another lab, up while the one under test runs."""
    if request.param not in NAMES[lab.settings.slurm]:
        pytest.skip(f"{request.param} is tested with Slurm 24.11")
    with own_lab(replace(lab.settings, lab=request.param)) as cluster:
        yield cluster


def srun(cluster: Cluster, *options: str, user: str = "alice") -> str:
    """What a command on a node sees of its GPUs."""
    command = ["srun", "--mem=100M", "-c1", *options, "bash", "-c", "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"]
    return cluster.exec("login", command, user=user, workdir=f"/home/{user}").stdout.strip()


def preempt_partition(cluster: Cluster) -> None:
    alice = Slurm(cluster, user="alice", folder=".")
    whole = ("--exclusive", "--nodes=4", "--output=/dev/null")
    low = alice.submit(wrap="sleep 300", options=("--partition=scavenge", *whole))
    alice.wait_state(low, "RUNNING", timeout_s=20)
    middle = alice.submit(wrap="sleep 300", options=("--partition=gpu", *whole))
    alice.wait_state(middle, "RUNNING", timeout_s=60)
    assert alice.job(low).state == "PENDING"
    top = alice.submit(wrap="sleep 1", options=("--partition=urgent", *whole))
    alice.wait_state(top, "COMPLETED", timeout_s=60)
    assert alice.job(middle).state == "PREEMPTED"


def shards(cluster: Cluster) -> None:
    both = [srun(cluster, "-w", "c1", "--gres=shard:2"), srun(cluster, "-w", "c1", "--gres=shard:2")]
    assert [line.split()[0] for line in both] == ["c1", "c1"]
    assert all(len(line.split()[1].split(",")) == 1 for line in both)
    alice = Slurm(cluster, user="alice", folder=".")

    def run(gres: str, wrap: str = "sleep 300") -> None:
        options = ("-w", "c1", "-c1", "--mem=100M", f"--gres={gres}", "--output=/dev/null")
        alice.wait_state(alice.submit(wrap=wrap, options=options), "RUNNING", timeout_s=20)

    for gres in ("shard:2", "shard:2", "gpu:2"):
        run(gres)
    finds, reading = audit(cluster)
    seen = summary(reading)
    assert (lines(finds), seen["gpus_shared"], seen["gpus_granted"]) == ([], 1, 2)
    run("shard:1", wrap="export CUDA_VISIBLE_DEVICES=7; sleep 300")
    taken = wait_for("the audit to see it", lambda: {(find.kind, find.node, find.gpu) for find in audit(cluster)[0]},
                     lambda found: bool(found), timeout_s=60)  # fmt: skip
    assert (NO_GRANT, "c1", 7) in taken


def heterogeneous(cluster: Cluster) -> None:
    assert srun(cluster, "-p", "cpu").split()[0] == "cpu1"  # the lowest weight
    assert srun(cluster, "--gres=gpu:h100:8").split() == ["h1", "0,1,2,3,4,5,6,7"]
    node, gpus = srun(cluster, "-w", "m1", "--gres=gpu:a100:4,gpu:h100:4").split()
    assert (node, sorted(gpus.split(","))) == ("m1", [str(index) for index in range(8)])
    assert srun(cluster, "-C", "nvlink", "--gres=gpu:1").split()[0] == "h1"
    refused = cluster.exec(
        "login", ["srun", "--gres=gpu:v100:1", "true"], user="alice", workdir="/home/alice", check=False
    )
    assert refused.exit_code != 0


def ci(cluster: Cluster) -> None:
    assert len(srun(cluster, "--gres=gpu:2").split()[1].split(",")) == 2


#: What shows jobs, users and usage: words of the answer that are a job's number or a user's name are looked for.
VIEWS = {
    "squeue": "squeue --noheader --format=%A,%u",
    "squeue of a job": "squeue --noheader --format=%A,%u --jobs={hers}",
    "scontrol": "scontrol --oneliner show job | grep -oP '(JobId|UserId)=[0-9a-z]+'",
    "scontrol of a job": "scontrol --oneliner show job {hers} | grep -oP '(JobId|UserId)=[0-9a-z]+'",
    "scontrol of a step": "scontrol --oneliner show step | grep -oP 'StepId=[0-9]+|UserId=[0-9]+'",
    "sacct": "sacct --allusers --noheader --parsable --format=JobIDRaw,User --starttime=now-1hour",
    "sacct of a job": "sacct --jobs={hers} --noheader --parsable --format=JobIDRaw,User",
    "sprio": "sprio --noheader --format='%i %u'",
    "sshare": "sshare --all --noheader --parsable --format=User",
    "users": "sacctmgr --noheader --parsable show user format=User",
    "associations": "sacctmgr --noheader --parsable show associations format=User",
    "accounts": "sacctmgr --noheader --parsable show account format=Account",
    "reservations": "scontrol --oneliner show reservation | grep -o 'Users=alice'",
    "sreport": "sreport --noheader --parsable cluster UserUtilizationByAccount start={start} end={end} format=Login",
    "comments": "sacct --allusers --noheader --parsable --format=SubmitLine | grep -o hidden-word",
}
#: What is not shown to students who have no part in it.
OF_ALICE = ("alice", "2001", "hidden-word")


def classroom(cluster: Cluster) -> None:
    """A student sees nothing of another; their own, and the teacher all."""
    alice, bob, teacher = (Person(cluster, name) for name in ("alice", "bob", "teacher"))
    his = bob.batch({"his": "-w c1"})
    hers = alice.batch({"hers": ("--comment=hidden-word", "srun sleep 300"), "waits": "--nodes=2 --exclusive"})
    alice.wait_seen({hers["hers"]: "RUNNING", hers["waits"]: "PENDING"})
    alice.wait_recorded(hers["hers"], ("RUNNING",))
    teacher.sh("scontrol create reservation=hers starttime=now+1hour duration=1 nodes=c2 users=alice")

    # sreport knows whole hours only, so this one is said to be over
    hour = cluster.exec("slurmctld", ["sh", "-c", "date +%FT%H:00:00; date -d 1hour +%FT%H:00:00"]).stdout.split()
    cluster.exec("slurmctld", ["sacctmgr", "-i", "roll", *hour])
    names = hers | dict(zip(("start", "end"), hour, strict=True))

    def seen(person: Person) -> dict[str, set[str]]:
        """The words of each view, as one look at all of them."""
        commands = "\n".join(f"echo '# {name}'\n{{ {command.format(**names)} || true; }} 2>/dev/null"
                             for name, command in VIEWS.items())  # fmt: skip
        parts = person.sh(commands).split("# ")[1:]
        return {name: set(re.split(r"[\s|,=]+", text)) for name, text in (part.split("\n", 1) for part in parts)}

    by_bob, by_alice, by_teacher = seen(bob), seen(alice), seen(teacher)
    known = {*OF_ALICE, *hers.values()}
    assert {name: words & known for name, words in by_bob.items() if words & known} == {}
    for name, words in (*by_alice.items(), *by_teacher.items()):
        assert words & known or name == "accounts", name
    # their own they see
    assert his["his"] in by_bob["squeue"] & by_bob["scontrol"]
    assert "bob" in by_bob["users"] & by_bob["associations"] & by_bob["sshare"]
    assert "staff" not in by_bob["accounts"]
    assert {"staff", "course"} <= by_teacher["accounts"]
    # a place that others' processes are not seen from either
    alone = bob.batch({"alone": "--exclusive=user -w c1"})["alone"]
    teacher.sh("scancel --user=alice")
    bob.wait_seen({alone: "RUNNING"})
    beside = alice.batch({"beside": "-w c1"})["beside"]
    alice.wait_seen({beside: "PENDING Resources"})
    teacher.sh("scontrol delete reservation=hers; scancel -u bob")


PURPOSE = {"ci": ci, "preempt-partition": preempt_partition, "shards": shards, "heterogeneous": heterogeneous,
           "classroom": classroom}  # fmt: skip


def test_the_lab_is_what_its_yaml_says_and_does_what_it_is_for(other: Cluster) -> None:
    text = other.exec("slurmctld", ["scontrol", "-o", "show", "node"]).stdout
    found = parse_rows(text, "NodeName")
    for nodes in other.lab.nodes:
        for name in expand_hosts(nodes.name):
            assert int(found[name]["CPUTot"]) == nodes.cpus
            assert int(found[name]["RealMemory"]) == parse_memory_mb(nodes.real_memory)
            for gres in parse_gres(nodes.gres):
                assert f"gres/{gres.name}" in found[name]["CfgTRES"], found[name]["CfgTRES"]
    partitions = other.exec("slurmctld", ["sinfo", "-h", "-o", "%R"]).stdout.split()
    assert partitions == [partition.name for partition in other.lab.partitions]
    PURPOSE[other.lab.name](other)
    wait_for("queue", lambda: other.exec("slurmctld", ["scancel", "-u", "alice"], check=False) and
             other.exec("slurmctld", ["squeue", "-h"]).stdout, lambda text: not text, timeout_s=60)  # fmt: skip
