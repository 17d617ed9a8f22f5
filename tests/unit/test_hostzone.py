"""``timezone: host``: which zone the host has."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioning.hostzone import host_zone, zone_of


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """An /etc whose localtime is a link, as systemd and Debian make it."""
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Asia/Kolkata")
    (tmp_path / "timezone").write_text("Europe/Berlin\n", encoding="utf-8")
    return tmp_path


def test_the_link_counts_more_than_the_file_and_tz_more_than_both(etc: Path) -> None:
    assert host_zone(etc, {}) == "Asia/Kolkata"
    assert host_zone(etc, {"TZ": ":America/New_York"}) == "America/New_York"
    (etc / "localtime").unlink()
    assert host_zone(etc, {}) == "Europe/Berlin"


def test_what_no_container_would_know_is_passed_over(etc: Path) -> None:
    assert host_zone(etc, {"TZ": "EST5EDT,M3.2.0,M11.1.0"}) == "Asia/Kolkata"
    assert host_zone(etc, {"TZ": "../../etc/passwd"}) == "Asia/Kolkata"


def test_without_any_it_is_utc(tmp_path: Path) -> None:
    assert host_zone(tmp_path, {}) == "UTC"
    (tmp_path / "timezone").write_bytes(b"\xff\xfe")
    assert host_zone(tmp_path, {}) == "UTC"


def test_a_zone_that_is_named_is_kept() -> None:
    assert zone_of("Pacific/Auckland") == "Pacific/Auckland"
    assert zone_of("host") == host_zone()
