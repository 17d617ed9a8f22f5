"""The sacctmgr commands that turn accounting as it is into accounting as the YAML wants it; pure.

Order: QOS, then who preempts whom (a QOS must exist before another names it), accounts from the root down, users and
their associations; then what goes and what becomes narrower, from the users back to the QOS. Slurm refuses a change
after which an association could not use its default QOS, so an account whose list both grows and shrinks is first
given both lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from provisioning import slurmtypes
from provisioning.accounting_model import (
    NORMAL,
    ROOT,
    TABLES,
    Accounting,
    Attribute,
    Key,
    Values,
    clear_text,
    parse_tres,
)

SACCTMGR = ("sacctmgr", "-i")


@dataclass(frozen=True)
class Change:
    """One difference and the command that closes it. ``kind`` is add, change or remove."""

    kind: str
    what: str
    detail: str = ""
    argv: tuple[str, ...] = ()

    def __str__(self) -> str:
        """For people: ``change qos high: Priority 10 -> 100``."""
        return f"{self.kind} {self.what}" + (f": {self.detail}" if self.detail else "")


def _setting(kind: str, name: str, attribute: Attribute, old: str, new: str) -> str:
    """``NAME=TEXT`` that turns the old value into the new one. A TRES that is not named stays, so name it with -1."""
    if attribute.kind == "tres":
        gone = dict.fromkeys(parse_tres(old), "-1")
        text = ",".join(f"{tres}={amount}" for tres, amount in (gone | parse_tres(new)).items())
    elif attribute.kind == "seconds":  # printed as HH:MM:SS, taken as a number only
        text = str(slurmtypes.parse_time(new) or 0) if new else attribute.clear
    else:
        text = new or clear_text(kind, attribute, name)
    return f"{attribute.name}={text}"


def _shown(attribute: Attribute, value: str) -> str:
    return value or attribute.default or "unset"


def _settings(kind: str, name: str, old: Values, new: Values) -> tuple[list[str], str]:
    """The settings that differ, as arguments of `set` and for people."""
    differ = [one for one in TABLES[kind] if old.get(one.name, "") != new.get(one.name, "")]
    detail = ", ".join(f"{one.name} {_shown(one, old.get(one.name, ''))} -> {_shown(one, new.get(one.name, ''))}"
                       for one in differ)  # fmt: skip
    return [_setting(kind, name, one, old.get(one.name, ""), new.get(one.name, "")) for one in differ], detail


def _modify(kind: str, what: str, where: list[str], name: str, old: Values, new: Values) -> Iterator[Change]:
    """A change if anything differs. ``kind`` names the table, the first word of ``where`` the entity."""
    settings, detail = _settings(kind, name, old, new)
    if settings:
        yield Change("change", what, detail, (*SACCTMGR, "modify", where[0], "where", *where[1:], "set", *settings))


def _add(what: str, entity: list[str], kinds: Mapping[str, Values]) -> Change:
    """A new entity with all its parameters."""
    settings, details = [], []
    for kind, values in kinds.items():
        given = [one for one in TABLES[kind] if one.name in values]
        settings += [_setting(kind, "", one, "", values[one.name]) for one in given]
        details += [f"{one.name} {values[one.name]}" for one in given]
    return Change("add", what, ", ".join(details), (*SACCTMGR, "add", *entity, *settings))


def _without(values: Values, *names: str) -> dict[str, str]:
    return {name: text for name, text in values.items() if name not in names}


def _qos(desired: Accounting, actual: Accounting) -> Iterator[Change]:
    for name, values in desired.qos.items():
        if name not in actual.qos:
            yield _add(f"qos {name}", ["qos", name], {"qos": _without(values, "Preempt")})
        else:
            old = actual.qos[name]
            yield from _modify("qos", f"qos {name}", ["qos", f"name={name}"], name,
                               _without(old, "Preempt"), _without(values, "Preempt"))  # fmt: skip
    for name, values in desired.qos.items():
        now, then = actual.qos.get(name, {}).get("Preempt", ""), values.get("Preempt", "")
        yield from _modify("qos", f"qos {name}", ["qos", f"name={name}"], name, {"Preempt": now}, {"Preempt": then})


def _top_down(tree: Accounting, cluster: str) -> list[str]:
    """Account names, each after the account above it."""

    def depth(name: str) -> int:
        steps = 0
        while name and name != ROOT and steps <= len(tree.accounts):
            name = tree.associations.get(Key(cluster, name), {}).get("Parent", ROOT)
            steps += 1
        return steps

    return sorted(tree.accounts, key=depth)


def _narrowing(desired: Accounting, actual: Accounting, key: Key) -> tuple[str, bool]:
    """The QOS list for the first pass over an account, and whether a second pass must set the final one."""
    (old, was_under), (new, under) = (
        (values.get("QosLevel", ""), values.get("Parent", ""))
        for values in (actual.associations[key], desired.associations[key])
    )
    now, then = (tree.allowed_qos(key.cluster, key.account) for tree in (actual, desired))
    defaults = {values.get("DefaultQOS") for other, values in actual.associations.items() if other != key}
    if not defaults & (now - then) or (not old and not new and was_under == under):
        return new, False
    return ",".join(sorted(now | then)), True


def _accounts(desired: Accounting, actual: Accounting, cluster: str, *, last: bool) -> Iterator[Change]:
    """The first pass makes and widens, the ``last`` narrows the lists of QOS."""
    for name in _top_down(desired, cluster):
        key, what = Key(cluster, name), f"account {name}"
        new = desired.associations[key]
        if key not in actual.associations:
            if not last:
                kinds = {"account": desired.accounts[name], "association": new}
                yield _add(what, ["account", name, f"cluster={cluster}"], kinds)
            continue
        old = actual.associations[key]
        where = ["account", f"name={name}", f"cluster={cluster}"]
        first, narrows = _narrowing(desired, actual, key)
        if last:
            if narrows:
                yield from _modify("association", what, where, name, {"QosLevel": first},
                                   {"QosLevel": new.get("QosLevel", "")})  # fmt: skip
            continue
        yield from _modify("account", what, ["account", f"name={name}"], name,
                           actual.accounts.get(name, {}), desired.accounts[name])  # fmt: skip
        # by itself: on 24.11 a request whose parent is no news changes nothing else either
        parent = list(_modify("association", what, where, name, {"Parent": old.get("Parent", "")},
                              {"Parent": new.get("Parent", "")}))  # fmt: skip
        wanted = _without(new, "Parent", "QosLevel") | ({"QosLevel": first} if first else {})
        rest = list(_modify("association", what, where, name, _without(old, "Parent"), wanted))
        yield from [*rest, *parent] if narrows else [*parent, *rest]


def _users(desired: Accounting, actual: Accounting, cluster: str) -> Iterator[Change]:
    of_user: dict[str, list[tuple[Key, Values]]] = {name: [] for name in desired.users}
    for key, values in desired.associations.items():
        if key.user:
            of_user[key.user].append((key, values))
    for name, own in of_user.items():
        values, new = desired.users[name], name not in actual.users
        missing = [(key, found) for key, found in own if key not in actual.associations]
        # accounts with the same parameters are added by one command, those with the default account first
        default = values.get("DefaultAccount", "")
        missing.sort(key=lambda pair: (pair[0].account != default, sorted(pair[1].items())))
        for _, group in groupby(missing, key=lambda pair: sorted(pair[1].items())):
            some = list(group)
            accounts = ",".join(key.account for key, _ in some)
            kinds = {"user": values if new else {}, "association": some[0][1]}
            yield _add(f"user {name} in {accounts}", ["user", name, f"cluster={cluster}", f"account={accounts}"], kinds)
            new = False
        if name in actual.users:
            old = actual.users[name]
            yield from _modify("user", f"user {name}", ["user", f"name={name}"], name,
                               _without(old, "Coordinator"), values)  # fmt: skip
        for key, found in own:
            if key in actual.associations:
                where = ["user", f"name={name}", f"account={key.account}", f"cluster={cluster}"]
                yield from _modify("association", f"user {name} in {key.account}", where, name,
                                   actual.associations[key], found)  # fmt: skip


def _gone(what: str, *argv: str) -> Change:
    return Change("remove", what, "", (*SACCTMGR, "delete", *argv))


def _user_removals(desired: Accounting, actual: Accounting, cluster: str) -> Iterator[Change]:
    for name, values in actual.users.items():
        if name == ROOT:
            continue
        if name not in desired.users:
            yield _gone(f"user {name}", "user", "where", f"name={name}")
        elif "Coordinator" in values:
            accounts = values["Coordinator"]
            yield _gone(f"coordinator {name} of {accounts}", "coordinator", f"account={accounts}", f"names={name}")
    for key in actual.associations:
        if key.cluster == cluster and key.user in desired.users and key not in desired.associations:
            partition = (f"partition={key.partition}",) if key.partition else ()
            what = f"user {key.user} in {key.account}" + (f", partition {key.partition}" if key.partition else "")
            yield _gone(what, "user", "where", f"name={key.user}", f"account={key.account}", f"cluster={cluster}",
                        *partition)  # fmt: skip


def _removals(desired: Accounting, actual: Accounting, cluster: str) -> Iterator[Change]:
    for name in reversed(_top_down(actual, cluster)):
        if name not in desired.accounts:
            yield _gone(f"account {name}", "account", "where", f"name={name}")
    for name in actual.qos:
        if name not in desired.qos and name != NORMAL:
            yield _gone(f"qos {name}", "qos", "where", f"name={name}")


def plan_accounting(desired: Accounting, actual: Accounting) -> list[Change]:
    """All changes in an order that works; empty if nothing differs. Other clusters' associations are left alone."""
    (cluster,) = desired.clusters
    changes = [] if cluster in actual.clusters else [_add(f"cluster {cluster}", ["cluster", cluster], {})]
    if changes:  # sacctmgr makes the root account and its association with the cluster
        root = Key(cluster, ROOT)
        actual = Accounting(frozenset({cluster}), actual.qos, {ROOT: {}, **actual.accounts}, actual.users,
                            {**actual.associations, root: {"QosLevel": NORMAL}})  # fmt: skip
    changes += _qos(desired, actual)
    changes += _accounts(desired, actual, cluster, last=False)
    changes += _users(desired, actual, cluster)
    changes += _user_removals(desired, actual, cluster)
    changes += _accounts(desired, actual, cluster, last=True)
    changes += _removals(desired, actual, cluster)
    return changes
