"""No secret of the lab is where others read: images, Docker's records, logs, processes, the archive for helpers."""

from __future__ import annotations

import re
import subprocess

import pytest

from provisioning import versions
from provisioning.archive import bundle_command
from provisioning.cluster import Cluster, run_local
from provisioning.images import image_name
from provisioning.redact import holds, read_secrets
from provisioning.waiting import wait_for
from smoke.login import Login
from tests.leaks import contents, streams_with

pytestmark = pytest.mark.slow

#: Stands in a file of the slurm image: a scan that does not find it sees nothing.
SEEN = b"RAY_AUTH_TOKEN_PATH=/etc/lab-ray/token"
#: Arguments and environments of all processes of a container. Root may not look into those of others without a right
#: that containers do not have, so each user's are read as that user.
PROCESSES = """
for status in /proc/[0-9]*/status; do
    set -- $(sed -n 's/^[UG]id:[[:space:]]*\\([0-9]*\\).*/\\1/p' "$status" 2>/dev/null)
    [ $# = 2 ] || continue
    cat "${status%/status}/cmdline" 2>/dev/null || true
    setpriv --reuid "$1" --regid "$2" --clear-groups cat "${status%/status}/environ" 2>/dev/null || true
done
"""


@pytest.fixture(scope="module")
def secrets(cluster: Cluster) -> dict[str, bytes]:
    found = read_secrets(cluster.settings.generated / "secrets")
    assert sorted(found) == ["db_password", "ray_token", "slurm.key"]
    return found


@pytest.mark.parametrize("kind", versions.PARENTS)
def test_no_image_holds_a_secret_in_any_layer(cluster: Cluster, secrets: dict[str, bytes], kind: str) -> None:
    image, names = image_name(kind, cluster.settings.slurm), set()
    history = run_local(["docker", "history", "--no-trunc", "--format", "{{json .}}", image]).stdout
    assert "COPY files" in history or "COPY file" in history, history
    assert not holds(history.encode(), secrets)
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as save:
        assert save.stdout is not None

        def pieces():  # type: ignore[no-untyped-def]
            for name, piece in contents(save.stdout):
                names.add(name.rpartition("!")[2].removeprefix("./"))
                yield name, piece

        leaks = streams_with(pieces(), secrets | {"seen": SEEN})
    assert save.returncode == 0
    assert {name for found in leaks.values() for name in found} == ({"seen"} if kind == "slurm" else set()), leaks
    # nor a file where a secret would lie, nor a key of a host made while building
    wrong = re.compile(
        r"(^|/)(run/secrets/(?!ca$|pip$).+|slurm\.key|db_password|ray_token|lab-ray/token|ssh_host_.*_key)$"
    )
    assert [name for name in names if wrong.search(name)] == []
    assert {"etc/os-release", "usr/local/lib/lab/wait-port"} <= names


def test_dockers_records_hold_no_secret(cluster: Cluster, secrets: dict[str, bytes]) -> None:
    project = cluster.settings.project
    names = [cluster.container_name(name) for name in cluster.services()]
    lists = {"volume": ["docker", "volume", "ls", "-q", "--filter", f"name={project}_"],
             "network": ["docker", "network", "ls", "-q", "--filter", f"name={project}_"]}  # fmt: skip
    records = run_local(["docker", "inspect", *names]).stdout
    assert all(name in records for name in names)
    for kind, command in lists.items():
        found = run_local(command).stdout.split()
        assert found, kind
        records += run_local(["docker", kind, "inspect", *found]).stdout
    assert not holds(records.encode(), secrets)


def test_logs_hold_no_secret(cluster: Cluster, secrets: dict[str, bytes]) -> None:
    for service in cluster.services():
        done = run_local(["docker", "logs", cluster.container_name(service)])
        text = (done.stdout + done.stderr).encode()
        assert text, service
        assert not holds(text, secrets), service


def test_the_files_ray_writes_hold_no_secret(cluster: Cluster, secrets: dict[str, bytes]) -> None:
    """Its session folder has the logs and settings of every process; users' jobs write there too."""
    for service in ("ray-head", *cluster.ray_workers()):
        packed = subprocess.run(
            ["docker", "exec", cluster.container_name(service), "sh", "-c",
             "tar -c --warning=none --exclude='*.sock*' --exclude=sockets -C /tmp ray || [ $? = 1 ]"],
            capture_output=True, timeout=60, check=True).stdout  # fmt: skip
        assert b"raylet.out" in packed, service
        assert not holds(packed, secrets), service


def test_no_process_carries_a_secret(cluster: Cluster, secrets: dict[str, bytes]) -> None:
    Login(cluster, "alice", "").run("sbatch", "--nodelist=c1", "--output=/dev/null", "--job-name=leaks",
                                    "--export=ALL,MARK=in-the-environment", "--wrap", "srun sleep 60")  # fmt: skip

    def processes(service: str) -> str:
        return cluster.exec(service, ["sh", "-c", PROCESSES]).stdout

    try:
        # the look sees into a user's processes too
        wait_for("alice's job", lambda: processes("c1"), lambda text: "MARK=in-the-environment" in text, timeout_s=60,
                 show=lambda text: text[:300])  # fmt: skip
        for service in cluster.services():
            text = processes(service)
            assert "tini" in text, service
            assert "LANG=C.UTF-8" in text, service
            assert not holds(text.encode(), secrets), service
    finally:
        cluster.exec("slurmctld", ["scancel", "--name=leaks"])


def test_a_users_shell_and_jobs_are_given_no_secret(cluster: Cluster, secrets: dict[str, bytes]) -> None:
    alice = Login(cluster, "alice", "")
    for text in (alice.run("env").stdout, alice.run("srun", "--immediate=30", "env").stdout):
        assert "RAY_AUTH_TOKEN_PATH" in text
        assert not holds(text.encode(), secrets)
    # the token is for users, and they read it from its file; the others are not for them
    assert alice.run("cat", "/etc/lab-ray/token").stdout.strip() == secrets["ray_token"].decode()
    for path in ("/etc/slurm/slurm.key", "/run/secrets/slurm.key", "/run/secrets/db_password"):
        assert alice.run("cat", path, check=False).exit_code != 0, path


def test_the_bundle_holds_no_secret(
    cluster: Cluster, secrets: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Although one stands in a log: what a program says of itself is not ours to choose."""
    token, tail = secrets["ray_token"].decode(), Cluster.log_tail

    def careless(self: Cluster, service: str, lines: int = 8) -> str:
        return tail(self, service, lines) + (f"\na careless program says {token}" if service == "c1" else "")

    # said by the door, not in the container: its log could not be made clean again
    monkeypatch.setattr(Cluster, "log_tail", careless)
    path = tmp_path_factory.mktemp("bundle") / "b.tar.gz"
    assert bundle_command(cluster.settings, str(path)) == 0
    assert "no secrets" in capsys.readouterr().out
    with path.open("rb") as packed:
        pieces = list(contents(packed))
    texts: dict[str, bytes] = {}
    for name, piece in pieces:
        short = name.partition("/")[2]
        texts[short] = texts.get(short, b"") + piece
    assert not streams_with(pieces, secrets)
    for name in ("logs/c1.log", "bundle.txt"):
        assert b"a careless program says [ray_token removed]" in texts[name], name
    assert b"==== scontrol show node" in texts["bundle.txt"]
    assert b"SlurmctldHost=slurmctld" in texts["configuration/etc/slurm/slurm.conf"]
    assert b"Docker Compose version" in texts["versions.txt"]
    assert {f"logs/{service}.log" for service in cluster.services()} < set(texts)
    assert texts["doctor.txt"].strip()
    assert not [name for name in texts if "secrets" in name or "shadow" in name]
