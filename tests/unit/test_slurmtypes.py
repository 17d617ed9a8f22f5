"""Slurm's own notations, against what its man pages and its commands say."""

from __future__ import annotations

import pytest

from provisioning.slurmtypes import (
    Gres,
    compress_hosts,
    expand_hosts,
    format_time,
    parse_gres,
    parse_memory_mb,
    parse_time,
    parse_tres,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800), ("0", 0), ("90:00", 5400), ("12:30", 750), ("48:00:00", 172800), ("12:30:00", 45000),
        ("2-6", 194400), ("1-12:30", 131400), ("1-00:00:01", 86401), ("7-0", 604800),
        ("UNLIMITED", None), ("infinite", None),
    ],
)  # fmt: skip
def test_times_in_each_of_the_six_forms(text: str, seconds: int | None) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "1:", ":30", "1-", "-1", "1h", "1.5", "12:60", "1:60:00", "1:00:60", "1-24:00", "1-2:3:4:5", " 5", "5\n",
     "٣", "9999999999", "999999-0", "never"],
)  # fmt: skip
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a Slurm time|fit there|longer than"):
        parse_time(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "00:00:00"), (1800, "00:30:00"), (86399, "23:59:59"), (86400, "1-00:00:00"), (None, "UNLIMITED")],
)
def test_times_are_printed_as_slurm_does(seconds: int | None, text: str) -> None:
    assert format_time(seconds) == text


@pytest.mark.parametrize(
    ("text", "megabytes"), [("515000", 515000), ("32G", 32768), ("1t", 1048576), ("10M", 10), ("2047K", 1)]
)
def test_memory(text: str, megabytes: int) -> None:
    assert parse_memory_mb(text) == megabytes


@pytest.mark.parametrize("text", ["", "G", "1.5G", "-1", "32GB", "32 G", "1e3", "0x10", "1P", "1" * 20])
def test_what_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a memory size"):
        parse_memory_mb(text)


def test_tres() -> None:
    assert parse_tres("CPU=4,mem=32G,gres/gpu:a100=2") == {"cpu": "4", "mem": "32G", "gres/gpu:a100": "2"}
    assert parse_tres("GRES/gpu=1.5") == {"gres/gpu": "1.5"}
    assert parse_tres("") == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [("gpu=4", "no TRES"), ("cpu", "form name=value"), ("cpu=", "must be a number"), ("cpu=4,cpu=5", "twice"),
     ("cpu=4,,mem=1", "form name=value"), ("gres/=4", "no TRES"), ("cpu=-1", "must be a number"), ("=4", "no TRES")],
)  # fmt: skip
def test_what_is_no_tres_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_tres(text)


def test_gres() -> None:
    assert parse_gres("gpu:a100:4,gpu:h100:4") == (Gres("gpu", "a100", 4), Gres("gpu", "h100", 4))
    assert parse_gres("gpu,gpu:8,gpu:a100,shard:32") == (
        Gres("gpu", "", 1), Gres("gpu", "", 8), Gres("gpu", "a100", 1), Gres("shard", "", 32))  # fmt: skip
    assert parse_gres("gpu:a100:8(S:0-1),shard:4(IDX:0,2)") == (Gres("gpu", "a100", 8), Gres("shard", "", 4))
    assert parse_gres("") == parse_gres("(null)") == ()
    assert [str(one) for one in parse_gres("gpu:a100:8,shard:32")] == ["gpu:a100:8", "shard:32"]


@pytest.mark.parametrize("text", ["gpu:", "gpu::8", "gpu:a100:x", "gpu:a100:8:2", "GPU:8", "8", "gpu,,gpu", "gpu:-1"])
def test_what_is_no_gres_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="name:type:count"):
        parse_gres(text)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("c1", ["c1"]),
        ("c[1-4,7],d1", ["c1", "c2", "c3", "c4", "c7", "d1"]),
        ("c[08-10]", ["c08", "c09", "c10"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
    ],
)
def test_hosts_expand(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "empty name"), ("c1,,c2", "empty name"), ("c[1-4", "not closed"), ("c1-4]", "do not match"),
     ("c[[1]]", "do not match"), ("c[]", "no host name"), ("c[4-1]", "backwards"), ("c[1-]", "neither"),
     ("c[1-99999]", "more than 4096"), ("c[1-4000]x[1-4000]", "more than 4096"), ("c 1", "no host name")],
)  # fmt: skip
def test_what_is_no_host_list_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        expand_hosts(text)


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (["c3", "c1", "c2", "c2"], "c[1-3]"), (["c1"], "c1"), (["c1", "c3", "d"], "c[1,3],d"),
        (["c09", "c10"], "c[09-10]"), (["c1", "c01"], "c1,c01"), ([], ""), (["login"], "login"),
        (["c9", "c10", "c11"], "c[9-11]"),
    ],
)  # fmt: skip
def test_hosts_compress_as_slurm_prints_them(hosts: list[str], text: str) -> None:
    assert compress_hosts(hosts) == text
