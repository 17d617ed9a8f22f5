"""What a user of the login node cannot do: each is tried, as alice, against bob, root, or the lab itself."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

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


def test_nothing_that_a_user_runs_has_a_right_of_its_own(cluster: Cluster, alice: Person) -> None:
    """In a shell, in a job, in a Ray task: no capability, and none to be had from a program."""
    look = ["grep", "-E", "^(CapPrm|CapEff|CapAmb|NoNewPrivs):", "/proc/self/status"]
    driver = f"""
import ray, subprocess
ray.init(log_to_driver=False)
print(ray.get(ray.remote(lambda: subprocess.check_output({look}, text=True)).remote(), timeout=60))
"""
    shells = [alice.sh(shlex.join(look)), cluster.exec("c1", look, user="alice").stdout]
    for text in (*shells, alice.run(*look), alice.login.run("python3", "-c", driver).stdout):
        rights = [line.split() for line in text.splitlines() if line.startswith(("Cap", "NoNew"))]
        assert {name: int(value, 16) for name, value in rights} == {
            "CapPrm:": 0, "CapEff:": 0, "CapAmb:": 0, "NoNewPrivs:": 1,
        }  # fmt: skip


def test_users_write_nowhere_but_where_users_write(cluster: Cluster) -> None:
    """A directory that daemons trust and others can write is a way to become them."""
    script = "find / -type d -writable -not -path '/proc/*' -not -path '/home/alice*' -prune 2>/dev/null; true"
    own = {"/tmp", "/var/tmp", "/scratch", "/dev/shm", "/dev/mqueue"}
    for service in ("login", *cluster.nodes()):
        status, said = tried(cluster, script, service)
        assert (status, set(said.split()) - own) == (0, set()), service


LINKS = {
    "a home": ("ln -s /home/{other} logs", "/home/{other}"),
    "all homes": ("ln -s /home logs", "/home"),
    "Slurm's folder": ("ln -s /etc/slurm logs", "/etc/slurm"),
    "the token's folder": ("ln -s /etc/lab-ray venvs", "/etc/lab-ray"),
    "a venv elsewhere": ("mkdir venvs; ln -s /home/{other}/logs venvs/train", "/home/{other}/logs"),
    "a file in the way": ("touch logs", "/home/{other}"),
}


@contextmanager
def moved_away(person: Person) -> Iterator[None]:
    """Without what root made in a home."""
    person.sh("mkdir away && mv logs venvs away")
    try:
        yield
    finally:
        person.sh("rm -rf logs venvs; mv away/* . && rmdir away")


@pytest.mark.parametrize(("link", "target"), LINKS.values(), ids=LINKS)
def test_making_homes_follows_no_link(cluster: Cluster, alice: Person, bob: Person, link: str, target: str) -> None:
    """`lab-homes` runs as root at each start of the login node, in homes whose users may have prepared for it."""
    for person, other in ((alice, "bob"), (bob, "alice")):  # each is made before or after the other
        owner = ["stat", "--format=%U %a", target.format(other=other)]
        before = cluster.exec("login", owner).stdout
        with moved_away(person):
            person.sh(link.format(other=other))
            cluster.exec("login", ["lab-homes"])
            assert cluster.exec("login", owner).stdout == before, person.login.user
    assert "train" in alice.sh("ls venvs")


def test_secrets_are_closed_to_a_user_with_the_number_of_who_started_the_lab(cluster: Cluster) -> None:
    folder = cluster.settings.generated / "secrets"
    numbers = {user.name: user.uid for user in cluster.lab.users}
    if os.geteuid():
        pytest.skip("only root can give the secrets to somebody else")
    try:
        for path in folder.iterdir():
            os.chown(path, numbers["alice"], -1)
        for service in ("login", "c1"):
            status, said = tried(cluster, "cat /run/secrets/slurm.key | wc -c | grep -v ^0", service)
            assert status != 0, said
    finally:
        for path in folder.iterdir():
            os.chown(path, 0, -1)


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
    "a job in another's account": "sbatch --account=root --wrap true",
    "a job before all others": "sbatch --nice=-100 --wrap true",
    "a reservation": "scontrol create reservation=mine starttime=now duration=5 nodes=c1 users=alice",
    "a coordinator": "sacctmgr -i add coordinator name=alice account=research",
    "a limit": "sacctmgr -i modify user alice set maxjobs=1000",
    "a user": "sacctmgr -i delete user bob",
    "its statistics": "sdiag --reset",
    "its logs": "scontrol setdebug debug5",
    "a trigger": "strigger --set --node --down --program=/bin/true",
    "a configuration without keys": "sed 's,auth/slurm,auth/none,' /run/slurm/conf/slurm.conf > none.conf; "
    "SLURM_CONF=$PWD/none.conf scontrol update NodeName=c1 State=DRAIN Reason=mine",
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
        "end": f"scontrol update JobId={job} EndTime=now",
        "its QOS": f"scontrol update JobId={waits} QOS=low",
        "signal": f"scancel --signal=USR1 {job}",
        "a word to it": f"scontrol notify {job} hello",
        "its record": f"sacctmgr -i modify job jobid={job} set derivedexitcode=1",
        "its figures": f"sstat --noheader --jobs={job}.batch | grep .",
        "its files": f"sbcast --jobid={job} /etc/hostname /tmp/mine",
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


def test_a_jobs_files_are_opened_as_its_user(alice: Person, bob: Person) -> None:
    """slurmstepd is root when it opens what --input and --output name."""
    bob.sh("echo secret > only-bobs")
    jobs = alice.batch({
        "writes": ("--output=/home/bob/planted --open-mode=append", "echo planted"),
        "overwrites": ("--output=/home/bob/only-bobs", "echo planted"),
        "reads": ("--input=/home/bob/only-bobs --output=copied", "cat"),
    })  # fmt: skip
    states = {name: alice.wait_recorded(job)["State"] for name, job in jobs.items()}
    assert "COMPLETED" not in states.values(), states
    assert bob.sh("cat only-bobs; ls planted || true").split()[0] == "secret"
    assert "secret" not in alice.sh("cat copied 2>&1 || true")
    assert "planted" not in bob.sh("ls").split()
    bob.sh("rm only-bobs")
    alice.sh("rm -f copied none.conf")


#: As alice in a Ray task, where she is user ray: what must fail there.
FROM_A_TASK = {
    **BECOME_ROOT,
    "the token as it came in": "cat /run/secrets/ray_token",
    "Slurm's key": "find / -name 'slurm*.key' 2>/dev/null | grep .",
    "homes": "ls /home/alice || ls /home/bob || ls /scratch",
    "the database": "timeout 5 bash -c 'exec 3<>/dev/tcp/db/3306'",
    "the engine": "ls /var/run/docker.sock || timeout 5 bash -c 'exec 3<>/dev/tcp/'$(ip route | "
                  "awk '/default/ {print $3}')/2375",
    "the programs of Ray": "touch /opt/ray/bin/mine",
    "the init": "kill -KILL 1 && sleep 0.2 && kill -0 1",
}  # fmt: skip


def test_a_ray_task_stays_within_its_container(alice: Person) -> None:
    driver = f"""
import ray, subprocess
ray.init(log_to_driver=False)
def works(command):
    return subprocess.run(["bash", "-c", command], capture_output=True).returncode == 0
reached = ray.get([ray.remote(works).remote(one) for one in {[*FROM_A_TASK.values(), "true"]}], timeout=90)
print("reached", reached)
"""
    said = alice.login.run("python3", "-c", driver, timeout_s=120).stdout
    assert said.splitlines()[-1] == f"reached {[*[False] * len(FROM_A_TASK), True]}", dict(
        zip(FROM_A_TASK, said.rpartition("[")[2].split(","), strict=False)
    )


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
