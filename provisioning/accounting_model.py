"""What accounting consists of, in a form that compares: QOS, accounts, users, associations, as in sacctmgr(1).

Every value is text in the form in which sacctmgr prints it, so that the YAML and the database compare without false
differences; a parameter that is not set, or has Slurm's default, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from provisioning import slurmtypes
from provisioning.lab import Lab, slurm_params

Values = Mapping[str, str]
ROOT = "root"
#: The QOS that slurmdbd makes by itself and that the root account allows.
NORMAL = "normal"
_DESCRIPTIONS = {("account", ROOT): "default root account", ("qos", NORMAL): "normal qos default"}


class Attribute(NamedTuple):
    """A parameter: its name for `set`, the column's header, its kind, the text that clears it, Slurm's default."""

    name: str
    header: str
    kind: str
    clear: str = "-1"
    default: str = ""


#: All limits, also those that a lab's YAML cannot say: set by hand they are drift.
_LIMITS = (
    Attribute("GrpTRES", "GrpTRES", "tres"),
    Attribute("GrpTRESMins", "GrpTRESMins", "tres"),
    Attribute("GrpTRESRunMins", "GrpTRESRunMins", "tres"),
    Attribute("GrpJobs", "GrpJobs", "int"),
    Attribute("GrpJobsAccrue", "GrpJobsAccrue", "int"),
    Attribute("GrpSubmitJobs", "GrpSubmit", "int"),
    Attribute("GrpWall", "GrpWall", "minutes"),
    Attribute("MaxTRESPerJob", "MaxTRES", "tres"),
    Attribute("MaxTRESPerNode", "MaxTRESPerNode", "tres"),
    Attribute("MaxTRESMinsPerJob", "MaxTRESMins", "tres"),
    Attribute("MaxWall", "MaxWall", "minutes"),
    Attribute("MinPrioThres", "MinPrioThres", "int"),
)
QOS = (
    Attribute("Priority", "Priority", "int", "0", "0"),
    Attribute("Preempt", "Preempt", "names", ""),
    Attribute("PreemptMode", "PreemptMode", "choice", "cluster", "cluster"),
    Attribute("PreemptExemptTime", "PreemptExemptTime", "time"),
    Attribute("GraceTime", "GraceTime", "seconds", "0", "00:00:00"),
    Attribute("UsageFactor", "UsageFactor", "float", "1", "1.000000"),
    Attribute("UsageThreshold", "UsageThres", "float"),
    Attribute("LimitFactor", "LimitFactor", "float"),
    Attribute("Flags", "Flags", "names"),
    Attribute("MaxTRESPerUser", "MaxTRESPU", "tres"),
    Attribute("MaxTRESPerAccount", "MaxTRESPA", "tres"),
    Attribute("MaxTRESRunMinsPerUser", "MaxTRESRunMinsPU", "tres"),
    Attribute("MaxTRESRunMinsPerAccount", "MaxTRESRunMinsPA", "tres"),
    Attribute("MaxJobsPerUser", "MaxJobsPU", "int"),
    Attribute("MaxJobsPerAccount", "MaxJobsPA", "int"),
    Attribute("MaxJobsAccruePerUser", "MaxJobsAccruePU", "int"),
    Attribute("MaxJobsAccruePerAccount", "MaxJobsAccruePA", "int"),
    Attribute("MaxSubmitJobsPerUser", "MaxSubmitPU", "int"),
    Attribute("MaxSubmitJobsPerAccount", "MaxSubmitPA", "int"),
    Attribute("MinTRESPerJob", "MinTRES", "tres"),
    *_LIMITS,
    Attribute("Description", "Descr", "description", "{name}"),
)
ASSOCIATION = (
    Attribute("Parent", "ParentName", "name"),
    Attribute("FairShare", "Share", "int", "1", "1"),
    Attribute("QosLevel", "QOS", "names", ""),
    Attribute("DefaultQOS", "Def QOS", "name"),
    Attribute("Priority", "Priority", "int"),
    Attribute("MaxJobs", "MaxJobs", "int"),
    Attribute("MaxJobsAccrue", "MaxJobsAccrue", "int"),
    Attribute("MaxSubmitJobs", "MaxSubmit", "int"),
    *_LIMITS,
)
ACCOUNT = (Attribute("Description", "Descr", "description", "{name}"),)
USER = (
    Attribute("DefaultAccount", "Def Acct", "name"),
    Attribute("AdminLevel", "Admin", "level", "None", "None"),
    Attribute("Coordinator", "Coord Accounts", "names"),
)
TABLES = {"qos": QOS, "account": ACCOUNT, "user": USER, "association": ASSOCIATION}


class Key(NamedTuple):
    """What identifies an association; ``user`` is empty for the account's own, ``partition`` mostly is."""

    cluster: str
    account: str
    user: str = ""
    partition: str = ""


@dataclass(frozen=True)
class Accounting:
    """One state of accounting, wanted or found: parameters by QOS, account, user and association."""

    clusters: frozenset[str] = frozenset()
    qos: Mapping[str, Values] = field(default_factory=dict)
    accounts: Mapping[str, Values] = field(default_factory=dict)
    users: Mapping[str, Values] = field(default_factory=dict)
    associations: Mapping[Key, Values] = field(default_factory=dict)

    def allowed_qos(self, cluster: str, account: str) -> frozenset[str]:
        """The QOS that users of an account may name: its own list or that of the nearest account above."""
        seen = set()
        while account and account not in seen:
            seen.add(account)
            values = self.associations.get(Key(cluster, account), {})
            if "QosLevel" in values:
                return frozenset(values["QosLevel"].split(","))
            account = values.get("Parent", "" if account == ROOT else ROOT)
        return frozenset()


def _time(text: str, *, bare_seconds: bool = False, minutes: bool = False) -> str:
    """A time as sacctmgr prints it; where it keeps minutes, rounded up as it does; empty for no limit."""
    if text in ("", "-1"):
        return ""
    seconds = int(text) if bare_seconds and text.isdigit() else slurmtypes.parse_time(text)
    if seconds is None:
        return ""
    return slurmtypes.format_time(-(-seconds // 60) * 60 if minutes else seconds)


def _amount(name: str, text: str) -> str:
    """The amount of a TRES; memory in MB, whether it was written 1536, 1536M or 1.50G."""
    if name != "mem":
        return text
    unit = text[-1:].upper() if text[-1:].isalpha() else "M"
    factor = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}[unit]
    return f"{round(float(text.rstrip('KMGTPkmgtp')) * factor)}M"


def parse_tres(text: str) -> dict[str, str]:
    """``cpu=4,mem=1G`` as a map, without amounts that are not set."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name.lower(): _amount(name.lower(), amount) for name, _, amount in pairs if amount != "-1"}


def _description(text: str) -> str:
    """As the database keeps it: lower case, quotes turned; in one line; 255 bytes; no column separator in it."""
    line = " ".join(text.lower().replace("|", "/").translate({ord("'"): "`", ord('"'): "`"}).split())
    return line.encode()[:255].decode(errors="ignore").strip()


def canonical(attribute: Attribute, value: Any) -> str:
    """The text of a value in the form that compares; empty if it is not set or is Slurm's default."""
    text = ",".join(value) if isinstance(value, tuple) else str(value).strip()
    match attribute.kind:
        case "time":
            text = _time(text)
        case "seconds":
            text = _time(text, bare_seconds=True)
        case "minutes":
            text = _time(text, minutes=True)
        case "tres":
            text = ",".join(f"{name}={amount}" for name, amount in sorted(parse_tres(text).items()))
        case "names":
            names = {name.strip() for name in text.split(",")} - {""}
            lowered = {name.lower() for name in names} if attribute.name != "Flags" else names
            text = ",".join(sorted(lowered))
        case "float":
            text = f"{float(text):.6f}" if text and float(text) >= 0 else ""
        case "int" | "name" | "choice":
            text = "" if text == "-1" else text.lower()
        case "description":
            text = _description(text)
    return "" if text == attribute.default else text


def values_of(kind: str, found: Mapping[str, Any], name: str = "") -> dict[str, str]:
    """The comparable values of one entity from its parameters by their names for `set`."""
    values = {}
    for attribute in TABLES[kind]:
        if text := canonical(attribute, found.get(attribute.name, "")):
            values[attribute.name] = text
    if name and values.get("Description") in (None, name, _DESCRIPTIONS.get((kind, name))):
        values.pop("Description", None)
    return values


def clear_text(kind: str, attribute: Attribute, name: str) -> str:
    """What to write after ``=`` to unset a parameter that is no TRES."""
    return attribute.clear.format(name=_DESCRIPTIONS.get((kind, name), name))


def desired_accounting(lab: Lab) -> Accounting:
    """What a lab's YAML says. The QOS normal and the account root are always there, as Slurm makes them."""
    cluster = lab.slurm.cluster_name.lower()
    qos: dict[str, Values] = {NORMAL: {}}
    qos |= {one.name.lower(): values_of("qos", slurm_params(one), one.name.lower()) for one in lab.qos}
    accounts: dict[str, Values] = {ROOT: {}}
    associations: dict[Key, Values] = {Key(cluster, ROOT): {"QosLevel": NORMAL}}
    for account in lab.accounts:
        name, found = account.name.lower(), slurm_params(account)
        accounts[name] = values_of("account", found, name)
        associations[Key(cluster, name)] = values_of("association", found)
    tree = Accounting(frozenset({cluster}), qos, accounts, {}, associations)
    users: dict[str, Values] = {}
    for user in lab.users:
        name, found = user.name.lower(), slurm_params(user)
        users[name] = values_of("user", {"DefaultAccount": user.accounts[0] if user.accounts else "", **found})
        own = values_of("association", {key: found[key] for key in ("FairShare", "DefaultQOS") if key in found})
        for above in user.accounts:
            values = dict(own)
            if values.get("DefaultQOS") not in tree.allowed_qos(cluster, above.lower()):
                values.pop("DefaultQOS", None)  # Slurm refuses a default that the account does not allow
            associations[Key(cluster, above.lower(), name)] = values
    return Accounting(frozenset({cluster}), qos, accounts, users, associations)
