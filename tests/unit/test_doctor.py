"""Each check of the doctor against facts with its fault in them, and against facts without; no lab is asked."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioning import doctor as package
from provisioning.cluster import Cluster, Container
from provisioning.doctor import CHECKS, Finding, agreement, daemons, inside, kept, machine, room, run_checks
from provisioning.doctor.look import KEY_FILE, TOKEN_FILE, Inside, Look
from provisioning.errors import LabError
from provisioning.load import load_lab
from provisioning.rotate import FOLDER
from provisioning.secretfiles import ensure_secrets
from provisioning.settings import Settings

LAB = load_lab("ci")
KEY = b"key"


def look(tmp_path: Path) -> Look:
    return Look(Cluster(Settings(lab="ci", project="t", root=tmp_path), LAB))


def view(ahead_s: float = 0, key: bytes = KEY, **addresses: str) -> Inside:
    return Inside(ahead_s, addresses, {KEY_FILE: hashlib.sha256(key).hexdigest() if key else "", TOKEN_FILE: ""})


def container(service: str, state: str = "running", health: str = "healthy") -> Container:
    return Container(service, f"t-{service}-1", state, health, "image", {})


def where(found: Iterator[Finding] | list[Finding]) -> list[str]:
    """Where the findings are; each says what to do."""
    rows = list(found)
    assert all(one.what and one.remedy for one in rows), rows
    return [one.where for one in rows]


# -- the doctor itself


def test_a_broken_check_hides_nothing_of_the_others(tmp_path: Path) -> None:
    def found(_: Look) -> Iterator[Finding]:
        yield Finding("c1", "fault", "mend it")

    def half(_: Look) -> Iterator[Finding]:
        yield Finding("c2", "seen before the check broke", "mend it")
        raise KeyError("State")

    def refuses(_: Look) -> Iterator[Finding]:
        raise LabError("no answer", "make up")
        yield

    rows = run_checks(look(tmp_path), {"broken": half, "refuses": refuses, "too": refuses, "well": found})
    assert [(one.where, one.what) for one in rows] == [
        ("c2", "seen before the check broke"),
        ("broken", "this check does not work here: KeyError: 'State'"),
        ("refuses", "no answer"),  # and not a second time from the check `too`
        ("c1", "fault"),
    ]
    assert str(rows[2]) == "refuses: no answer\n  do: make up"


def test_checks_run_side_by_side(tmp_path: Path) -> None:
    """Each of three waits for the other two: one after the other none would end."""
    meet = threading.Barrier(3, timeout=5)

    def check(_: Look) -> list[Finding]:
        meet.wait()
        return []

    assert run_checks(look(tmp_path), {"a": check, "b": check, "c": check}) == []


def test_each_thing_is_asked_once_and_a_failure_is_everybodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()

    def containers(_: Cluster) -> dict[str, Container]:
        asked["containers"] += 1
        raise LabError("the container engine does not answer: gone", "make up starts it")

    monkeypatch.setattr(Cluster, "containers", containers)
    monkeypatch.setattr(machine, "disk", lambda _: [])
    checks = {name: check for name, check in CHECKS.items() if name not in ("disk", "images")}
    rows = run_checks(look(tmp_path), checks)
    assert [(one.where, one.remedy) for one in rows] == [("engine", "make up starts it")]
    assert asked["containers"] == 1


@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        ([], 0, ["nothing is wrong with the lab ci"]),
        ([Finding("c1", "drained", "resume")], 1, ["c1: drained", "do: resume"]),
    ],
)
def test_what_the_command_says(
    found: list[Finding], status: int, words: list[str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(package, "examine", lambda _: found)
    assert package.doctor(Settings(lab="ci")) == status
    said = capsys.readouterr().out
    assert all(word in said for word in words)
    if not found:
        assert len(said.splitlines()) == 1


# -- this machine


def test_a_full_disk() -> None:
    assert where(machine.disk_findings({"/": 1.9, "/var/lib/docker": 300.0})) == ["disk"]
    assert where(machine.disk_findings({"/": 2.1})) == []


def meminfo(total_mb: int, available_mb: int) -> str:
    return f"MemTotal:  {total_mb * 1024} kB\nMemFree: 1 kB\nMemAvailable: {available_mb * 1024} kB\n"


@pytest.mark.parametrize(
    ("text", "up", "killed", "found"),
    [
        (meminfo(8000, 5000), False, [], []),
        (meminfo(8000, 1500), True, [], []),
        (meminfo(8000, 1500), False, [], ["memory"]),
        (meminfo(8000, 300), True, [], ["memory"]),
        (meminfo(2000, 1900), True, [], ["memory"]),
        (meminfo(8000, 5000), True, ["ray-head"], ["ray-head"]),
        ("", True, [], []),
    ],
)
def test_memory(text: str, up: bool, killed: list[str], found: list[str]) -> None:
    assert where(machine.memory_findings(text, up, killed)) == found


def test_old_images() -> None:
    assert where(machine.image_findings([], [], "24.11")) == []
    (stale,) = machine.image_findings(["slurm"], [], "24.11")
    (old,) = machine.image_findings([], ["c1", "login"], "24.11")
    assert "slurm" in stale.what
    assert "c1, login" in old.what


def test_a_container_of_an_image_that_was_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = look(tmp_path)
    rows = {"c1": ("slurm", "sha256:1"), "login": ("slurm", "sha256:2"), "db": ("db", "sha256:3")}
    records = {service: {"Config": {"Image": image}, "Image": id_} for service, (image, id_) in rows.items()}
    monkeypatch.setattr(one, "inspected", lambda: records)
    monkeypatch.setattr("provisioning.images.image_id", {"slurm": "sha256:2", "db": "sha256:3"}.__getitem__)
    monkeypatch.setattr("provisioning.images.stale_images", lambda _: [])
    (found,) = machine.images(one)
    assert found.what.endswith(": c1")


def test_the_dashboard_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = look(tmp_path)
    bound = [{"HostIp": "127.0.0.1", "HostPort": "9000"}]
    monkeypatch.setattr(one, "containers", lambda: {"ray-head": container("ray-head")})
    monkeypatch.setattr(one, "inspected", lambda: {"ray-head": {"NetworkSettings": {"Ports": {"8265/tcp": bound}}}})
    (found,) = machine.port(one)
    assert "127.0.0.1:9000" in found.what
    assert "DASHBOARD_PORT=9000" in found.remedy


def test_a_port_that_another_program_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings(lab="ci", project="t", root=tmp_path, dashboard=str(taken.getsockname()[1]))
        one = Look(Cluster(settings, LAB))
        monkeypatch.setattr(one, "containers", dict)
        (found,) = run_checks(one, {"port": machine.port})
    assert "cannot be used" in found.what
    assert "DASHBOARD_PORT" in found.remedy


# -- what is kept


def test_volumes_of_which_some_are_gone() -> None:
    whole = [f"t_{name}" for name in kept.VOLUMES]
    assert where(kept.volume_findings("t", whole)) == []
    assert where(kept.volume_findings("t", [])) == []
    (found,) = kept.volume_findings("t", whole[1:])
    assert found.what.startswith("db of the lab t")


@pytest.mark.parametrize(
    ("saved", "recorded", "words"),
    [
        ("lab|7", {"lab": "7", "other": "8"}, None),
        ("lab|7\n", {"lab": "9"}, "number 7; accounting has lab with the number 9"),
        ("lab|7", {"other": "7"}, "accounting knows only other"),
        ("lab", {"lab": "9"}, None),  # an old Slurm keeps no number
        ("lab|7", {}, None),  # nothing is registered yet: that is another finding
    ],
)
def test_cluster_id(saved: str, recorded: dict[str, str], words: str | None) -> None:
    found = list(kept.cluster_findings(saved, recorded, "t_slurmctld", "image"))
    assert len(found) == (words is not None)
    for one in found:
        assert words is not None
        assert words in one.what
        assert "make destroy" in one.remedy
        assert "t_slurmctld:/state image rm /state/clustername" in one.remedy


def test_secrets_that_are_gone_empty_or_open(tmp_path: Path) -> None:
    one = look(tmp_path)
    folder = one.cluster.settings.generated / "secrets"
    assert where(kept.secrets(one)) == []
    ensure_secrets(folder)
    assert where(kept.secrets(one)) == []
    (folder / "slurm.key").write_bytes(b"")
    (folder / "db_password").unlink()
    (folder / "ray_token").chmod(0o640)
    texts = [found.what for found in kept.secrets(one)]
    assert [text.split()[0] for text in texts] == ["slurm.key", "db_password", "ray_token"]
    assert ["empty" in texts[0], "gone" in texts[1], "040" in texts[2]] == [True] * 3


def test_a_rotation_that_was_left(tmp_path: Path) -> None:
    one = look(tmp_path)
    assert where(kept.rotation(one)) == []
    (one.cluster.settings.generated / FOLDER).mkdir(parents=True)
    assert where(kept.rotation(one)) == ["secrets"]


# -- the daemons


def test_containers() -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    found = {"a": container("a"), "b": container("b", "exited"), "c": container("c", "restarting"),
             "d": container("d", health="unhealthy"), "e": container("e", health="starting"),
             "f": container("f", "paused")}  # fmt: skip
    assert where(daemons.container_findings(names, found, "t")) == ["b", "c", "d", "f"]
    assert where(daemons.container_findings(["a", "gone"], found, "t")) == ["gone"]
    (down,) = daemons.container_findings(names, {}, "t")
    assert (down.where, down.remedy) == ("lab", "make up")


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("IDLE", "", None), ("MIXED+PLANNED", "", None), ("ALLOCATED+COMPLETING", "", None),
        ("IDLE+DRAIN", "disk [root@now]", ["drained", "disk [root@now]", "state=resume"]),
        ("DOWN*", "Not responding", ["down and not answering", "docker restart"]),
        ("IDLE*", "", ["not answering", "no reason given"]),
        ("DOWN+NOT_RESPONDING", "x", ["down and not answering"]),
        ("IDLE+DRAIN+INVALID_REG", "gres/gpu count reported lower than configured (1 < 2)",
         ["not what it claims", "lower than configured", "make plan"]),
    ],
)  # fmt: skip
def test_nodes(state: str, reason: str, words: list[str] | None) -> None:
    found = list(daemons.node_findings(["c1"], {"c1": {"State": state, "Reason": reason}}, ["c1"]))
    assert len(found) == (words is not None)
    for one in found:
        assert all(word in str(one) for word in words or []), one


def test_a_node_whose_container_is_gone_and_one_that_slurmctld_does_not_know() -> None:
    gone, unknown = daemons.node_findings(["c1", "c2"], {"c1": {"State": "DOWN*"}}, ["c2"])
    assert gone.remedy.endswith("make up")
    assert (unknown.where, unknown.remedy) == ("c2", "make apply")


def test_the_database() -> None:
    assert where(daemons.database_findings("", True, "ready")) == []
    assert where(daemons.database_findings("ERROR 2002: no server", True, "")) == ["db"]
    assert where(daemons.database_findings("", False, "")) == ["slurmdbd"]
    (refused,) = daemons.database_findings("", True, "error: x\nerror: Access denied for user 'slurm'@'y'\n")
    assert "rotate-secrets" in refused.remedy


def test_accounting() -> None:
    assert where(daemons.accounting_findings("lab|172.0.0.2\n", "lab", True)) == []
    assert where(daemons.accounting_findings("other|172.0.0.2\n", "lab", True)) == ["slurmdbd"]
    assert where(daemons.accounting_findings("lab|\n", "lab", True)) == ["slurmctld"]
    assert where(daemons.accounting_findings("lab|\n", "lab", False)) == []


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (None, ["ray-worker-1"]),
        ("HTTP Error 401: Unauthorized", ["ray-head"]),
        ("HTTP Error 403: Forbidden", ["ray-head"]),
        ("Connection refused", []),
        ("timed out", ["Ray"]),
    ],
)
def test_ray(said: str | None, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def alive(_: Cluster) -> dict[str, dict[str, float]]:
        if said:
            raise LabError(said, "make logs")
        return {"ray-head": {}}

    one = look(tmp_path)
    monkeypatch.setattr(one, "containers", lambda: {name: container(name) for name in ("ray-head", "ray-worker-1")})
    monkeypatch.setattr("provisioning.ray_api.alive_nodes", alive)
    assert where(run_checks(one, {"Ray": daemons.ray})) == found


# -- what must be the same everywhere


def test_a_key_that_differs_and_one_that_is_missing() -> None:
    seen = {"c1": view(), "c2": view(key=b"other"), "login": view(key=b"")}
    found = list(agreement.secret_findings("Slurm key", KEY_FILE, seen, KEY))
    assert [one.where for one in found] == ["c2", "login"]
    assert ["another one" in found[0].what, "missing" in found[1].what] == [True, True]


@pytest.mark.parametrize(("ahead_s", "words"), [(0, None), (20, None), (-20, None), (90, "ahead"), (-90, "behind")])
def test_clocks(ahead_s: float, words: str | None) -> None:
    found = list(agreement.clock_findings({"c1": view(ahead_s), "c2": view()}))
    assert [one.where for one in found] == (["c1"] if words else [])
    assert all((words or "") in one.what for one in found)


def test_names() -> None:
    addresses = {"c1": ["10.0.0.1"], "c2": ["10.0.0.2", "10.1.0.2"]}
    assert where(agreement.name_findings({"c1": view(c1="127.0.1.1", c2="10.1.0.2")}, addresses)) == []
    unknown, wrong = agreement.name_findings({"login": view(c1="", c2="10.0.0.9")}, addresses)
    assert unknown.what == "it cannot look up c1"
    assert "takes c2 for 10.0.0.9, which is 10.0.0.2 or 10.1.0.2" in wrong.what


# -- the view from inside a container


def fake_exec(answer: Callable[[], str]) -> Callable[..., Any]:
    from provisioning.cluster import Result

    return lambda *_args, **_options: Result(0, answer(), "")


@pytest.mark.parametrize("ahead_s", [0.0, 90.0, -90.0])
def test_a_clock_is_compared_with_the_time_of_asking(
    ahead_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = look(tmp_path)
    monkeypatch.setattr(one, "containers", dict)
    answer = fake_exec(lambda: json.dumps({"time": time.time() + ahead_s, "addresses": {}, "digests": {}}))
    monkeypatch.setattr(one.cluster, "exec", answer)
    assert one.inside("c1").ahead_s == pytest.approx(ahead_s, abs=1)


def test_who_needs_which_names(tmp_path: Path) -> None:
    one = look(tmp_path)
    assert one.names_needed("slurmctld") == ["slurmctld", "ray-head", "slurmdbd", "c1", "c2"]
    assert one.names_needed("c1") == ["slurmctld", "ray-head", "c1", "c2"]
    needed: Sequence[list[str]] = [one.names_needed(name) for name in ("slurmdbd", "db", "ray-worker-1")]
    assert needed == [["db"], [], ["ray-head"]]


def test_the_agent_looks_names_up_and_gives_no_secret_away(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret of many letters")
    seen = inside.look(["localhost", "no such name"], [str(secret), str(tmp_path / "none")])
    assert seen["addresses"] == {"localhost": "127.0.0.1", "no such name": ""}
    assert seen["digests"] == {str(secret): hashlib.sha256(secret.read_bytes()).hexdigest(), str(tmp_path / "none"): ""}
    assert "many letters" not in json.dumps(seen)


def test_the_agent_needs_nothing_of_ours() -> None:
    done = subprocess.run([sys.executable, "-I", "-S", "-", "", "/none"], input=Path(inside.__file__).read_text(),
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert json.loads(done.stdout)["digests"] == {"/none": ""}


# -- room in the volumes


def test_a_full_volume_is_named_with_what_does_not_work() -> None:
    plenty, no_files = (1 << 40, 1 << 20), (1 << 40, 3)
    assert not list(room.room_findings("p", {one.name: plenty for one in room.VOLUMES}))
    rows = list(room.room_findings("p", {"db": (5 << 20, 1 << 20), "home": no_files, "ray": plenty}))
    assert [(one.where, one.what.partition(":")[0]) for one in rows] == [
        ("db", "its volume p_db (/var/lib/mysql) is full, 5 MB are left"),
        ("login", "its volume p_home (/home) is full, 3 files are left"),
    ]
    assert "docker volume inspect p_db" in rows[0].remedy
    assert "du -xsh /home/*" in rows[1].remedy


def test_every_volume_of_the_lab_is_looked_into() -> None:
    compose = yaml.safe_load((Settings().root / "compose" / "compose.yaml").read_text(encoding="utf-8"))
    assert {one.name for one in room.VOLUMES} == set(compose["volumes"])
    mounts = {(service, mount) for service, one in compose["services"].items() for mount in one.get("volumes", [])}
    assert {(one.service, f"{one.name}:{one.folder}") for one in room.VOLUMES} <= mounts
