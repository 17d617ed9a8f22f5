"""Whatever lab can be written down comes back as it was, passes all checks, and fits the schema."""

from __future__ import annotations

import json

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provisioning import slurmtypes
from provisioning.checks import check
from provisioning.lab import Lab
from provisioning.load import load_text
from provisioning.schema import schema
from tests.properties.lab_strategy import as_yaml, labs

VALIDATOR = jsonschema.Draft202012Validator(schema())
quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(labs())
def test_a_lab_survives_being_written_and_loaded(lab: Lab) -> None:
    assert check(lab) == []
    assert load_text(as_yaml(lab), "mine.yaml") == lab


@quick
@given(labs())
def test_what_the_loader_takes_the_schema_takes(lab: Lab) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(json.loads(as_yaml(lab)))] == []


@given(st.lists(st.from_regex(r"[a-z]{1,3}-?[0-9]{0,3}", fullmatch=True), max_size=30))
def test_compressed_hosts_expand_to_the_same_hosts(hosts: list[str]) -> None:
    text = slurmtypes.compress_hosts(hosts)
    assert sorted(slurmtypes.expand_hosts(text) if text else []) == sorted(set(hosts))


@given(st.integers(0, 2**31 - 1))
def test_a_printed_time_reads_back(seconds: int) -> None:
    assert slurmtypes.parse_time(slurmtypes.format_time(seconds)) == seconds
