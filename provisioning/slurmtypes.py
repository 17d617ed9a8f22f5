"""Slurm's ways of writing times, memory, hosts, TRES and GRES, read and written.

Follows sbatch(1) (--time, --mem, --gres), slurm.conf(5) (node ranges, Gres) and sacctmgr(1) (TRES). Every function
raises ValueError with a plain message. Digits are the ten of ASCII; numbers are short, so that nothing here is slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_HOSTS = 4096
_LONGEST_S = 2**31 - 1
_UNLIMITED = ("UNLIMITED", "INFINITE")
_TIME = re.compile(
    r"(?:(?P<days>[0-9]{1,6})-(?P<dh>[0-9]{1,6})(?::(?P<dm>[0-9]{1,6})(?::(?P<ds>[0-9]{1,6}))?)?"
    r"|(?P<h>[0-9]{1,9}):(?P<hm>[0-9]{1,6}):(?P<hs>[0-9]{1,6})"
    r"|(?P<m>[0-9]{1,9})(?::(?P<ms>[0-9]{1,6}))?)"
)
_MEMORY = re.compile(r"([0-9]{1,15})([KMGT]?)", re.IGNORECASE)
_TRES_VALUE = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?[KMGTP]?", re.IGNORECASE)
_TRES_NAME = re.compile(r"cpu|mem|node|billing|energy|pages|vmem|(gres|license|fs|bb|ic|topo)/[A-Za-z0-9_:.@-]+")
_GRES = re.compile(r"([a-z][a-z0-9_]*)(?::([A-Za-z][A-Za-z0-9_.-]*))?(?::([0-9]{1,6}))?")
_HOST = re.compile(r"(?:[A-Za-z0-9_.-]|\[[0-9,-]+\])+")


def parse_time(text: str) -> int | None:
    """Seconds of a Slurm time; None is no limit. A bare number is minutes."""
    if text.upper() in _UNLIMITED:
        return None
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a Slurm time")
    part = {name: int(value) for name, value in found.groupdict("0").items()}
    for name, upper, unit, limit in (("dh", "days", "hours", 24), ("dm", "days", "minutes", 60),
                                     ("ds", "days", "seconds", 60), ("hm", "h", "minutes", 60),
                                     ("hs", "h", "seconds", 60), ("ms", "m", "seconds", 60)):  # fmt: skip
        if found[upper] is not None and part[name] >= limit:
            raise ValueError(f"{text!r} has {part[name]} {unit}, at most {limit - 1} fit there")
    minutes = part["days"] * 1440 + (part["dh"] + part["h"]) * 60 + part["dm"] + part["hm"] + part["m"]
    seconds = minutes * 60 + part["ds"] + part["hs"] + part["ms"]
    if seconds > _LONGEST_S:
        raise ValueError(f"{text!r} is longer than Slurm can count (68 years): write UNLIMITED")
    return seconds


def format_time(seconds: int | None) -> str:
    """A time as Slurm prints it: HH:MM:SS, D-HH:MM:SS from one day on, UNLIMITED."""
    if seconds is None:
        return "UNLIMITED"
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def parse_memory_mb(text: str) -> int:
    """Megabytes of a memory size; a bare number is megabytes, K M G T are powers of 1024. K is rounded down."""
    found = _MEMORY.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a memory size")
    number, unit = int(found[1]), found[2].upper()
    return number // 1024 if unit == "K" else number * {"": 1, "M": 1, "G": 1024, "T": 1024**2}[unit]


def parse_tres(text: str) -> dict[str, str]:
    """``cpu=4,gres/gpu:a100=2`` as a dict. Names come back in lower case up to the slash; an empty text is {}."""
    found: dict[str, str] = {}
    for item in text.split(",") if text else []:
        name, equals, value = item.partition("=")
        kind, slash, rest = name.partition("/")
        name = kind.lower() + slash + rest
        if not equals:
            raise ValueError(f"{item!r} is not of the form name=value")
        if not _TRES_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no TRES: cpu, mem, node, billing, gres/gpu, gres/gpu:TYPE, license/NAME")
        if not _TRES_VALUE.fullmatch(value):
            raise ValueError(f"{value!r} of {name} must be a number, with a suffix K M G T where it is memory")
        if name in found:
            raise ValueError(f"{name} is given twice")
        found[name] = value
    return found


@dataclass(frozen=True)
class Gres:
    """One generic resource of a node, such as gpu:a100:8; the type may be empty."""

    name: str
    type: str
    count: int

    def __str__(self) -> str:
        return ":".join(part for part in (self.name, self.type, str(self.count)) if part)


def parse_gres(text: str) -> tuple[Gres, ...]:
    """``gpu:a100:4,shard:16`` as a tuple. What Slurm adds in its output, (S:0-1) or (IDX:0,2), is left out."""
    found = []
    text = re.sub(r"\([^()]*\)", "", text)
    for item in text.split(",") if text else []:
        match = _GRES.fullmatch(item)
        if not match:
            raise ValueError(f"{item!r} is not of the form name:type:count, such as gpu:a100:8")
        found.append(Gres(match[1], match[2] or "", int(match[3] or 1)))
    return tuple(found)


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth = [""], 0
    for char in text:
        depth += {"[": 1, "]": -1}.get(char, 0)
        if depth not in (0, 1):
            raise ValueError(f"{text!r} has brackets that do not match")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    if depth:
        raise ValueError(f"{text!r} has a bracket that is not closed")
    return parts


def _numbers(ranges: str, whole: str) -> Iterator[str]:
    for one in ranges.split(","):
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", one)
        if not found:
            raise ValueError(f"{one!r} in {whole!r} is neither a number nor a range such as 1-4")
        first, last = found[1], found[2] or found[1]
        if int(last) < int(first):
            raise ValueError(f"the range {one} in {whole!r} runs backwards")
        if int(last) - int(first) >= MAX_HOSTS:
            raise ValueError(f"the range {one} in {whole!r} has more than {MAX_HOSTS} names")
        yield from (f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1))


def expand_hosts(text: str) -> list[str]:
    """The names of a host list such as ``c[1-4,7],d1``, in the order written; ``c[01-03]`` keeps its zeros."""
    names: list[str] = []
    for item in _split_outside_brackets(text):
        if not _HOST.fullmatch(item):
            raise ValueError(f"{item!r} in {text!r} is no host name or range such as c[1-4]" if item else
                             f"{text!r} has an empty name in it")  # fmt: skip
        found = [""]
        for piece in re.split(r"(\[[^\]]*\])", item):
            endings = list(_numbers(piece[1:-1], text)) if piece.startswith("[") else [piece]
            if len(names) + len(found) * len(endings) > MAX_HOSTS:
                raise ValueError(f"{text!r} has more than {MAX_HOSTS} names")
            found = [name + ending for name in found for ending in endings]
        names += found
    return names


def compress_hosts(hosts: Iterable[str]) -> str:
    """A host list as Slurm prints it, sorted and without repeats: c1, c2, c3, d1 is ``c[1-3],d1``."""
    split = []
    for host in set(hosts):
        digits = re.search(r"[0-9]{0,9}$", host)[0]  # type: ignore[index]
        split.append((host.removesuffix(digits), digits))
    padded = {(prefix, len(digits)) for prefix, digits in split if len(digits) > 1 and digits.startswith("0")}
    groups: dict[tuple[str, int], list[int]] = {}
    for prefix, digits in split:
        width = len(digits) if (prefix, len(digits)) in padded else 0 if digits else -1
        groups.setdefault((prefix, width), []).append(int(digits or 0))
    texts = []
    for (prefix, width), numbers in sorted(groups.items()):
        if width < 0:
            texts.append(prefix)
            continue
        runs: list[list[int]] = []
        for number in sorted(numbers):
            if runs and runs[-1][1] == number - 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        parts = [f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in runs]
        single = len(parts) == 1 and "-" not in parts[0]
        texts.append(prefix + (parts[0] if single else "[" + ",".join(parts) + "]"))
    return ",".join(texts)
