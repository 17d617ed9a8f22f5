"""A stand-in for sacctmgr and its database, as strict about order as the real one was seen to be (24.11 and 26.05)."""

from __future__ import annotations

import shlex

from provisioning.accounting_model import TABLES, Accounting, Key, canonical, parse_tres

HEADERS = {
    "qos": ("Name",),
    "account": ("Account",),
    "user": ("User",),
    "assoc": ("Cluster", "Account", "User", "Partition"),
}


class RefusedError(Exception):
    """What sacctmgr answers to a request it does not carry out."""


class FakeSacctmgr:
    def __init__(self) -> None:
        self.qos: dict[str, dict[str, str]] = {"normal": {}}
        self.accounts: dict[str, dict[str, str]] = {"root": {}}
        self.users: dict[str, dict[str, str]] = {"root": {"AdminLevel": "Administrator", "DefaultAccount": "root"}}
        self.associations: dict[Key, dict[str, str]] = {Key("lab", "root"): {"QosLevel": "normal"},
                                                       Key("lab", "root", "root"): {}}  # fmt: skip
        self.busy_users: set[str] = set()
        self.calls = 0
        self.refused: list[str] = []

    def state(self) -> Accounting:
        return Accounting(frozenset({"lab"}), self.qos, self.accounts, self.users, self.associations)

    def __call__(self, argv: list[str], stdin: str | None = None, /) -> str:
        self.calls += 1
        if argv[:3] == ["sacctmgr", "-P", "show"]:
            return self.show(argv[3:])
        assert argv[:2] == ["sh", "-c"] and argv[3:5] == ["sacctmgr", "-i"], argv
        said, failed = [], False
        lines = [argv[5:]] if stdin is None else [shlex.split(line) for line in stdin.splitlines()]
        for words in lines:
            try:
                getattr(self, words[0])(words[1:])
            except RefusedError as error:
                said.append(str(error))
                self.refused.append(f"{shlex.join(words)}: {error}")
                failed = True
        return "\n".join([*said, f"exit status {int(failed)}"]) + "\n"

    # -- show

    def show(self, words: list[str]) -> str:
        entity, wanted = words[0], words[-1].removeprefix("format=").split(",")
        kind = "association" if entity == "assoc" else entity
        rows = {"qos": self.qos, "account": self.accounts, "user": self.users, "assoc": self.associations}[entity]
        keys = HEADERS[entity]
        effective = entity == "assoc" and "WOPLimits" not in words
        headers = [*keys, "QOS"] if effective else [*keys, *(one.header for one in TABLES[kind])]
        assert len(headers) == len(wanted)
        lines = ["|".join(headers)]
        for key, values in rows.items():
            cells = list(key) if isinstance(key, Key) else [key]
            if effective:
                own = values.get("QosLevel")
                cells.append(own or ",".join(sorted(self.state().allowed_qos(key.cluster, key.account))))
            else:
                name = key if isinstance(key, str) else ""
                cells += [values.get(one.name, name if one.name == "Description" else one.default)
                          for one in TABLES[kind]]  # fmt: skip
            lines.append("|".join(cells))
        return "\n".join(lines) + "\n"

    # -- changes

    def settle(self, values: dict[str, str], kind: str, settings: list[str]) -> None:
        tables = {one.name: one for one in TABLES[kind]}
        for setting in settings:
            name, _, text = setting.partition("=")
            if name not in tables:
                raise RefusedError(f"Unknown option: {setting}")
            one = tables[name]
            if one.kind == "seconds" and not text.isdigit():
                raise RefusedError(f"Invalid value for {name} ({text})")
            if one.kind == "tres":
                given = dict(part.split("=") for part in text.split(","))
                merged = parse_tres(values.get(name, "")) | given
                text = ",".join(f"{tres}={amount}" for tres, amount in merged.items())
            for listed in text.split(",") if name in ("Preempt", "QosLevel", "DefaultQOS") else ():
                if listed not in ("", "-1", *self.qos):
                    raise RefusedError(f"You gave a bad qos '{listed}'")
            fresh = canonical(one, "" if one.kind == "names" and text == "-1" else text)
            values.pop(name, None)
            if fresh:
                values[name] = fresh

    def check_defaults(self) -> None:
        tree = self.state()
        for key, values in self.associations.items():
            default = values.get("DefaultQOS")
            if default and default not in (values.get("QosLevel") or ",".join(tree.allowed_qos(*key[:2]))).split(","):
                raise RefusedError(f"These associations don't have access to their default qos: {key}")

    def on_association(self, key: Key, settings: list[str]) -> None:
        before = dict(self.associations[key])
        self.settle(self.associations[key], "association", settings)
        parent = self.associations[key].get("Parent", "root")
        if not key.user and Key(key.cluster, parent) not in self.associations:
            self.associations[key] = before
            raise RefusedError(f"No parent account '{parent}'")
        if not any(setting.startswith(("QosLevel", "DefaultQOS")) for setting in settings):
            return  # a new parent is not checked, seen on both versions
        try:
            self.check_defaults()
        except RefusedError:
            self.associations[key] = before
            raise

    def add(self, words: list[str]) -> None:
        entity, name, *rest = words
        given = dict(word.split("=", 1) for word in rest)
        if entity == "qos":
            if name in self.qos:
                raise RefusedError("Nothing new added.")
            values: dict[str, str] = {}
            self.settle(values, "qos", rest)
            self.qos[name] = values
            return
        cluster = given.pop("cluster")
        accounts = given.pop("account", name).split(",")
        own = [f"{key}={text}" for key, text in given.items() if key in [one.name for one in TABLES[entity]]]
        assoc = [f"{key}={text}" for key, text in given.items() if f"{key}={text}" not in own]
        for account in accounts:
            key = Key(cluster, account, name if entity == "user" else "")
            if key in self.associations:
                raise RefusedError("Already existing")
            if entity == "user" and Key(cluster, account) not in self.associations:
                raise RefusedError(f"No account {account} on cluster {cluster}, skipping.")
            self.associations[key] = {}
            try:
                self.on_association(key, assoc)
            except RefusedError:
                del self.associations[key]
                raise
        table = self.users if entity == "user" else self.accounts
        values = table.setdefault(name, {})
        if entity == "user":
            values.setdefault("DefaultAccount", accounts[0])
        self.settle(values, entity, own)

    def modify(self, words: list[str]) -> None:
        entity, where, settings = words[0], words[2 : words.index("set")], words[words.index("set") + 1 :]
        condition = dict(word.split("=", 1) for word in where)
        name = condition["name"]
        if entity == "qos":
            if name not in self.qos:
                raise RefusedError("Nothing modified")
            self.settle(self.qos[name], "qos", settings)
        elif "cluster" in condition:
            key = Key(condition["cluster"], condition.get("account", name), name if entity == "user" else "")
            if key not in self.associations:
                raise RefusedError("Request didn't affect anything")
            self.on_association(key, settings)
        else:
            values = (self.users if entity == "user" else self.accounts)[name]
            self.settle(values, entity, settings)
            if entity == "user" and Key("lab", values["DefaultAccount"], name) not in self.associations:
                raise RefusedError(f"{name} has no association with its default account")

    def delete(self, words: list[str]) -> None:
        entity = words[0]
        condition = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        name = condition.get("name", "")
        if entity == "coordinator":
            self.users[condition["names"]].pop("Coordinator")
        elif entity == "qos":
            if name not in self.qos:
                raise RefusedError("Nothing deleted")
            if any(name == values.get("DefaultQOS") for values in self.associations.values()):
                raise RefusedError(f"{name} is the default of an association")
            self.qos.pop(name)
            for values in [*self.qos.values(), *self.associations.values()]:
                for listed in ("Preempt", "QosLevel"):
                    left = [one for one in values.get(listed, "").split(",") if one not in ("", name)]
                    values.pop(listed, None)
                    if left:
                        values[listed] = ",".join(left)
        elif entity == "account":
            if any(values.get("Parent") == name for values in self.associations.values()):
                raise RefusedError(f"{name} has children")
            self.remove([key for key in self.associations if key.account == name])
            self.accounts.pop(name)
        elif "account" in condition:
            if self.users[name].get("DefaultAccount") == condition["account"] and "partition" not in condition:
                raise RefusedError("You can not remove the default account of a user")
            self.remove([Key(condition["cluster"], condition["account"], name, condition.get("partition", ""))])
        else:
            self.remove([key for key in self.associations if key.user == name])
            self.users.pop(name)

    def remove(self, keys: list[Key]) -> None:
        if not keys or any(key not in self.associations for key in keys):
            raise RefusedError("Nothing deleted")
        for key in keys:
            if key.user in self.busy_users:
                raise RefusedError("Error with request: Job(s) active, cancel job(s) before remove")
        for key in keys:
            del self.associations[key]
