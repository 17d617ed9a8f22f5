"""Checks of accounts and users: the tree, who belongs where, and which QOS may be named."""

from __future__ import annotations

import re

from provisioning.checks.report import Report
from provisioning.lab import Account, User
from provisioning.render.users import GROUP

#: Users that the images have already (Debian's own, and those of the daemons).
SYSTEM_USERS = frozenset(
    """
    root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats nobody messagebus sshd
    systemd-network systemd-timesync systemd-resolve slurm slurmdbd munge mysql mariadb ray docker lab all
    """.split()  # noqa: SIM905
)


def check(report: Report) -> None:
    """Check the accounts, then the users."""
    accounts: dict[str, Account] = {}
    for account in report.lab.accounts:
        accounts.setdefault(account.name.lower(), account)
    report.unique("accounts", [account.name for account in report.lab.accounts])
    for index, account in enumerate(report.lab.accounts):
        _check_account(report, f"accounts[{index}]", account, accounts)
    report.unique("users", [user.name for user in report.lab.users])
    uids: dict[int, str] = {}
    for index, user in enumerate(report.lab.users):
        path = f"users[{index}]"
        _check_user(report, path, user, accounts)
        if user.uid and uids.setdefault(user.uid, user.name) != user.name:
            report.add(
                f"{path}.uid", f"{user.uid} is the uid of {uids[user.uid]} too", "give each user a uid of its own"
            )


def _check_account(report: Report, path: str, account: Account, accounts: dict[str, Account]) -> None:
    name = account.name.lower()
    if name == "root":
        report.add(f"{path}.name", "root is the top of Slurm's own tree", "choose another name")
    parent = account.parent.lower()
    names = [one.name for one in report.lab.accounts]
    report.refer(f"{path}.parent", [account.parent or "root"], "accounts", [*names, "root"])
    seen = [name]
    while parent in accounts and parent not in seen:
        seen.append(parent)
        parent = accounts[parent].parent.lower()
    if parent == name != "root" and name == min(seen) and accounts[name] is account:
        report.add(f"{path}.parent", f"the accounts run in a circle: {' below '.join([*seen, name])}",
                   "let one of them be below root")  # fmt: skip
    report.refer(f"{path}.qos", account.qos, "qos", report.qos_names)
    if account.default_qos:
        report.refer(f"{path}.default_qos", [account.default_qos], "qos", report.qos_names)
        _check_default_qos(report, path, account.default_qos, name, accounts)
    report.limit(f"{path}.grp_tres", account.grp_tres)
    jobs, submit = account.max_jobs, account.max_submit_jobs
    if jobs is not None and submit is not None and jobs > submit:
        report.add(f"{path}.max_jobs", f"{jobs} can never run: max_submit_jobs is {submit}", f"write at most {submit}")


def allowed_qos(name: str, accounts: dict[str, Account]) -> tuple[str, ...]:
    """The QOS that an account's users may name: its own list, or the nearest one above; at the top it is normal."""
    seen: set[str] = set()
    while name in accounts and name not in seen:
        if accounts[name].qos:
            return accounts[name].qos
        seen.add(name)
        name = accounts[name].parent.lower()
    return ("normal",)


def _check_default_qos(report: Report, path: str, qos: str, name: str, accounts: dict[str, Account]) -> None:
    allowed = allowed_qos(name, accounts)
    known = {one.lower() for one in report.qos_names}
    if {"qos", "accounts"} & report.broken or qos.lower() not in known:
        return
    if qos.lower() not in {one.lower() for one in allowed}:
        report.add(f"{path}.default_qos", f"{qos} is not among the QOS of the account {name}: {', '.join(allowed)}",
                   f"add {qos} to the qos of {name}, or choose one of them")  # fmt: skip


def _check_user(report: Report, path: str, user: User, accounts: dict[str, Account]) -> None:
    if user.name and not re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", user.name):
        report.add(f"{path}.name", f"{user.name} cannot be a Unix user",
                   "use lower case letters, digits, _ and -, first a letter, at most 32")  # fmt: skip
    elif user.name in SYSTEM_USERS or user.name == GROUP:
        report.add(f"{path}.name", f"{user.name} is a name that the system uses", "choose another name")
    report.refer(f"{path}.accounts", user.accounts, "accounts", [one.name for one in report.lab.accounts])
    belongs = [name.lower() for name in user.accounts]
    if len(set(belongs)) < len(belongs):
        report.add(f"{path}.accounts", "an account is there twice (letter case does not count)", "name it once")
    if user.default_account and user.accounts and user.default_account.lower() not in belongs:
        report.add(f"{path}.default_account", f"{user.default_account} is not among the user's accounts",
                   f"write one of {', '.join(user.accounts)}")  # fmt: skip
    if user.default_qos:
        report.refer(f"{path}.default_qos", [user.default_qos], "qos", report.qos_names)
        for name in dict.fromkeys(belongs):
            if name in accounts:
                _check_default_qos(report, path, user.default_qos, name, accounts)
