"""How configuration differs: the rendered lines from the files in use, and slurmctld from its own files; pure.

Slurm's own words for values are brought to one form before they are compared, see scontrol(1) and slurm.conf(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from provisioning import slurmtypes
from provisioning.accounting_plan import Change

Row = Mapping[str, str]
SLURM_CONF = "etc/slurm/slurm.conf"
#: Files whose lines are compared one by one; those of users and of Compose have groups of their own.
LINE_FILES = (SLURM_CONF, "etc/slurm/gres.conf", "etc/slurm/cgroup.conf", "etc/slurm/slurmdbd.conf")
RECONFIGURE = ("scontrol", "reconfigure")
_SECTIONS = ("NodeName", "PartitionName")


class Lines(NamedTuple):
    """A slurm.conf, split: parameters of the cluster, of each NodeName line and of each partition."""

    params: dict[str, str]
    nodes: dict[str, dict[str, str]]
    partitions: dict[str, dict[str, str]]


def parse_conf(text: str) -> Lines:
    """The lines of a rendered slurm.conf. The lab's renderer writes no value with blanks on a section's line."""
    found = Lines({}, {}, {})
    for line in text.splitlines():
        name, _, rest = line.partition("=")
        if not name or line.startswith("#"):
            continue
        if name in _SECTIONS:
            key, _, tail = rest.partition(" ")
            section = found.nodes if name == "NodeName" else found.partitions
            section[key] = dict(word.split("=", 1) for word in tail.split() if "=" in word)
        else:
            found.params[name] = rest
    return found


def parse_rows(text: str, key: str) -> dict[str, dict[str, str]]:
    """The answer of ``scontrol -o show node`` or ``partition`` by name. Values with blanks keep them."""
    rows = {}
    for line in text.splitlines():
        parts = re.split(r"\s+(?=[A-Za-z/:_]+=)", line.strip())
        row = dict(part.split("=", 1) for part in parts if "=" in part)
        if key in row:
            rows[row[key]] = row
    return rows


def parse_config(text: str) -> dict[str, str]:
    """The answer of ``scontrol show config`` as a map."""
    pairs = (re.split(r"\s*=\s?", line, maxsplit=1) for line in text.splitlines() if " = " in f"{line} ")
    return {name: value.strip() for name, value in pairs}


# -- the rendered lines against the files in use


def _differences(old: Row, new: Row) -> str:
    names = [name for name in [*new, *(name for name in old if name not in new)] if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {old.get(name, 'unset')} -> {new.get(name, 'unset')}" for name in names)


def _section(what: str, old: Mapping[str, Row], new: Mapping[str, Row]) -> Iterator[Change]:
    for name, row in new.items():
        if name not in old:
            yield Change("add", f"{what} {name}", " ".join(f"{key}={text}" for key, text in row.items()), RECONFIGURE)
        elif row != old[name]:
            yield Change("change", f"{what} {name}", _differences(old[name], row), RECONFIGURE)
    for name in old:
        if name not in new:
            yield Change("remove", f"{what} {name}", "", RECONFIGURE)


def _conf_changes(old: Lines, new: Lines) -> Iterator[Change]:
    for name in [*new.params, *(name for name in old.params if name not in new.params)]:
        was, now = old.params.get(name), new.params.get(name)
        if was != now:
            kind = "add" if was is None else "remove" if now is None else "change"
            yield Change(kind, f"slurm.conf {name}", f"{was or 'unset'} -> {now or 'unset'}", RECONFIGURE)
    yield from _section("nodes", old.nodes, new.nodes)
    yield from _section("partition", old.partitions, new.partitions)


def line_changes(in_use: Mapping[str, str], rendered: Mapping[str, str]) -> list[Change]:
    """What differs between the files in use and the rendered ones, line by line."""
    changes: list[Change] = []
    for path in LINE_FILES:
        old, new = in_use.get(path, ""), rendered[path]
        if old == new:
            continue
        name = path.rpartition("/")[2]
        found = list(_conf_changes(parse_conf(old), parse_conf(new))) if path == SLURM_CONF else []
        if path != SLURM_CONF:
            before, after = old.splitlines(), new.splitlines()
            found += [Change("add", name, line) for line in after if line not in before]
            found += [Change("remove", name, line) for line in before if line not in after]
        changes += found or [Change("change", name, "order or comments")]
    return changes


# -- slurmctld against the file in use


def _time(text: str) -> str:
    try:
        return str(slurmtypes.parse_time(text))
    except ValueError:
        return text.upper()


def _hosts(text: str) -> str:
    return ",".join(sorted(slurmtypes.expand_hosts(text))) if text not in ("", "(null)") else ""


def _memory(text: str) -> str:
    return str(slurmtypes.parse_memory_mb(text)) if text and text != "UNLIMITED" else text


def _shared(text: str) -> str:
    return f"{text.upper()}:4" if text.upper() in ("YES", "FORCE") else text.upper()


def _listed(text: str) -> str:
    return ",".join(sorted(part.lower() for part in text.replace("(null)", "").split(",") if part))


def _gres(text: str) -> str:
    """Types count for GPUs only: slurmctld gives shards the type of the GPU that they are parts of."""
    counts: dict[str, int] = {}
    for one in slurmtypes.parse_gres(text.replace("(null)", "")):
        name = f"{one.name}:{one.type}" if one.name == "gpu" else one.name
        counts[name] = counts.get(name, 0) + one.count
    return str(sorted(counts.items()))


_FORMS = {
    "gres": _gres,
    "time": _time,
    "hosts": _hosts,
    "memory": _memory,
    "list": _listed,
    "shared": _shared,
    "word": str.upper,
}


class Field(NamedTuple):
    """A parameter as slurmctld shows it: the column, the file's name for it, its default, and how to compare."""

    column: str
    name: str
    default: str
    form: str


_PARTITION = (
    Field("Nodes", "Nodes", "", "hosts"),
    Field("Default", "Default", "NO", "word"),
    Field("State", "State", "UP", "word"),
    Field("MaxTime", "MaxTime", "UNLIMITED", "time"),
    Field("DefaultTime", "DefaultTime", "NONE", "time"),
    Field("AllowAccounts", "AllowAccounts", "ALL", "list"),
    Field("DenyAccounts", "DenyAccounts", "", "list"),
    Field("AllowQos", "AllowQos", "ALL", "list"),
    Field("DenyQos", "DenyQos", "", "list"),
    Field("AllowGroups", "AllowGroups", "ALL", "list"),
    Field("QoS", "QOS", "N/A", "word"),
    Field("PriorityTier", "PriorityTier", "1", "word"),
    Field("PriorityJobFactor", "PriorityJobFactor", "1", "word"),
    Field("OverSubscribe", "OverSubscribe", "NO", "shared"),
    Field("MinNodes", "MinNodes", "0", "word"),
    Field("MaxNodes", "MaxNodes", "UNLIMITED", "word"),
    Field("DefMemPerCPU", "DefMemPerCPU", "", "memory"),
    Field("GraceTime", "GraceTime", "0", "word"),
    Field("Hidden", "Hidden", "NO", "word"),
    Field("RootOnly", "RootOnly", "NO", "word"),
    Field("LLN", "LLN", "NO", "word"),
)
_NODE = (
    Field("CPUTot", "CPUs", "1", "word"),
    Field("RealMemory", "RealMemory", "1", "memory"),
    Field("Gres", "Gres", "", "gres"),
    Field("AvailableFeatures", "Features", "", "list"),
    Field("ActiveFeatures", "Features", "", "list"),
    Field("Weight", "Weight", "1", "word"),
)


def _drift(fields: tuple[Field, ...], wanted: Row, shown: Row, lists: Mapping[str, str]) -> str:
    """What slurmctld has otherwise than its file, for people."""
    found = []
    for one in fields:
        form = _FORMS[one.form]
        want = wanted.get(one.name, one.default)
        want = lists.get(want, want) if one.form == "hosts" else want
        have = re.sub(r"\([^()]*\)", "", shown[one.column]) if one.column in shown else one.default
        # what an accounts list denies is shown instead of what it allows, not beside it
        absent = one.column not in shown and want == one.default
        if not absent and form(have) != form(want):
            found.append(f"{one.column} {have or 'none'} -> {want or 'none'}")
    return ", ".join(found)


def drift(conf: str, config: Row, partitions: Mapping[str, Row], nodes: Mapping[str, Row]) -> list[Change]:
    """What was changed by hand in slurmctld since it read its file; a reconfigure brings the file's values back."""
    lines = parse_conf(conf)
    changes = []
    if not config.get("HASH_VAL", "Match").startswith("Match"):
        changes.append(Change("change", "slurmctld", "has not read its slurm.conf as it is now", RECONFIGURE))
    for name, default in (("SlurmctldDebug", "info"), ("DebugFlags", "")):
        have, want = _listed(config.get(name, default)), _listed(lines.params.get(name, default))
        if have != want:
            changes.append(Change("change", f"slurmctld {name}", f"{have or 'none'} -> {want or 'none'}", RECONFIGURE))
    of_node = {node: row for names, row in lines.nodes.items() for node in slurmtypes.expand_hosts(names)}
    everything = {"ALL": ",".join(of_node)}
    for kind, fields, wanted, shown in (
        ("node", _NODE, of_node, nodes), ("partition", _PARTITION, lines.partitions, partitions),
    ):  # fmt: skip
        for name, row in wanted.items():
            if name not in shown:
                changes.append(Change("add", f"{kind} {name}", "slurmctld does not have it", RECONFIGURE))
            elif text := _drift(fields, row, shown[name], everything):
                changes.append(Change("change", f"{kind} {name}", f"by hand: {text}", RECONFIGURE))
        surplus = [name for name in shown if name not in wanted]
        changes += [Change("remove", f"{kind} {name}", "made by hand", RECONFIGURE) for name in surplus]
    return changes


def held_back(nodes: Mapping[str, Row]) -> list[str]:
    """Nodes that an operator or Slurm holds back. They are shown; apply leaves them so."""
    return [
        f"{name} is {row.get('State', '').lower()}: {row.get('Reason', '').strip()}"
        for name, row in nodes.items()
        if re.search(r"DRAIN|DOWN|FAIL|INVAL|MAINT", row.get("State", ""))
    ]
