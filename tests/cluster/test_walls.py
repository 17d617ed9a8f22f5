"""What a user of the login node cannot do: each is tried, as alice, against bob, root, or the lab itself."""

from __future__ import annotations

import shlex

import pytest

from provisioning.cluster import Cluster
from provisioning.waiting import wait_for
from tests.cluster.people import Person


def tried(cluster: Cluster, command: str, service: str = "login") -> tuple[int, str]:
    """Exit status and words of a command that alice types."""
    done = cluster.exec(service, ["bash", "-lc", command], user="alice", workdir="/home/alice", check=False)
    return done.exit_code, done.stdout + done.stderr


BECOME_ROOT = {
    "setpriv": "setpriv --reuid 0 --regid 0 --clear-groups id",
    "python": "python3 -c 'import os; os.setuid(0)'",
    "su": "su -c id </dev/null",
    "sudo": "sudo -n id",
    "a file of root's": "echo 'alice ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers",
    "a setuid copy": "cp /bin/sh ./sh && chmod u+s ./sh && setpriv --reuid 0 ./sh",
    "a device": "mknod ./disk b 254 0",
    "a mount": "mount -t tmpfs none /mnt",
}


@pytest.mark.parametrize("service", ["login", "c1"])
@pytest.mark.parametrize("command", BECOME_ROOT.values(), ids=BECOME_ROOT)
def test_nobody_becomes_root(cluster: Cluster, command: str, service: str) -> None:
    status, said = tried(cluster, command, service)
    assert status != 0, said


SECRET = {
    "another home": "ls /home/bob",
    "a file in it": "cat /home/bob/.profile",
    "Slurm's key": "cat /etc/slurm/slurm.key",
    "Slurm's key as it came in": "cat /run/secrets/slurm.key",
    "the database's password": "find / -xdev -name '*db_password*' 2>/dev/null | grep .",
    "the saved state": "ls /var/spool/slurmctld",
}


@pytest.mark.parametrize("command", SECRET.values(), ids=SECRET)
def test_nobody_reads_what_is_another_s(cluster: Cluster, command: str) -> None:
    status, said = tried(cluster, command)
    assert status != 0, said


OPERATORS_ONLY = {
    "a QOS": "sacctmgr -i modify qos normal set priority=100000",
    "an account": "sacctmgr -i add account mine",
    "an association": "sacctmgr -i modify user alice set fairshare=1000",
    "administrator": "sacctmgr -i modify user alice set adminlevel=Administrator",
    "a node": "scontrol update NodeName=c1 State=DRAIN Reason=mine",
    "a partition": "scontrol update PartitionName=gpu State=DOWN",
    "a reconfigure": "scontrol reconfigure",
    "a shutdown": "scontrol shutdown",
    "a job as bob": "sbatch --uid=bob --wrap true",
}


@pytest.mark.parametrize("command", OPERATORS_ONLY.values(), ids=OPERATORS_ONLY)
def test_only_an_operator_may(cluster: Cluster, command: str) -> None:
    def settings() -> str:
        shown = cluster.exec("slurmctld", ["scontrol", "-o", "show", "partition"]).stdout
        return shown + cluster.exec("slurmctld", ["sacctmgr", "-nP", "show", "assoc,qos"], check=False).stdout

    before = settings()
    status, said = tried(cluster, command)
    assert status != 0, said
    assert settings() == before


def test_another_s_job_is_out_of_reach(cluster: Cluster, alice: Person, bob: Person) -> None:
    """Its script, its processes, its place in the queue."""
    job = bob.batch({"his": "-w c1"})["his"]
    waits = bob.batch({"waits": "--hold"})["waits"]
    bob.wait_seen({job: "RUNNING", waits: "PENDING"})
    tries = {
        "script": f"scontrol write batch_script {job} - | grep -v retrieval",
        "cancel": f"scancel {job} && false || squeue -h -j {job} -t CA,CG | grep .",
        "requeue": f"scontrol requeue {job}",
        "hold": f"scontrol hold {job}",
        "release": f"scontrol release {waits}",
        "its priority": f"scontrol update JobId={waits} Priority=1",
        "a step in it": f"srun --jobid={job} --overlap true",
    }
    reached = {
        what: said for what, command in tries.items() for status, said in [tried(cluster, command)] if not status
    }
    assert not reached
    assert {bob.job(job).state, bob.job(waits).state} == {"RUNNING", "PENDING"}
    first, second = alice.batch({"own": "--hold"})["own"], "nice=-100"
    assert tried(cluster, f"scontrol update JobId={first} {second}")[0] != 0
    alice.cancel(first)
    wait_for("her own she may cancel", lambda: alice.job(first).state, "CANCELLED".__eq__, timeout_s=20)


PATHS_OUT = {
    "the database": "exec 3<>/dev/tcp/db/3306",
    "the engine's socket": "ls /var/run/docker.sock /run/docker.sock 2>/dev/null | grep .",
    "the engine on its gateway": "exec 3<>/dev/tcp/$(ip route | awk '/default/ {print $3}')/2375",
    "slurmd's spool of a node": "ls /var/spool/slurmd",
}


@pytest.mark.parametrize("command", PATHS_OUT.values(), ids=PATHS_OUT)
def test_there_is_no_way_to(cluster: Cluster, command: str) -> None:
    status, said = tried(cluster, f"timeout 5 bash -c {shlex.quote(command)}")
    assert status != 0, said
