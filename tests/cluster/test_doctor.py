"""The doctor on a running lab: nothing to find while it is well, and each fault by name once it is really there."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest

from provisioning.cluster import Cluster, run_local
from provisioning.doctor import Finding, doctor, examine
from provisioning.images import image_name
from provisioning.secretfiles import RAY_TOKEN, write_secret
from provisioning.up import up
from provisioning.waiting import wait_for
from smoke.faults import cut_off, docker, frozen

Plant = Callable[[Cluster], AbstractContextManager[None]]


def found(cluster: Cluster) -> list[str]:
    return [str(one) for one in examine(cluster)]


def wait_well(cluster: Cluster) -> None:
    # other checkouts on this machine may build images of the same names meanwhile
    wait_for("a lab without findings", lambda: [row for row in found(cluster) if not row.startswith("images: ")],
             lambda now: not now, timeout_s=60, show=" / ".join)  # fmt: skip


def sh(cluster: Cluster, service: str, script: str) -> None:
    cluster.exec(service, ["sh", "-c", script])


def test_a_healthy_lab_has_no_finding_and_a_drained_node_is_named(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_well(cluster)
    assert doctor(cluster.settings) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    cluster.exec("slurmctld", ["scontrol", "update", "NodeName=c2", "State=DRAIN", "Reason=a new fan"])
    try:
        assert doctor(cluster.settings) == 1
    finally:
        cluster.exec("slurmctld", ["scontrol", "update", "NodeName=c2", "State=RESUME"])
    first, remedy, last = capsys.readouterr().out.splitlines()
    assert re.match(r"c2: the node is drained \(State=IDLE\+DRAIN.*\): a new fan \[", first), first
    assert "scontrol update nodename=c2 state=resume" in remedy
    assert last.startswith("1 found")


# -- faults: each a block in which it is there, and after which the lab is well again


@contextmanager
def other_key(cluster: Cluster) -> Iterator[None]:
    sh(cluster, "c1", "head -c 1024 /dev/urandom >/etc/slurm/slurm.key")
    yield
    sh(cluster, "c1", "/usr/local/lib/lab/slurm-key")


@contextmanager
def other_token(cluster: Cluster) -> Iterator[None]:
    sh(cluster, "ray-worker-1", "echo 0123456789abcdef >/etc/lab-ray/token")
    yield
    sh(cluster, "ray-worker-1", "/usr/local/lib/lab/ray-token ray ray 0600")


@contextmanager
def lab_has_another_token(cluster: Cluster) -> Iterator[None]:
    path = cluster.settings.generated / "secrets" / RAY_TOKEN
    true = path.read_bytes()
    write_secret(path, b"0123456789abcdef" * 4)
    try:
        yield
    finally:
        write_secret(path, true)


@contextmanager
def wrong_address(cluster: Cluster) -> Iterator[None]:
    # as the engine would write it: a container cannot
    name = cluster.container_name("c1")
    path = run_local(["docker", "inspect", "--format", "{{.HostsPath}}", name]).stdout.strip()
    image = image_name("base", cluster.settings.slurm)
    hosts = ("run", "--rm", "--volume", f"{path}:/hosts", "--entrypoint", "", image, "sh", "-c")
    docker(*hosts, "cp /hosts /tmp/before && echo 203.0.113.9 c2 >>/hosts")
    yield
    docker(*hosts, "grep -v 203.0.113.9 /hosts >/tmp/before; cat /tmp/before >/hosts")


@contextmanager
def no_name(cluster: Cluster) -> Iterator[None]:
    with cut_off(cluster, "ray-worker-1"):
        yield


@contextmanager
def stopped(cluster: Cluster) -> Iterator[None]:
    docker("stop", "--time", "2", cluster.container_name("c2"))
    yield
    up(cluster.settings)


@contextmanager
def paused(cluster: Cluster) -> Iterator[None]:
    with frozen(cluster, "slurmctld"):
        yield


@contextmanager
def down(cluster: Cluster) -> Iterator[None]:
    cluster.exec("slurmctld", ["scontrol", "update", "NodeName=c1", "State=DOWN", "Reason=smoke from the rack"])
    yield
    cluster.exec("slurmctld", ["scontrol", "update", "NodeName=c1", "State=RESUME"])


@contextmanager
def no_way_to_the_database(cluster: Cluster) -> Iterator[None]:
    with cut_off(cluster, "db"):
        yield


@contextmanager
def database_paused(cluster: Cluster) -> Iterator[None]:
    with frozen(cluster, "db"):
        yield


@contextmanager
def other_password(cluster: Cluster) -> Iterator[None]:
    cluster.exec("db", ["mariadb"], stdin="ALTER USER slurm@'%' IDENTIFIED BY 'another';")
    docker("restart", "--time", "5", cluster.container_name("slurmdbd"))
    wait_for("slurmdbd is refused", lambda: "Access denied" in cluster.log_tail("slurmdbd", 5), timeout_s=30)
    yield
    docker("restart", "--time", "10", cluster.container_name("db"))  # the password of the secret is set at its start
    docker("restart", "--time", "5", cluster.container_name("slurmdbd"))


@contextmanager
def no_process_more(cluster: Cluster) -> Iterator[None]:
    """So none that looks either. On the login node, whose daemon starts no threads while it runs."""
    docker("update", "--pids-limit", "1", cluster.container_name("login"))
    try:
        yield
    finally:
        docker("update", "--pids-limit", "1024", cluster.container_name("login"))


@contextmanager
def no_secrets(cluster: Cluster) -> Iterator[None]:
    folder = cluster.settings.generated / "secrets"
    folder.rename(folder.with_name("away"))
    try:
        yield
    finally:
        folder.with_name("away").rename(folder)


@contextmanager
def open_secret(cluster: Cluster) -> Iterator[None]:
    path = cluster.settings.generated / "secrets" / RAY_TOKEN
    path.chmod(0o644)
    yield
    path.chmod(0o600)


FAULTS: dict[str, tuple[Plant, str, str]] = {
    "another Slurm key": (other_key, r"c1: its Slurm key .* is another one than the lab's", "make down, then make up"),
    "another Ray token": (other_token, r"ray-worker-1: its Ray token .* is another one", "make down, then make up"),
    "a head with another token": (lab_has_another_token, "ray-head: it refuses the lab's token", "rotate-secrets"),
    "a wrong address": (wrong_address, r"c1: it takes c2 for 203\.0\.113\.9, which is ", "/etc/hosts"),
    "a node out of the network": (no_name, r"ray-worker-1: it cannot look up ray-head", "make down, then make up"),
    "a container that stopped": (stopped, "c2: it does not run", "make up"),
    "a container that is paused": (paused, "slurmctld: it is paused", "docker unpause"),
    "a node that is down": (down, r"c1: the node is down .*: smoke from the rack", "state=resume"),
    "no way to the database": (no_way_to_the_database, "slurmdbd: it does not reach the database", "make down"),
    "a database that is paused": (database_paused, "db: it is paused", "docker unpause"),
    "another password": (other_password, "slurmdbd: the database refuses its password", "rotate-secrets"),
    "a container that runs nothing": (no_process_more, "login: .*python3", "make logs NODE=login"),
    "no secrets": (no_secrets, "volumes of an earlier lab .*secrets are gone", "make destroy"),
    "a secret open to others": (open_secret, r"secrets: ray_token can be read by others \(mode 044", "rotate-secrets"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "what", "remedy"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_with_what_to_do(cluster: Cluster, plant: Plant, what: str, remedy: str) -> None:
    wait_well(cluster)
    with plant(cluster):
        rows = examine(cluster)
    fits: list[Finding] = [one for one in rows if re.search(what, f"{one.where}: {one.what}")]
    broken = [one for one in rows if "this check does not work" in one.what]
    wait_well(cluster)
    assert fits, rows
    assert remedy in fits[0].remedy
    assert not broken


@pytest.mark.slow
def test_a_cluster_id_that_differs_is_found_and_mended_by_what_is_said(cluster: Cluster) -> None:
    wait_well(cluster)
    held = cluster.exec("login", ["sbatch", "--parsable", "--hold", "-o", "/dev/null", "--wrap", "true"], user="alice",
                        workdir="/home/alice").stdout.strip()  # fmt: skip
    name = cluster.lab.slurm.cluster_name
    sh(cluster, "slurmctld", f"echo '{name}|1' >/var/spool/slurmctld/clustername")
    docker("restart", "--time", "10", cluster.container_name("slurmctld"))
    wait_for("slurmctld does not start", lambda: "MISMATCH" in cluster.log_tail("slurmctld", 20), timeout_s=60)
    (one,) = [one for one in examine(cluster) if "cluster id mismatch" in one.what]
    assert f"of {name}, number 1; accounting has {name} with the number" in one.what
    command = re.search(r"To keep the queue: (docker run .*), then make up", one.remedy)
    assert command, one.remedy
    docker(*shlex.split(command[1])[1:])
    wait_well(cluster)
    assert cluster.exec("slurmctld", ["squeue", "-h", "-j", held, "-o", "%T"]).stdout.strip() == "PENDING"
    cluster.exec("slurmctld", ["scancel", held])


@pytest.mark.slow
def test_volumes_of_a_lab_that_lost_some(cluster: Cluster) -> None:
    project = f"{cluster.settings.project}-left"
    docker("volume", "create", "--label", f"com.docker.compose.project={project}", f"{project}_home")
    try:
        rows = found(Cluster(replace(cluster.settings, project=project, dashboard="18999"), cluster.lab))
    finally:
        docker("volume", "rm", f"{project}_home")
    assert [row for row in rows if "db, slurmctld, scratch, ray of the lab" in row], rows
    assert [row for row in rows if f"the lab {project} is not up" in row], rows


@pytest.mark.slow
def test_a_dashboard_that_is_looked_for_elsewhere(cluster: Cluster) -> None:
    (row,) = found(Cluster(replace(cluster.settings, dashboard="18999"), cluster.lab))[:1]
    assert "published at " + cluster.dashboard in row
    assert "DASHBOARD_PORT=" + cluster.dashboard.rpartition(":")[2] in row


@pytest.mark.slow
def test_another_slurm_line_is_asked_for(cluster: Cluster) -> None:
    other = "26.05" if cluster.settings.slurm == "24.11" else "24.11"
    rows = found(Cluster(replace(cluster.settings, slurm=other), cluster.lab))
    assert [
        row for row in rows if row.startswith("project: ") and f"already runs slurm {cluster.settings.slurm}" in row
    ]


@pytest.mark.slow
def test_no_engine_is_one_finding_and_no_traceback() -> None:
    env = {**os.environ, "DOCKER_HOST": "unix:///nonexistent.sock"}
    done = run_local([".venv/bin/python", "-m", "provisioning", "doctor"], env=env, timeout_s=60)
    assert (done.exit_code, done.stderr) == (1, "")
    assert "the container engine does not answer" in done.stdout
    assert "1 found" in done.stdout, done.stdout
