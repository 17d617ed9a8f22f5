"""Steps and layout: what each task sees, what two steps share, how a step on several nodes ends."""

from __future__ import annotations

import ipaddress
import re

from provisioning.cluster import Cluster
from provisioning.waiting import wait_for
from tests.cluster.people import SMALL, Person

#: Quiet: where a job was submitted a moment ago, srun says on standard error that it waits.
SRUN = f"srun --quiet {SMALL.replace('--output=/dev/null', '')}"
#: Notes when a step starts and ends, then does nothing for a while.
NOTED = "bash -c 'echo start $(date +%s.%N) > {0}; sleep 1.5; echo end $(date +%s.%N) >> {0}'"
#: The first host listens under its own name, the other finds it there.
RENDEZVOUS = """
import os, socket, subprocess, time
nodes = subprocess.check_output(["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]], text=True)
first = nodes.split()[0]
if os.environ["SLURM_PROCID"] == "0":
    with socket.create_server((first, 29500)) as server:
        server.settimeout(20)
        guest, address = server.accept()
        guest.sendall(b"hello from " + first.encode())
else:
    for _ in range(200):
        try:
            guest = socket.create_connection((first, 29500), timeout=0.1)
            break
        except OSError:
            time.sleep(0.1)
    print(os.environ["SLURMD_NODENAME"], guest.recv(100).decode())
"""


def test_each_task_sees_one_gpu_of_its_own(alice: Person) -> None:
    """Case 18: -n 2 --gpus-per-task=1; the number is in SLURM_TRES_PER_TASK, no longer in SLURM_GPUS_PER_TASK."""
    echo = "echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES ${SLURM_GPUS_PER_TASK-unset} $SLURM_TRES_PER_TASK"
    said = alice.sh(f"{SRUN} -w c1 -n2 --gpus-per-task=1 bash -c '{echo}'")
    tasks, indices, gpus, tres = zip(*(line.split() for line in said.splitlines()), strict=True)
    assert sorted(tasks) == ["0", "1"]
    assert sorted(indices) == ["0", "1"]  # one index each, and not the same
    assert gpus == ("unset", "unset")
    assert all(re.search("gres/gpu[:=]1", text) for text in tres), tres


def test_a_whole_node_and_a_look_into_it(alice: Person) -> None:
    """Case 19: --exclusive --mem=0 holds everything; a shell beside it with --overlap --pty starts all the same."""
    job_id = alice.batch({"whole": "-w c2 --exclusive --mem=0"})["whole"]
    given = alice.wait_state(job_id, ("RUNNING",)).tres
    assert (given["cpu"], given["mem"], given["gres/gpu"]) == ("64", "515000M", "8")
    said = alice.sh(
        f"script -qec 'srun --jobid={job_id} --overlap --pty bash -c \"hostname; tty\"' /dev/null </dev/null"
    )
    assert re.search(r"c2\s+\S*/dev/pts/\d", said), said


def test_two_steps_side_by_side_need_their_own_share(alice: Person, scratch: str) -> None:
    """Case 20: the first step takes all memory, so the second waits; with --exact and --mem both run at once."""
    script = ""
    for kind, options in (("greedy", ""), ("exact", "--exact --mem=50M")):
        for number in "12":
            script += f"srun -n1 {options} {NOTED.format(f'{scratch}/{kind}{number}')} &\n"
        script += "wait\n"
    job = alice.batch({"steps": ("-n2 --mem=100M", script)})["steps"]
    alice.wait_seen({job: "COMPLETED"})
    found = {}
    for kind in ("greedy", "exact"):
        texts = (alice.login.read(f"{scratch}/{kind}{number}").split() for number in "12")
        found[kind] = sorted((float(text[1]), float(text[3])) for text in texts)
    (_, first_end), (second_start, _) = found["greedy"]
    assert second_start >= first_end
    (_, first_end), (second_start, _) = found["exact"]
    assert second_start < first_end


def test_a_heterogeneous_job_starts_as_one(alice: Person, scratch: str) -> None:
    """Case 22: a component with a GPU and one without; srun over both; two records with the same start."""
    echo = f"echo $SLURM_PROCID [$CUDA_VISIBLE_DEVICES] > {scratch}/$SLURM_PROCID"
    script = f"#!/bin/bash\nsrun --het-group=0,1 bash -c '{echo}'"
    leader = alice.sh(f"""
        cat > {scratch}/both.sh <<'END'
{script}
END
        sbatch --parsable {SMALL} -n1 --gres=gpu:1 : {SMALL} -n2 {scratch}/both.sh""").strip()
    alice.submitted.append(leader)

    def records() -> dict[str, str]:
        return {row["JobID"]: row["State"] for row in alice.sacct(leader)}

    both = {f"{leader}+0": "COMPLETED", f"{leader}+1": "COMPLETED"}
    wait_for("both components have ended", records, lambda found: found == both, timeout_s=40)
    assert len({row["Start"] for row in alice.sacct(leader)}) == 1
    assert [alice.login.read(f"{scratch}/{task}").split() for task in "012"] == [["0", "[0]"], ["1", "[]"], ["2", "[]"]]


def test_every_node_is_known_by_its_name_everywhere(cluster: Cluster, alice: Person) -> None:
    """Case 26: a name stands for the same address on every node, itself too, and never for the loopback."""
    nodes = cluster.nodes()
    look = f"for n in {' '.join(nodes)}; do echo $SLURMD_NODENAME $n $(getent ahostsv4 $n | head -1); done; hostname -i"
    said = alice.sh(f"{SRUN} -N{len(nodes)} --ntasks-per-node=1 bash -c '{look}'")
    found = {
        (seer, name): address
        for seer, name, address, *_ in (line.split() for line in said.splitlines() if "STREAM" in line)
    }
    assert len(found) == len(nodes) ** 2
    addresses = {name: {found[seer, name] for seer in nodes} for name in nodes}
    assert all(len(one) == 1 for one in addresses.values()), addresses
    assert len(set.union(*addresses.values())) == len(nodes)
    assert not any(ipaddress.ip_address(one).is_loopback for one in found.values())
    assert {line for line in said.splitlines() if " " not in line.strip()} == set(found.values())


def test_two_nodes_meet_under_the_first_ones_name(alice: Person, scratch: str) -> None:
    """Case 26: what torchrun and the like do with MASTER_ADDR."""
    alice.sh(f"cat > {scratch}/meet.py <<'END'\n{RENDEZVOUS}\nEND")
    said = alice.sh(f"{SRUN} -w c2,c3 -N2 --ntasks-per-node=1 python3 {scratch}/meet.py")
    assert said.strip() == "c3 hello from c2"


def test_one_task_that_fails_ends_the_others(alice: Person, scratch: str) -> None:
    """Case 27: --kill-on-bad-exit=1 ends them at once; without it --wait does, so many seconds later."""
    task = f"""bash -c 'touch {scratch}/$SLURM_STEP_ID.$SLURM_PROCID
        until [ -e {scratch}/$SLURM_STEP_ID.1 ]; do sleep 0.1; done
        [ $SLURM_PROCID = 0 ] && exit 7; sleep 300'"""
    script = f"srun --kill-on-bad-exit=1 --wait=60 {task}\nsrun --kill-on-bad-exit=0 --wait=2 {task}\ntrue"
    job = alice.batch({"steps": ("-w c2,c3 -N2 --ntasks-per-node=1", script)})["steps"]
    alice.wait_seen({job: "COMPLETED"}, timeout_s=90)
    alice.wait_recorded(job)
    found = alice.records(job)
    killed, waited = int(found[".0"]["ElapsedRaw"]), int(found[".1"]["ElapsedRaw"])
    assert killed < 30
    assert 2 <= waited < 60
    assert {found[step]["State"] for step in (".0", ".1")} <= {"FAILED", "CANCELLED"}
