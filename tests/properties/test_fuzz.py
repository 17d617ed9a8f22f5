"""Malformed YAML gives clean errors: a lab or LabInvalid, never another exception, and what loads also renders."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provisioning.checks import warnings_of
from provisioning.lab import Lab
from provisioning.load import LABS, LabInvalid, lab_names, load_lab, load_text
from provisioning.render import render

LAB_FILES = {name: (LABS / f"{name}.yaml").read_text(encoding="utf-8") for name in lab_names()}
MUTANTS = 2500
#: What people and programs leave in YAML files, and what other programs stumble over.
SCRAPS = (
    "", " ", "\t", "\n", "\r\n", ":", ": ", "-", "- ", "#", " #", "{", "}", "[", "]", "'", '"', "|", ">", "&a ", "*a",
    "<<: *a", "!!int ", "!!python/object:os.system ", "%YAML 9.9", "---", "...", "\0", "\x07", "\u2028", "\ufeff",
    "\ud7ff", "🦥", "٣", "null", "~", "yes", "off", "1e3", "0x1f", "0o17", "1_000", ".inf", ".nan", "-1", "08",
    "12:30:00", "9" * 400, "a" * 3000, "[" * 60, "{a: " * 60, "c[1-99999999]", "c[", "c[3-1]", "gpu:a100:99999999",
    "UNLIMITED", "ALL", "root", "../../etc/passwd", "$(id)", "`id`", "${HOME}", "a=b", "name: x\nname: y", "? [a]\n: b",
)  # fmt: skip


def outcome(text: str) -> Lab | LabInvalid:
    """Load a text; whatever comes of it must be fit for a person, or for the renderers."""
    try:
        lab = load_text(text, "lab.yaml")
    except LabInvalid as invalid:
        assert invalid.problems
        for problem in invalid.problems:
            assert problem.file.startswith("lab.yaml")
            assert problem.problem
            assert problem.remedy, problem
            assert str(problem).isprintable(), problem
            assert len(str(problem)) < 1000
        return invalid
    assert render(lab)
    assert all(warning.isprintable() for warning in warnings_of(lab))
    return lab


def mutate(text: str, chance: random.Random) -> str:
    """One to three changes: of characters, of words, of lines."""
    for _ in range(chance.randint(1, 3)):
        lines = text.split("\n")
        at, line = chance.randrange(len(text) + 1), chance.randrange(len(lines))
        match chance.randrange(9):
            case 0:
                text = text[:at] + chance.choice(SCRAPS) + text[at:]
            case 1:
                text = text[:at] + text[at + chance.randint(1, 40) :]
            case 2:
                text = "\n".join(lines[:line] + lines[line + 1 :])
            case 3:
                text = "\n".join([*lines[: line + 1], *lines[line:]])
            case 4:
                other = chance.randrange(len(lines))
                lines[line], lines[other] = lines[other], lines[line]
                text = "\n".join(lines)
            case 5:
                lines[line] = " " * chance.randint(0, 9) + lines[line].lstrip()
                text = "\n".join(lines)
            case 6:
                key = lines[line].partition(":")[0]
                lines[line] = f"{key}: {chance.choice(SCRAPS)}"
                text = "\n".join(lines)
            case 7:
                words = text.split(" ")
                words[chance.randrange(len(words))] = chance.choice((*SCRAPS, chance.choice(words)))
                text = " ".join(words)
            case 8:
                text = text[:at]
    return text


@pytest.mark.parametrize("name", LAB_FILES)
def test_mutated_labs(name: str) -> None:
    chance = random.Random(name)
    seen = Counter(type(outcome(mutate(LAB_FILES[name], chance))).__name__ for _ in range(MUTANTS // len(LAB_FILES)))
    assert seen["LabInvalid"] > 200, seen
    assert seen["Lab"] > 20, seen


def test_bytes_of_any_kind(tmp_path: Path) -> None:
    chance, path = random.Random(7), tmp_path / "default.yaml"
    for _ in range(300):
        data = bytearray(LAB_FILES["default"].encode())
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        try:
            assert load_lab(str(path)).name == "default"
        except LabInvalid as invalid:
            assert invalid.problems


KEYS = sorted({word.strip(" -") for text in LAB_FILES.values() for word in text.replace("\n", ":").split(":")} & {
    "name", "slurm", "nodes", "partitions", "qos", "accounts", "users", "ray", "ports", "head", "workers", "cpus",
    "real_memory", "gres", "preempt", "max_time", "uid", "extra", "priority_weights", "scheduler_parameters",
})  # fmt: skip
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(SCRAPS))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=10)), inner, max_size=6),
    ),
    max_leaves=25,
)
fuzz = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@fuzz
@given(st.dictionaries(st.sampled_from(KEYS), TREES, min_size=1))
def test_trees_with_the_keys_of_a_lab(tree: dict[str, Any]) -> None:
    outcome(json.dumps(tree))


@fuzz
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    outcome(text)


@fuzz
@given(st.text(max_size=40))
def test_any_name_of_a_lab(name: str) -> None:
    if name not in LAB_FILES:
        with pytest.raises(LabInvalid) as no:
            load_lab(name)
        assert str(no.value).isprintable()
