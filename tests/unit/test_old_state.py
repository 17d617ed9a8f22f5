"""Which earlier state a start goes on from, and what it says of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioning import old_state, versions
from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.load import load_lab
from provisioning.old_state import STATE_FILE, read_state, reads, refuse_old_state, write_state
from provisioning.settings import Settings

LAB = load_lab("ci")


@pytest.mark.parametrize(("now", "was", "good"), [
    ("24.11", "24.11", True), ("26.05", "24.11", True), ("24.11", "26.05", False), ("24.11", "23.02", True),
    ("26.05", "24.05", False), ("26.05", "20.11", False), ("24.11", "27.05", False),
])  # fmt: skip
def test_slurm_reads_the_three_releases_before_it(now: str, was: str, good: bool) -> None:
    assert reads(now, was) is good


def test_every_line_of_the_lab_is_a_known_release() -> None:
    assert set(versions.SUITES) <= set(versions.SLURM_RELEASES)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A lab of 24.11 that is down, with volumes."""
    one = Cluster(Settings(lab="ci", project="kept", root=tmp_path), LAB)
    (one.settings.generated / "secrets").mkdir(parents=True)
    write_state(one.settings, LAB, ready=True)
    monkeypatch.setattr(old_state, "volumes", lambda _: ["kept_db", "kept_ray"])
    return one


def test_what_was_written_is_read(cluster: Cluster) -> None:
    assert read_state(cluster.settings)["ray"] == versions.RAY
    refuse_old_state(cluster)
    (cluster.settings.generated / STATE_FILE).unlink()
    refuse_old_state(cluster)  # nothing is known, nothing speaks against it


@pytest.mark.parametrize("text", ["{", "[1]", '"x"', ""])
def test_a_damaged_state_is_named(cluster: Cluster, text: str) -> None:
    (cluster.settings.generated / STATE_FILE).write_text(text)
    with pytest.raises(LabError, match=r"state\.json is damaged"):
        refuse_old_state(cluster)


def test_lost_secrets_are_named(cluster: Cluster) -> None:
    (cluster.settings.generated / "secrets").rmdir()
    with pytest.raises(LabError, match="its secrets are gone"):
        refuse_old_state(cluster)


def test_only_another_ray_or_line_leaves_rays_state_behind(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    class Done:
        exit_code = 0

    monkeypatch.setattr(old_state, "run_local", lambda argv, **_: ran.append(argv) or Done)
    state = read_state(cluster.settings)
    assert not old_state.leave_rays_state(cluster.settings, state)
    for change in ({"ray": "2.40.0"}, {"slurm": "26.05"}):
        assert "left behind" in old_state.leave_rays_state(cluster.settings, state | change)
    assert "an unknown version" in old_state.leave_rays_state(cluster.settings, {})
    assert ran == [["docker", "volume", "rm", "kept_ray"]] * 3
