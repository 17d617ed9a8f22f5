"""Secrets stay where they belong: what finds and removes them, the archive, and how they are changed."""

from __future__ import annotations

import base64
import gzip
import io
import secrets as random_source
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provisioning import archive, ray_api, ready, rotate, up
from provisioning.archive import pack
from provisioning.cluster import Cluster, Container, Result
from provisioning.errors import LabError
from provisioning.load import load_lab
from provisioning.progress import Progress
from provisioning.redact import all_secrets, forms, holds, read_secrets, redact
from provisioning.secretfiles import MAKERS, ensure_secrets
from provisioning.settings import Settings
from tests.leaks import PIECE, contents, streams_with

LAB = load_lab("ci")
SECRETS = {name: make() for name, make in MAKERS.items()}
WRAPS: dict[str, Callable[[bytes], bytes]] = {
    "raw": bytes,
    "base64": base64.b64encode,
    "for URLs": base64.urlsafe_b64encode,
    "second place": lambda secret: base64.b64encode(b"x" + secret + b"more"),
    "third place": lambda secret: base64.b64encode(b"u:" + secret),
    "hexadecimal": lambda secret: secret.hex().encode(),
    "HEXADECIMAL": lambda secret: secret.hex().upper().encode(),
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_found_and_removed_in_every_form(name: str, wrap: Callable[[bytes], bytes]) -> None:
    content = b"before " + wrap(SECRETS[name]) + b" after"
    assert holds(content, SECRETS) == [name]
    clean = redact(content, SECRETS)
    assert holds(clean, SECRETS) == []
    assert (clean.startswith(b"before "), clean.endswith(b" after")) == (True, True)
    assert f"[{name} removed]".encode() in clean


def test_every_length_is_found_at_every_place_of_base64() -> None:
    for length in range(16, 22):
        secret = random_source.token_bytes(length)
        for before in range(6):
            assert any(form in base64.b64encode(b"x" * before + secret + b"tail") for form in forms(secret))


def test_other_content_is_left_alone() -> None:
    content = random_source.token_bytes(5000)
    assert redact(content, SECRETS) == content
    assert holds(content, SECRETS) == []


def members(packed: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar if one.isfile()}  # type: ignore[union-attr]


def test_the_archive_holds_the_texts_without_the_secrets() -> None:
    token = SECRETS["ray_token"].decode()
    packed = pack({"logs/a.log": f"token {token} used\n", "doctor.txt": "nothing\n"}, SECRETS, "t")
    assert members(packed) == {"t/logs/a.log": b"token [ray_token removed] used\n", "t/doctor.txt": b"nothing\n"}


def test_a_secret_that_could_not_be_removed_keeps_the_archive_from_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archive, "redact", lambda content, _: content)
    with pytest.raises(LabError, match=r"logs/a\.log would have held ray_token: nothing was written"):
        pack({"logs/a.log": SECRETS["ray_token"].decode()}, SECRETS, "t")


def nested(compressed: bool) -> bytes:
    """An archive in an archive, as `docker save` writes images; a secret lies across two pieces of one of its files."""
    layer, image = io.BytesIO(), io.BytesIO()
    for buffer, files in ((layer, {"etc/plain": b"x" * 2000, "etc/key": b"." * PIECE + SECRETS["slurm.key"]}),
                          (image, None)):  # fmt: skip
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            content = gzip.compress(layer.getvalue(), 1) if compressed else layer.getvalue()
            for name, data in (files or {"1/layer.tar": content, "VERSION": b"1.0"}).items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return image.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
def test_the_scan_of_images_sees_into_layers(compressed: bool) -> None:
    found = dict.fromkeys(name for name, _ in contents(io.BytesIO(nested(compressed))))
    assert list(found) == ["1/layer.tar!etc/plain", "1/layer.tar!etc/key", "VERSION"]
    leaks = streams_with(contents(io.BytesIO(nested(compressed))), SECRETS)
    assert leaks == {"1/layer.tar!etc/key": ["slurm.key"]}


# -- a rotation


class Fake:
    """A cluster that notes what is done to it; ``breaks_at`` is the action that fails."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, running: bool = True) -> None:
        self.cluster = Cluster(Settings(lab="ci", project="t", root=tmp_path), LAB)
        self.folder = self.cluster.settings.generated / "secrets"
        ensure_secrets(self.folder)
        self.done: list[str] = []
        self.breaks_at = ""
        self.told: list[str] = []
        self.queue = ""
        self.nodes = "NodeName=c1 State=IDLE\nNodeName=c2 State=IDLE+DRAIN Reason=a new fan [root@now]\n"
        containers = {name: Container(name, f"t-{name}-1", "running", "healthy", "image", {})
                      for name in self.cluster.services()} if running else {}  # fmt: skip
        monkeypatch.setattr(Cluster, "containers", lambda _: containers)
        monkeypatch.setattr(Cluster, "compose", lambda _, *words, **__: self._act(" ".join(words)))
        monkeypatch.setattr(Cluster, "exec", lambda _, _service, argv, **__: self._exec(*argv))
        monkeypatch.setattr(up, "refuse_other_owner", lambda _: running)
        monkeypatch.setattr(ray_api, "get", lambda *_, **__: [])
        monkeypatch.setattr(ready, "wait_ready", lambda *_, **__: self._act("wait"))

    def _exec(self, *words: str) -> Result:
        if words[0] == "squeue":
            return Result(0, self.queue, "")
        if words[:2] == ("scontrol", "-o"):
            return Result(0, self.nodes, "")
        if words[0] == "scontrol" and "State=DOWN" in words:
            self.queue = ""
        said = " ".join(words)
        self.told.append(said)
        if "NodeName=c1" in said:
            state, reason = (
                ("IDLE", "") if "RESUME" in said else ("IDLE+DRAIN", "Reason=make rotate-secrets [root@now]")
            )
            self.nodes = f"NodeName=c1 State={state} {reason}\n" + self.nodes.split("\n", 1)[1]
        return Result(0, "", "")

    def _act(self, what: str) -> Result:
        self.done.append(what)
        if self.breaks_at and what.startswith(self.breaks_at):
            raise LabError(f"{what} failed", "look")
        return Result(0, "", "")

    def rotate(self, *, force: bool = False) -> None:
        with Progress() as progress:
            rotate.rotate(self.cluster, progress, force=force)


def test_all_stop_in_order_before_anyone_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(tmp_path, monkeypatch)
    before = read_secrets(fake.folder)
    fake.rotate()
    assert fake.done == [
        "stop --timeout 20 slurmctld",
        "stop --timeout 20 login c1 c2 ray-head ray-worker-1",
        "stop --timeout 20 slurmdbd",
        "stop --timeout 20 db",
        "start",
        "wait",
    ]
    after = read_secrets(fake.folder)
    assert sorted(after) == sorted(before)
    assert all(before[name] != after[name] for name in before)
    assert {path.stat().st_mode & 0o777 for path in fake.folder.iterdir()} == {0o600}
    assert not (fake.cluster.settings.generated / rotate.FOLDER).exists()


@pytest.mark.parametrize("action", ["stop --timeout 20 slurmctld", "stop --timeout 20 db", "start", "wait", "put"])
def test_the_next_call_ends_a_rotation_with_the_same_secrets(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Fake(tmp_path, monkeypatch)
    fake.breaks_at = action
    if action == "put":  # only the first secret is in its place
        written: list[Path] = []

        def one_only(path: Path, content: bytes) -> None:
            if written:
                raise LabError("put failed", "look")
            written.append(path)
            path.write_bytes(content)

        with monkeypatch.context() as patch:
            patch.setattr(rotate, "write_secret", one_only)
            patch.setattr(rotate.Cluster, "open", lambda _: fake.cluster)
            with pytest.raises(LabError, match="half done: put failed") as caught:
                rotate.rotate_command(fake.cluster.settings, force=False)
    else:
        with monkeypatch.context() as patch, pytest.raises(LabError, match="the rotation is half done") as caught:
            patch.setattr(rotate.Cluster, "open", lambda _: fake.cluster)
            rotate.rotate_command(fake.cluster.settings, force=False)
    assert "make rotate-secrets again" in caught.value.hint
    made = read_secrets(fake.cluster.settings.generated / rotate.FOLDER)
    assert sorted(made) == sorted(MAKERS)
    fake.breaks_at, fake.queue = "", "7 (alice, RUNNING)\n"  # what runs by now does not keep it from its end
    fake.rotate()
    assert read_secrets(fake.folder) == made
    assert fake.done[-2:] == ["start", "wait"]
    assert "going on with those of the rotation before" in capsys.readouterr().out


def test_running_work_is_not_ended_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node that somebody drained by hand keeps its reason."""
    fake = Fake(tmp_path, monkeypatch)
    before = read_secrets(fake.folder)
    fake.queue = "7 (alice, RUNNING)\n"
    jobs: list[dict[str, Any]] = [{"status": "RUNNING", "submission_id": "raysubmit_1"}, {"status": "SUCCEEDED"}]
    monkeypatch.setattr(ray_api, "get", lambda *_, **__: jobs)
    with pytest.raises(LabError, match=r"job 7 \(alice, RUNNING\), Ray job raysubmit_1") as caught:
        fake.rotate()
    assert "FORCE=1" in caught.value.hint
    assert (fake.done, read_secrets(fake.folder)) == ([], before)
    assert not (fake.cluster.settings.generated / rotate.FOLDER).exists()
    drained = "scontrol update NodeName=c1 State=DRAIN Reason=make rotate-secrets"
    assert fake.told == [drained, "scontrol update NodeName=c1 State=RESUME"]
    fake.told.clear()
    fake.rotate(force=True)
    assert fake.done[-2:] == ["start", "wait"]
    assert fake.told == [drained, drained.replace("DRAIN", "DOWN"), "scontrol update NodeName=c1 State=RESUME"]


def test_secrets_of_a_rotation_that_was_broken_off_are_secrets_too(tmp_path: Path) -> None:
    for folder in ("secrets", rotate.FOLDER):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ray_token").write_text(f"in {folder}")
    assert all_secrets(tmp_path) == {"ray_token": b"in secrets", "new ray_token": b"in rotating"}


def test_jobs_that_do_not_end_leave_the_lab_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(tmp_path, monkeypatch)

    def never(what: str, *_: object, **__: object) -> None:
        raise LabError(f"{what}: not within 60 s")

    monkeypatch.setattr(rotate, "wait_for", never)
    with pytest.raises(LabError, match="jobs that are to end"):
        fake.rotate()
    assert fake.told[-1] == "scontrol update NodeName=c1 State=RESUME"
    assert (fake.done, (fake.cluster.settings.generated / rotate.FOLDER).exists()) == ([], False)


def test_a_lab_that_is_down_only_gets_new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(tmp_path, monkeypatch, running=False)
    before = read_secrets(fake.folder)
    fake.rotate()
    assert fake.done == []
    assert all(before[name] != content for name, content in read_secrets(fake.folder).items())


def test_a_lab_that_never_was_up_has_nothing_to_rotate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(tmp_path / "other", monkeypatch)
    monkeypatch.setattr(fake, "cluster", Cluster(Settings(lab="ci", project="none", root=tmp_path), LAB))
    with pytest.raises(LabError, match="has no secrets yet") as caught:
        fake.rotate()
    assert caught.value.hint.startswith("make up")
