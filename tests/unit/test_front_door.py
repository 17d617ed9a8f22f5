"""Makefile, README and the commands of ``python -m provisioning`` say the same."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from provisioning.__main__ import COMMANDS, main
from provisioning.settings import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
TARGETS = re.findall(r"^([a-z][a-z0-9.-]*):.*## ", MAKEFILE, re.M)


def test_every_target_is_in_the_readme_and_phony() -> None:
    phony = set(" ".join(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.M)).split())
    assert set(TARGETS) == phony
    listed = re.findall(r"^ {6}([a-z][a-z0-9.-]*) +", README, re.M)
    assert sorted(listed) == sorted(TARGETS)


def test_every_variable_that_make_exports_is_in_the_readme() -> None:
    exported = re.search(r"^export (.*)$", MAKEFILE, re.M)
    assert exported
    for name in exported.group(1).split():
        assert f"`{name}`" in README, name


def test_every_provisioning_command_has_a_target() -> None:
    assert set(re.findall(r"\$\(PROVISION\) ([a-z-]+)", MAKEFILE)) == set(COMMANDS)


def test_help_lists_every_target() -> None:
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in text.splitlines() if line.startswith("  ")] == TARGETS


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"LAB": "nonesuch"}, ["nonesuch", "default"]),
        ({"SLURM": "1"}, ["SLURM", "24.11"]),
        ({"PROJECT": "A B"}, ["PROJECT"]),
    ],
)
def test_a_wrong_choice_is_one_clear_error(
    env: dict[str, str], words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert main(["check"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    for word in words:
        assert word in error


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["NODE=c1", "SINCE=10m"], '--node "c1" --since "10m" --lines "all"'),
        (["NODE=c1", "SINCE=10m", "LINES=5"], '--node "c1" --since "10m" --lines "5"'),
        ([], '--node "" --since "" --lines "60"'),
    ],
)
def test_logs_of_some_time_are_not_cut_short(given: list[str], words: str) -> None:
    said = subprocess.run(["make", "-n", "logs", *given], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"provisioning logs {words}" in said


def test_up_imports_nothing_it_does_not_need() -> None:
    """A running lab is found up in two seconds: what is slow to import stays out of that way."""
    slow = ("matplotlib", "hypothesis", "pytest", "numpy", "tarfile", "provisioning.doctor", "provisioning.archive")
    code = f"import sys, provisioning.up; print([m for m in {slow} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True).stdout.strip() == "[]"
