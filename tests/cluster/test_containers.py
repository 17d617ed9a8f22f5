"""What testinfra sees inside each container: users, files, processes, ports, versions; and what Docker allows."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from testinfra.host import Host

from provisioning import versions
from provisioning.cluster import Cluster, run_local
from provisioning.up import up
from tests.cluster.people import Person

Hosts = Callable[[str], Host]


def test_every_container_runs_and_is_healthy(cluster: Cluster) -> None:
    from provisioning.waiting import wait_for

    def unwell() -> list[str]:
        found = cluster.containers()
        return [
            f"{name} {found[name].state} {found[name].health}" if name in found else f"{name} missing"
            for name in cluster.services()
            if name not in found or (found[name].state, found[name].health) != ("running", "healthy")
        ]

    wait_for("containers", unwell, lambda now: not now, timeout_s=60, interval_s=1)


def test_a_reconfigure_ends_nobodys_session(cluster: Cluster) -> None:
    """Every daemon starts itself anew in place; the login node's end would end every shell on it."""
    from provisioning.waiting import wait_for

    def started() -> dict[str, str]:
        names = [cluster.container_name(service) for service in ("login", "slurmctld", *cluster.nodes())]
        lines = run_local(["docker", "inspect", "--format", "{{.Name}} {{.State.StartedAt}}", *names]).stdout
        return dict(line.split() for line in lines.splitlines())

    def times_up() -> int:
        return sum(line.endswith(" running") for line in cluster.log_tail("login", 10_000).splitlines())

    before, count = started(), times_up()
    cluster.exec("slurmctld", ["scontrol", "reconfigure"])
    wait_for("sackd has started anew", times_up, lambda now: now > count, timeout_s=30)
    assert started() == before
    cluster.exec("login", ["sinfo"], user="alice")


def test_users_are_the_same_everywhere(cluster: Cluster, host: Hosts) -> None:
    for service in ("login", "slurmctld", *cluster.nodes()):
        for user in cluster.lab.users:
            found = host(service).user(user.name)
            assert (found.exists, found.uid, found.home) == (True, user.uid, f"/home/{user.name}"), service


def test_homes_are_shared_and_closed(cluster: Cluster, host: Hosts) -> None:
    cluster.exec("login", ["sh", "-c", "echo here > ~alice/shared-home"], user="alice")
    node = cluster.nodes()[-1]
    assert host(node).file("/home/alice/shared-home").content_string.strip() == "here"
    for user in cluster.lab.users:
        home = host("login").file(f"/home/{user.name}")
        assert (home.user, home.mode) == (user.name, 0o700)
        assert host("login").file(f"/home/{user.name}/venvs/train/bin/activate").exists


@pytest.mark.parametrize(
    ("service", "process", "user"),
    [("slurmctld", "slurmctld", "slurm"), ("slurmdbd", "slurmdbd", "slurm"), ("db", "mariadbd", "mysql"),
     ("c1", "slurmd", "root"), ("login", "sackd", "slurm"), ("ray-head", "gcs_server", "ray"),
     ("ray-worker-1", "raylet", "ray")],
)  # fmt: skip
def test_the_daemon_runs_under_an_init_as_its_user(host: Hosts, service: str, process: str, user: str) -> None:
    # by its command line: Slurm's daemons change the name of the process when they reconfigure
    daemons = [one for one in host(service).process.filter(user=user) if one.args.split()[0].endswith(process)]
    assert len(daemons) == 1, host(service).check_output("ps -eo user,args")
    assert host(service).process.get(pid=1).comm == "tini"


@pytest.mark.parametrize(
    ("service", "port"),
    [("slurmctld", 6817), ("slurmdbd", 6819), ("c1", 6818), ("db", 3306), ("ray-head", 8265), ("ray-head", 6379)],
)
def test_ports_answer(cluster: Cluster, service: str, port: int) -> None:
    client = "slurmdbd" if service == "db" else "login" if service != "ray-head" else "c1"
    cluster.exec(client, ["bash", "-c", f"exec 3<>/dev/tcp/{service}/{port}"], timeout_s=10)


def test_the_database_is_out_of_reach_of_users(cluster: Cluster) -> None:
    for service in ("login", "c1", "ray-head"):
        result = cluster.exec(service, ["bash", "-c", "timeout 3 bash -c 'exec 3<>/dev/tcp/db/3306'"], check=False)
        assert result.exit_code != 0, service


def test_no_container_keeps_a_zombie(cluster: Cluster) -> None:
    """Ray's server of clients looks after a driver's process a moment after it has ended."""
    from provisioning.waiting import wait_for

    def zombies(service: str) -> list[str]:
        states = cluster.exec(service, ["ps", "-eo", "stat=,pid=,comm="]).stdout.splitlines()
        return [line for line in states if line.startswith("Z")]

    for service in cluster.services():
        wait_for(f"zombies of {service}", lambda service=service: zombies(service), lambda found: not found,
                 timeout_s=20)  # fmt: skip


def test_versions(cluster: Cluster, host: Hosts) -> None:
    for service, command in (("login", "sinfo --version"), ("c1", "slurmd -V"), ("slurmctld", "slurmctld -V")):
        assert host(service).check_output(command).split()[1].startswith(f"{cluster.settings.slurm}."), command
    assert versions.RAY in host("ray-head").check_output("/opt/ray/bin/ray --version")
    assert host("login").exists("/opt/ray/bin/ray")
    assert "MariaDB" in host("db").check_output("mariadbd --version")


def test_every_client_command_is_on_the_login_node(cluster: Cluster) -> None:
    names = ["sbatch", "srun", "salloc", "scancel", "squeue", "sinfo", "sacct", "sacctmgr", "scontrol", "sprio",
             "sshare", "sstat", "sreport", "sdiag", "strigger", "sattach", "sbcast", "ray"]  # fmt: skip
    script = f"for c in {' '.join(names)}; do command -v $c >/dev/null || echo $c; done"
    missing = cluster.exec("login", ["bash", "-lc", script], user="alice")
    assert missing.stdout.split() == []


def test_secrets_are_closed_and_absent_from_docker_inspect(cluster: Cluster, host: Hosts) -> None:
    folder = cluster.settings.generated / "secrets"
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "slurm.key": 0o600, "db_password": 0o600, "ray_token": 0o600,
    }  # fmt: skip
    inspected = run_local(["docker", "inspect", *[cluster.container_name(name) for name in cluster.services()]]).stdout
    for name in ("db_password", "ray_token"):
        assert (folder / name).read_text().strip() not in inspected, name
    for service in ("slurmctld", "slurmdbd", "c1", "login"):
        key = host(service).file("/etc/slurm/slurm.key")
        assert (key.exists, key.user, key.mode) == (True, "slurm", 0o600), service


def test_nothing_is_privileged_and_ports_stay_on_this_host(cluster: Cluster) -> None:
    inspected = run_local(["docker", "inspect", *[cluster.container_name(name) for name in cluster.services()]]).stdout
    for container in json.loads(inspected):
        config, name = container["HostConfig"], container["Name"]
        assert not config["Privileged"], name
        assert config["CapDrop"] == ["ALL"], name
        assert config["ReadonlyRootfs"], name
        assert any(option.startswith("no-new-privileges") for option in config["SecurityOpt"]), name
        assert config["NetworkMode"] != "host", name
        assert not config["PidMode"], name
        assert config["Memory"] > 0, name
        assert config["PidsLimit"] > 0, name
        binds = [mount for mount in container["Mounts"] if mount["Type"] == "bind"]
        assert not [mount for mount in binds if mount["RW"]], name
        assert not [mount for mount in binds if "docker.sock" in mount["Source"]], name
        for published in (config["PortBindings"] or {}).values():
            assert [port["HostIp"] for port in published] == ["127.0.0.1"], name


#: Programs that change their user or carry capabilities of their own, on the file system that the image became.
PRIVILEGED = r"""
import os, stat
device = os.stat("/").st_dev
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if os.lstat(os.path.join(folder, name)).st_dev == device]
    for path in (os.path.join(folder, name) for name in files):
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode):
            seen = True
            if mode & 0o6000 or "security.capability" in os.listxattr(path):
                print(path)
assert seen
"""


@pytest.mark.parametrize("service", ["db", "slurmctld", "ray-head"])
def test_no_image_has_a_program_with_rights_of_its_own(cluster: Cluster, service: str) -> None:
    assert cluster.exec(service, ["python3", "-c", PRIVILEGED]).stdout.split() == []


def test_root_file_systems_are_read_only(cluster: Cluster) -> None:
    for service in cluster.services():
        done = cluster.exec(service, ["touch", "/usr/x", "/etc/x", "/opt/x"], check=False)
        assert done.stderr.count("Read-only file system") == 3, (service, done)


def test_temporary_files_are_on_disk_and_may_be_programs(cluster: Cluster, alice: Person) -> None:
    """They would count as the container's memory otherwise."""
    for service in ("login", "ray-head", "ray-worker-1", *cluster.nodes()):
        found = cluster.exec(service, ["stat", "--file-system", "--format=%T", "/tmp"]).stdout.strip()
        assert found not in ("tmpfs", "overlayfs"), service
        assert cluster.exec(service, ["stat", "--format=%a", "/tmp"]).stdout.strip() == "1777", service
    assert alice.run("bash", "-c", "cp /bin/echo $TMPDIR/program && $TMPDIR/program ran; rm $TMPDIR/program") == "ran\n"


def test_no_volume_is_left_of_what_is_removed(cluster: Cluster) -> None:
    """A volume without a name, such as that of /tmp, goes with its container, also with one that has inherited it."""
    cluster.compose("up", "--detach", "--no-build", "--no-deps", "--force-recreate", "ray-worker-1")
    record = cluster.inspect()["ray-worker-1"]
    nameless = {mount["Name"] for mount in record["Mounts"] if mount["Destination"] in ("/tmp", "/var/lib/ray")}
    assert len(nameless) == 2
    cluster.remove(["ray-worker-1"])
    try:
        left = run_local(["docker", "volume", "ls", "--quiet"]).stdout.split()
        assert not nameless & set(left)
    finally:
        up(cluster.settings)


def test_one_time_zone_everywhere(cluster: Cluster) -> None:
    zones = {cluster.exec(service, ["date", "+%Z %z"]).stdout for service in cluster.services()}
    assert len(zones) == 1
