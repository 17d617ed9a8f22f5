"""``make plan``: how the running lab differs from its YAML, in four groups; see ``apply.py`` for what closes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml
from rich.console import Console
from rich.markup import escape

from provisioning.accounting import Change, desired_accounting, plan_accounting
from provisioning.cluster import COMPOSE_FILE, Cluster
from provisioning.lab import FIXED_SERVICES, Lab
from provisioning.plan_config import SLURM_CONF, drift, held_back, line_changes
from provisioning.plan_facts import HASH_LABEL, Facts, read_facts
from provisioning.render import render
from provisioning.render.compose import node_names, ray_worker_names
from provisioning.settings import Settings
from provisioning.up import refuse_other_owner

PASSWD = "etc/extrausers/passwd"
SLURMDBD_CONF = "etc/slurm/slurmdbd.conf"
_SIGNS = {"add": "+", "change": "~", "remove": "-"}


@dataclass(frozen=True)
class Plan:
    """The differences, and what is worth knowing but is nobody's to change."""

    configuration: tuple[Change, ...] = ()
    services: tuple[Change, ...] = ()
    accounting: tuple[Change, ...] = ()
    users: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    #: What could not be asked: nothing can be said of it, so the plan is not empty.
    unknown: tuple[str, ...] = ()

    @property
    def groups(self) -> dict[str, tuple[Change, ...]]:
        """The changes by group, in the order in which they are shown."""
        return {"configuration": self.configuration, "services": self.services, "accounting": self.accounting,
                "users": self.users}  # fmt: skip

    @property
    def changes(self) -> list[Change]:
        """All changes."""
        return [change for group in self.groups.values() for change in group]

    @property
    def empty(self) -> bool:
        """Whether the lab is what its YAML says."""
        return not self.changes and not self.unknown


def wanted_services(lab: Lab) -> list[str]:
    """All services of a lab."""
    return [*FIXED_SERVICES, *node_names(lab), *ray_worker_names(lab)]


def _environment(compose: str, service: str) -> Mapping[str, object]:
    found = (yaml.safe_load(compose) or {}).get("services", {}).get(service, {}) if compose else {}
    environment: Mapping[str, object] = found.get("environment", {})
    return environment


def _service_changes(lab: Lab, rendered: Mapping[str, str], facts: Facts) -> Iterator[Change]:
    wanted = wanted_services(lab)
    for name in wanted:
        container = facts.containers.get(name)
        if container is None:
            yield Change("add", f"service {name}", "no container")
        elif container.state != "running":
            yield Change("change", f"service {name}", f"{container.state} -> running")
        elif facts.hashes.get(name) != container.labels.get(HASH_LABEL):
            old = _environment(facts.files.get(COMPOSE_FILE, ""), name)
            new = _environment(rendered[COMPOSE_FILE], name)
            differ = [f"{key} {old.get(key, 'unset')} -> {new.get(key, 'unset')}"
                      for key in sorted({*old, *new}) if old.get(key) != new.get(key)]  # fmt: skip
            yield Change("change", f"service {name}", ", ".join(differ) or "made from another definition")
    for name in facts.containers:
        if name not in wanted:
            yield Change("remove", f"service {name}", "the YAML has none of this name")


def _user_changes(rendered: Mapping[str, str], facts: Facts) -> Iterator[Change]:
    def uids(text: str) -> dict[str, str]:
        return {fields[0]: fields[2] for fields in (line.split(":") for line in text.splitlines())}

    old, new = uids(facts.files.get(PASSWD, "")), uids(rendered[PASSWD])
    for name, uid in new.items():
        if name not in old:
            yield Change("add", f"user {name}", f"uid {uid}")
        elif old[name] != uid:
            yield Change("change", f"user {name}", f"uid {old[name]} -> {uid}")
        elif facts.homes is not None and facts.homes.get(name) != uid:
            owner = facts.homes.get(name)
            yield Change("change", f"home of {name}", "missing" if owner is None else f"owner {owner} -> {uid}")
    for name in old:
        if name not in new:
            yield Change("remove", f"user {name}", "the home is kept")


def make_plan(lab: Lab, facts: Facts) -> Plan:
    """The differences between a lab and one look at what runs; pure."""
    rendered = render(lab)
    configuration = line_changes(facts.files, rendered)
    if facts.config is not None:
        configuration += drift(facts.files.get(SLURM_CONF, ""), facts.config, facts.partitions, facts.nodes)
    used = facts.files.get(SLURMDBD_CONF)
    if facts.slurmdbd_conf is not None and used == rendered[SLURMDBD_CONF] != facts.slurmdbd_conf:
        configuration.append(Change("change", "slurmdbd", "has not read its slurmdbd.conf as it is now"))
    accounting = [] if facts.accounting is None else plan_accounting(desired_accounting(lab), facts.accounting)
    renewed = [name for name, one in facts.containers.items() if one.image.startswith("sha256:")]
    notes = held_back(facts.nodes)
    if renewed:
        notes.append(f"made from an older image: {', '.join(renewed)}; make down, then make up renews them")
    return Plan(tuple(configuration), tuple(_service_changes(lab, rendered, facts)), tuple(accounting),
                tuple(_user_changes(rendered, facts)), tuple(notes), facts.silent)  # fmt: skip


def plan_json(plan: Plan, cluster: Cluster) -> str:
    """The plan for programs."""

    def entry(change: Change) -> dict[str, object]:
        return {"kind": change.kind, "what": change.what, "detail": change.detail, "command": list(change.argv)}

    groups = {name: [entry(change) for change in group] for name, group in plan.groups.items()}
    return json.dumps({"lab": cluster.lab.name, "project": cluster.settings.project, "empty": plan.empty, **groups,
                       "notes": plan.notes, "unknown": plan.unknown}, indent=2)  # fmt: skip


def show(plan: Plan, console: Console) -> None:
    """The plan for people: + is added, ~ changed, - removed."""
    for name, group in plan.groups.items():
        if group:
            console.print(f"{name}:")
        for change in group:
            detail = f": {change.detail}" if change.detail else ""
            console.print(escape(f"  {_SIGNS[change.kind]} {change.what}{detail}"))
    for text in plan.unknown:
        console.print(escape(f"unknown: {text}"))
    for text in plan.notes:
        console.print(escape(f"note: {text}"))
    count = len(plan.changes)
    if plan.empty:
        console.print("nothing to do: the lab is what its YAML says")
    else:
        console.print(f"{count} difference{'' if count == 1 else 's'}; make apply closes them")


def plan_command(settings: Settings, as_json: bool) -> int:
    """Print the plan; nothing is changed. Raises LabError if the lab is not up or belongs to another YAML."""
    cluster = Cluster.open(settings)
    refuse_other_owner(cluster)
    plan = make_plan(cluster.lab, read_facts(cluster))
    if as_json:
        print(plan_json(plan, cluster))
    else:
        show(plan, Console(highlight=False, soft_wrap=True))
    return 0
