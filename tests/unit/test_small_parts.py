"""Settings, secrets, waiting, and the parsers of sinfo and scontrol."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioning.errors import LabError
from provisioning.plan_config import parse_rows
from provisioning.ready import parse_sinfo
from provisioning.secretfiles import MAKERS, ensure_secrets
from provisioning.settings import Settings
from provisioning.status import gpus_in
from provisioning.waiting import wait_for


def test_settings_come_from_the_environment_and_empty_means_default() -> None:
    assert Settings.from_env({"LAB": "ci", "SLURM": "26.05", "PROJECT": " ", "DASHBOARD_PORT": "9000"}) == Settings(
        lab="ci", slurm="26.05", dashboard="9000"
    )


@pytest.mark.parametrize("env", [{"SLURM": "23.02"}, {"PROJECT": "Ünsinn"}, {"PROJECT": "-x"}, {"PROJECT": "a/b"}])
def test_a_wrong_setting_is_refused_with_a_remedy(env: dict[str, str]) -> None:
    with pytest.raises(LabError) as caught:
        Settings.from_env(env)
    assert next(iter(env.values())) in str(caught.value) or repr(next(iter(env.values()))) in str(caught.value)
    assert caught.value.hint


def test_secrets_are_made_once_and_closed(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    assert sorted(ensure_secrets(folder)) == sorted(MAKERS)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert all(len(content) >= 32 for content in before.values())
    (folder / "ray_token").chmod(0o644)
    assert ensure_secrets(folder) == []
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_two_labs_have_different_secrets(tmp_path: Path) -> None:
    for name in ("a", "b"):
        ensure_secrets(tmp_path / name)
    for secret in MAKERS:
        assert (tmp_path / "a" / secret).read_bytes() != (tmp_path / "b" / secret).read_bytes()


def test_an_empty_secret_is_refused(tmp_path: Path) -> None:
    ensure_secrets(tmp_path)
    (tmp_path / "slurm.key").write_bytes(b"")
    with pytest.raises(LabError, match=r"slurm\.key is empty"):
        ensure_secrets(tmp_path)


def test_waiting_returns_the_first_right_answer() -> None:
    answers = iter([1, 2, 3, 4])
    assert wait_for("number", lambda: next(answers), lambda number: number == 3, timeout_s=5, interval_s=0) == 3


def test_waiting_says_at_the_bound_what_it_last_saw() -> None:
    with pytest.raises(LabError, match="nodes: not within 0 s; last seen: c1 down") as caught:
        wait_for("nodes", lambda: "c1 down", lambda _: False, timeout_s=0, interval_s=0, look_at="make logs")
    assert caught.value.hint == "make logs"


def test_waiting_takes_an_error_as_an_answer_that_is_not_right_yet() -> None:
    calls = []

    def probe() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise LabError("no answer yet")
        return 7

    assert wait_for("x", probe, timeout_s=5, interval_s=0) == 7


def test_sinfo() -> None:
    states = parse_sinfo(
        "c1|idle|none\nc2|down*|Not responding\nc3|drained|mend | me\nc4|inval|gres/gpu count\nc5|mixed-|none\n"
    )
    assert [(state.state, state.flag, state.ready) for state in states.values()] == [
        ("idle", "", True), ("down", "*", False), ("drained", "", True), ("inval", "", False), ("mixed", "-", True),
    ]  # fmt: skip
    assert str(states["c2"]) == "c2 down* (Not responding)"
    assert states["c3"].reason == "mend | me"


def test_a_node_that_backfill_keeps_for_a_waiting_job_is_ready() -> None:
    states = parse_sinfo("c1|planned|none\nc2|mixed-|none\nc3|planned*|Not responding\n")
    assert [state.ready for state in states.values()] == [True, True, False]


def test_a_node_that_has_less_than_it_claims_is_not_ready_and_mended_it_waits_for_an_operator() -> None:
    reason = "gres/gpu count reported lower than configured (4 < 8)"
    assert not parse_sinfo(f"c1|inval|{reason}\n")["c1"].ready
    mended = parse_sinfo(f"c1|drained|{reason}\n")["c1"]
    assert mended.ready
    assert mended.held_back


def test_scontrol_show_node() -> None:
    text = ("NodeName=c1 Arch=x86_64 CPUAlloc=8 OS=Linux 6.1 #1 SMP CfgTRES=cpu=64,gres/gpu=8 "
            "AllocTRES=cpu=8,gres/gpu=3 Reason=on purpose [root@2026-01-01]")  # fmt: skip
    rows = parse_rows(text, "NodeName")
    assert list(rows) == ["c1"]
    node = rows["c1"]
    assert node["NodeName"] == "c1"
    assert gpus_in(node["CfgTRES"]) == 8
    assert gpus_in(node["AllocTRES"]) == 3
    assert node["Reason"].startswith("on purpose")


def test_gpus_of_a_type_are_not_counted_twice() -> None:
    assert gpus_in("cpu=8,gres/gpu:a100=4,gres/gpu=4") == 4
    assert gpus_in("cpu=8") == 0
