"""`make scan`: what apt and pip-audit say is read right, and what they do not know is not taken for good news."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from provisioning.errors import LabError
from provisioning.scan import Hole, Look, parse_audit, parse_upgradable, report

UPGRADABLE = """Listing...
bash/trixie 5.2.37-2+b9 amd64 [upgradable from: 5.2.37-2+b5]
libssl3t64/trixie-security,trixie 3.5.4-1~deb13u2 amd64 [upgradable from: 3.5.1-1]
perl-base/trixie-security 5.40.1-6+deb13u1 amd64 [upgradable from: 5.40.1-6]
"""
AUDIT = {
    "dependencies": [
        {"name": "aiohttp", "version": "3.9.0", "vulns": [
            {"id": "PYSEC-2", "fix_versions": ["3.9.2", "3.10.0"], "aliases": ["CVE-1"], "description": "x"},
            {"id": "PYSEC-1", "fix_versions": [], "aliases": [], "description": "y"}]},
        {"name": "numpy", "version": "2.0.0", "vulns": []},
        {"name": "mine", "skip_reason": "Dependency not found on PyPI and could not be audited: mine (1)"},
    ],
    "fixes": [],
}  # fmt: skip


def test_a_newer_version_is_a_hole_if_a_security_suite_has_it() -> None:
    holes, newer = parse_upgradable(UPGRADABLE)
    assert newer == 1
    assert [str(hole) for hole in holes] == [
        "libssl3t64 3.5.1-1: fixed in 3.5.4-1~deb13u2",
        "perl-base 5.40.1-6: fixed in 5.40.1-6+deb13u1",
    ]
    assert parse_upgradable("Listing...\n") == ([], 0)


def test_a_package_that_pip_audit_skips_is_unknown() -> None:
    holes, unknown = parse_audit(json.dumps(AUDIT))
    assert unknown == ["mine"]
    assert [str(hole) for hole in holes] == [
        "aiohttp 3.9.0: no fix yet (PYSEC-1)",
        "aiohttp 3.9.0: fixed in 3.9.2, 3.10.0 (PYSEC-2)",
    ]
    with pytest.raises(ValueError, match="Expecting value"):
        parse_audit("")


def look(*holes: Hole) -> Callable[[], Look]:
    return lambda: Look("looked", list(holes), "renew")


def raises() -> Look:
    raise LabError("could not look", "check the network")


HOLE, NO_FIX = Hole("bash", "1", "2"), Hole("bash", "1", "")


@pytest.mark.parametrize(
    ("looks", "status", "words"),
    [
        ([look(), look()], 0, "no known hole with a fix"),
        ([look(NO_FIX), look()], 0, "bash 1: no fix yet"),
        ([look(HOLE), look()], 1, "  next: renew"),
        ([raises, look(HOLE)], 1, "there are holes with a fix"),
        ([look(), raises], 2, "not everything could be looked at"),
    ],
)
def test_the_exit_status_says_what_was_found(
    looks: list[Callable[[], Look]], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(looks) == status
    said = capsys.readouterr()
    assert words in said.out
    assert ("error: could not look\n  next: check the network" in said.err) == (raises in looks)
