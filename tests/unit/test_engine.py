"""What people read when there is no engine, or one that they may not use; and what a failed build means."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from provisioning import engine, images, versions
from provisioning.errors import LabError


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without an engine, Debian 12, root, no terminal; nothing is installed or started for real."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("ENGINE", raising=False)
    monkeypatch.setattr(engine, "_engine_state", lambda: "no docker command")
    monkeypatch.setattr(engine, "_plugin_answers", lambda _: False)
    monkeypatch.setattr(engine, "_os_release", lambda: {"ID": "debian", "VERSION_CODENAME": "bookworm"})
    monkeypatch.setattr(engine.os, "geteuid", lambda: 0)
    monkeypatch.setattr(engine.shutil, "which", lambda _: None)

    def refuse(*_: object) -> None:
        raise AssertionError("nothing may be installed here")

    monkeypatch.setattr(engine, "apt_install", refuse)
    monkeypatch.setattr(engine, "_start", refuse)
    return monkeypatch


def test_never_means_never(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("ENGINE", "never")
    with pytest.raises(LabError, match="no container engine answers, and ENGINE=never") as caught:
        engine.ensure_engine(print)
    assert "install Docker Engine" in caught.value.hint


def test_a_user_outside_the_docker_group_is_told_so(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(engine, "_engine_state", lambda: "permission denied while trying to connect to the docker daemon")
    with pytest.raises(LabError, match="may not use the container engine") as caught:
        engine.ensure_engine(print)
    assert "usermod -aG docker" in caught.value.hint


def test_another_system_is_told_what_to_install(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(engine, "_os_release", lambda: {"ID": "fedora"})
    with pytest.raises(LabError, match="missing on this machine") as caught:
        engine.ensure_engine(print)
    assert "Compose v2 and buildx" in caught.value.hint


def test_only_root_installs(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(engine.os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="only root may install the container engine") as caught:
        engine.ensure_engine(print)
    assert "apt install docker.io" in caught.value.hint


def test_on_a_terminal_no_means_no(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(engine.sys, "stdin", type("Terminal", (), {"isatty": staticmethod(lambda: True)}))
    machine.setattr("builtins.input", lambda _: "n")
    with pytest.raises(LabError, match="no container engine"):
        engine.ensure_engine(print)


def test_an_engine_that_answers_is_left_alone(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(engine, "_engine_state", lambda: "")
    machine.setattr(engine, "_plugin_answers", lambda _: True)
    engine.ensure_engine(print)


def test_a_stale_pid_file_is_removed_and_a_dockerds_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pid_file = tmp_path / "docker.pid"
    monkeypatch.setattr(engine, "PID_FILE", pid_file)
    pid_file.write_text("1\n")
    assert not engine._running_dockerd()
    assert not pid_file.exists()
    pid_file.write_text("1\n")
    monkeypatch.setattr(engine, "_is_dockerd", lambda pid: pid == 1)
    assert engine._running_dockerd()
    assert pid_file.exists()


def test_only_an_engine_of_ours_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []
    monkeypatch.setattr(engine, "MARKER", tmp_path / "marker")
    engine.stop_engine(said.append)
    (tmp_path / "marker").write_text("1\n")  # a process that is no dockerd: its number was used again
    engine.stop_engine(said.append)
    assert said == ["engine: not started by the lab, left as it is"] * 2


@pytest.mark.parametrize(
    ("output", "word"),
    [("write /x: no space left on device", "docker system df"), ("SSL: CERTIFICATE_VERIFY_FAILED", "CA_CERTS"),
     ("Could not resolve host", "DEBIAN_MIRROR")],
)  # fmt: skip
def test_a_failed_build_says_what_to_do(output: str, word: str) -> None:
    assert word in images._next_step(output)


def test_an_image_is_built_anew_when_its_folder_or_its_parents_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for kind in ("base", "ray", "slurm", "db"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "Dockerfile").write_text(f"FROM {kind}\n")
    monkeypatch.setattr(images, "FOLDER", tmp_path)
    before = {kind: images.image_digest(kind, "24.11") for kind in ("base", "ray", "slurm", "db")}
    (tmp_path / "ray" / "Dockerfile").write_text("FROM ray\nRUN true\n")
    after = {kind: images.image_digest(kind, "24.11") for kind in before}
    assert {kind for kind in before if before[kind] != after[kind]} == {"ray", "slurm"}
    assert images.image_digest("base", "26.05") != after["base"]


def test_images_that_are_missing_or_were_made_of_something_else_are_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {images.image_name(kind, "24.11"): images.image_digest(kind, "24.11") for kind in versions.PARENTS}
    monkeypatch.setattr(images, "_label", lambda image: labels.get(image, ""))
    assert images.stale_images("24.11") == []
    labels[images.image_name("db", "24.11")] = "of another day"
    del labels[images.image_name("ray", "24.11")]
    assert images.stale_images("24.11") == ["ray", "db"]


def test_a_ca_file_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CA_CERTS", str(tmp_path / "none.pem"))
    with pytest.raises(LabError, match="no such file"):
        images._secrets(tmp_path)


@pytest.mark.parametrize("fails", ["", "mmdebstrap", "docker"])
def test_a_bootstrap_leaves_no_open_pipe(fails: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An open pipe is a warning at any later time, and so a failure of whatever test runs then."""
    for name, work in (("mmdebstrap", "echo root file system"), ("docker", "cat >/dev/null")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{'exit 3' if name == fails else work}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DEBIAN_MIRROR", "")
    if fails:
        with pytest.raises(LabError, match="the bootstrap failed"):
            images._bootstrap("trixie", "made:up", print)
    else:
        images._bootstrap("trixie", "made:up", print)
    gc.collect()
