"""The JSON Schema: it takes the shipped labs as an editor sees them, finds slips, and its committed copy is true."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

import jsonschema
import pytest
import yaml

from provisioning.lab import Lab, Partition
from provisioning.load import LABS, lab_names
from provisioning.schema import schema
from tests.unit.small_lab import SMALL, changed

VALIDATOR = jsonschema.Draft202012Validator(schema())


class Editor(yaml.SafeLoader):
    """YAML 1.2's core schema, as editors read it: 01:00:00 and yes are texts, 4000 is a number."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


for tag, pattern, first in (
    ("bool", r"^(true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("float", r"^[-+]?[0-9]+\.[0-9]*([eE][-+]?[0-9]+)?$", "-+0123456789"),
    ("null", r"^(~|null|Null|NULL|)$", "~nN\0"),
):
    Editor.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), [*first])
Editor.yaml_implicit_resolvers.setdefault("", []).append(("tag:yaml.org,2002:null", re.compile("^$")))


def errors(text: str) -> list[str]:
    found = VALIDATOR.iter_errors(yaml.load(text, Editor))
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_the_committed_copy_is_true() -> None:
    copy = LABS.parent.parent / "docs" / "lab.schema.json"
    assert json.loads(copy.read_text(encoding="utf-8")) == schema(), "run: make schema > docs/lab.schema.json"


@pytest.mark.parametrize("name", lab_names())
def test_each_lab_fits(name: str) -> None:
    assert errors((LABS / f"{name}.yaml").read_text(encoding="utf-8")) == []


def test_every_key_is_described() -> None:
    top = schema()["properties"]
    assert list(top) == [one.name for one in fields(Lab)]
    inner = top["partitions"]["items"]["properties"]
    assert list(inner) == [one.name for one in fields(Partition)]
    assert all(one["description"] for one in [*top.values(), *inner.values()])
    assert inner["max_time"]["description"].endswith("(Slurm: MaxTime)")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cpus: 8", "cpu: 8", "'cpu' was unexpected"),
        ("    cpus: 8\n", "", "'cpus' is a required property"),
        ("cpus: 8", "cpus: 0", "nodes.0.cpus: 0 is less than the minimum"),
        ("cpus: 8", "cpus: eight", "nodes.0.cpus: 'eight' is not of type 'integer'"),
        ("01:00:00", "1h", "partitions.0.max_time: '1h' does not match"),
        ("16000", "16GB", "nodes.0.real_memory: '16GB' does not match"),
        ("preempt_mode: REQUEUE", "preempt_mode: REQUEU", "slurm.preempt_mode: 'REQUEU' is not valid"),
        ("preempt_mode: REQUEUE", "extra: {JobRequeu: 1}", "slurm.extra: 'JobRequeu' is not one of"),
        ("preempt_mode: REQUEUE", "scheduler_parameters: {bf_intervall: 1}", "'bf_intervall' is not one of"),
        ("preempt: [low]", "preempt: {low: 1}", "qos.2.preempt: {'low': 1} is not valid"),
    ],
)
def test_an_editor_shows_slips(old: str, new: str, message: str) -> None:
    assert errors(SMALL) == []
    assert any(message in error for error in errors(changed(old, new))), errors(changed(old, new))
