"""Ways into the running lab: its logs, by service and by time."""

from __future__ import annotations

import pytest

from provisioning.access import logs
from provisioning.cluster import Cluster
from provisioning.errors import LabError


def said(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], node: str, since: str = "", lines: str = "all"
) -> list[str]:
    capsys.readouterr()
    assert logs(cluster.settings, node, since, lines) == 0
    return capsys.readouterr().out.splitlines()


def test_the_logs_of_one_service_and_of_some_time(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    mark = "a line for the test of the logs"
    whole = said(cluster, capsys, "c1")
    assert whole
    assert all(line.startswith("c1-1 ") for line in whole)
    cluster.exec("c1", ["sh", "-c", f"echo {mark} >/proc/1/fd/1"])
    assert [line for line in said(cluster, capsys, "c1", "10m") if mark in line]
    assert len(said(cluster, capsys, "c1", lines="1")) == 1
    assert said(cluster, capsys, "c1", "2999-01-01T00:00:00") == []
    assert {line.split("-1 ")[0] for line in said(cluster, capsys, "")} >= {"c1", "slurmctld", "db"}


@pytest.mark.parametrize(
    ("node", "since", "lines", "what", "hint"),
    [
        ("nonesuch", "", "all", "no service 'nonesuch'", "c1"),
        ("c1", "soon", "all", "soon", "SINCE is a time such as 10m"),
        ("c1", "", "few", "LINES='few'", "LINES=200"),
    ],
)
def test_a_wrong_choice_is_one_clear_error(
    cluster: Cluster, node: str, since: str, lines: str, what: str, hint: str
) -> None:
    with pytest.raises(LabError, match=what) as caught:
        logs(cluster.settings, node, since, lines)
    assert hint in caught.value.hint
