"""Accounting as it is, read with ``sacctmgr -P show`` by column name; see sacctmgr(1), LIST/SHOW FORMAT OPTIONS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from provisioning.accounting_model import TABLES, Accounting, Key, Values, values_of
from provisioning.errors import LabError


class Run(Protocol):
    """Runs a command where sacctmgr is and returns its standard output."""

    def __call__(self, argv: list[str], stdin: str | None = None, /) -> str:
        """May raise LabError."""
        ...


#: Names in ``format=`` where it is not the name for `set`.
_FORMAT_NAMES = {"Parent": "ParentName", "QosLevel": "QOS", "FairShare": "Share", "Coordinator": "Coord"}
_KEY_HEADERS = ("Cluster", "Account", "User", "Partition")


def parse_table(text: str) -> Iterator[dict[str, str]]:
    """The rows of ``sacctmgr -P`` by header. What is too much belongs to the last column (a ``|`` in a description)."""
    lines = text.splitlines()
    header = lines[0].split("|") if lines else []
    for line in lines[1:]:
        cells = line.split("|", len(header) - 1)
        if len(cells) != len(header):
            raise LabError(f"sacctmgr: a line without {len(header)} columns: {line}", "make logs NODE=slurmdbd")
        yield dict(zip(header, cells, strict=True))


def _show(run: Run, entity: list[str], keys: tuple[str, ...], kind: str) -> list[dict[str, str]]:
    columns = [*keys, *(_FORMAT_NAMES.get(one.name, one.name) for one in TABLES[kind])]
    return list(parse_table(run(["sacctmgr", "-P", "show", *entity, f"format={','.join(columns)}"])))


def _values(kind: str, row: Mapping[str, str], name: str = "") -> dict[str, str]:
    try:
        found = {one.name: row[one.header] for one in TABLES[kind]}
    except KeyError as error:
        raise LabError(f"sacctmgr show {kind}: no column {error}", "this Slurm is newer than the lab knows") from None
    return values_of(kind, found, name)


def _key(row: Mapping[str, str]) -> Key:
    return Key(*(row[header] for header in _KEY_HEADERS))


def _associations(run: Run) -> dict[Key, Values]:
    """What is set on each association itself. A list made with += or -= shows only in what it amounts to."""
    found = {_key(row): _values("association", row)
             for row in _show(run, ["assoc", "WOPLimits"], _KEY_HEADERS, "association")}  # fmt: skip
    text = run(["sacctmgr", "-P", "show", "assoc", f"format={','.join(_KEY_HEADERS)},QOS"])
    amounts = {_key(row): ",".join(sorted(row["QOS"].split(","))) for row in parse_table(text)}
    result: dict[Key, Values] = {}
    for key, values in found.items():
        above = Key(key.cluster, key.account if key.user else values.get("Parent", ""))
        inherited = amounts.get(above, amounts.get(key, ""))
        if "QosLevel" not in values and amounts.get(key, inherited) != inherited:
            result[key] = {**values, "QosLevel": amounts[key]}
        else:
            result[key] = values
    return result


def read_accounting(run: Run) -> Accounting:
    """Everything that slurmdbd knows. Raises LabError if it does not answer."""
    qos = {row["Name"]: _values("qos", row, row["Name"]) for row in _show(run, ["qos"], ("Name",), "qos")}
    accounts = {row["Account"]: _values("account", row, row["Account"])
                for row in _show(run, ["account"], ("Account",), "account")}  # fmt: skip
    users = {row["User"]: _values("user", row) for row in _show(run, ["user", "withcoord"], ("User",), "user")}
    associations = _associations(run)
    return Accounting(frozenset(key.cluster for key in associations), qos, accounts, users, associations)
