"""Which steps close a plan, and in which order; pure. The order keeps jobs running:

nodes that go or are made anew are drained and must be empty, as must users that go; then files and homes; QOS that a
partition names must exist before slurmctld reads of them; containers of new nodes start before slurmctld looks up
their names; slurmctld reads its files; nodes whose container differs are made anew, and slurmctld takes their new
addresses; accounting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from provisioning import slurmtypes
from provisioning.accounting import named_qos
from provisioning.lab import FIXED_SERVICES, Lab
from provisioning.plan import Plan, wanted_services
from provisioning.plan_config import SLURM_CONF, held_back, parse_conf
from provisioning.plan_facts import Facts
from provisioning.render import render
from provisioning.render.compose import node_names
from provisioning.render.slurmdbd_conf import SPOKEN

#: Why a node is drained; nodes with this reason are resumed at the end of an apply, others are left alone.
REASON = "make apply"
#: Parameters whose change a reconfigure does not survive: all Slurm daemons start anew.
NEEDS_RESTART = frozenset(SPOKEN)


@dataclass(frozen=True)
class Step:
    """One action of an apply on some nodes, services or names."""

    action: str
    on: tuple[str, ...] = ()

    def __str__(self) -> str:
        """For people: ``drain c3, c4``."""
        return f"{self.action} {', '.join(self.on)}".rstrip()


def _restart_all(lab: Lab, facts: Facts) -> bool:
    old, new = parse_conf(facts.files.get(SLURM_CONF, "")).params, parse_conf(render(lab)[SLURM_CONF]).params
    return any(old.get(name) != new.get(name) for name in NEEDS_RESTART)


def leaving(lab: Lab, facts: Facts) -> tuple[str, ...]:
    """Nodes that slurmctld has and the YAML does not."""
    wanted = set(node_names(lab))
    used = parse_conf(facts.files.get(SLURM_CONF, "")).nodes
    known = [node for names in used for node in slurmtypes.expand_hosts(names)]
    return tuple(name for name in dict.fromkeys([*known, *facts.nodes]) if name not in wanted)


def make_steps(lab: Lab, plan: Plan, facts: Facts) -> Iterator[Step]:
    """The steps that close a plan; none if there is nothing to do."""
    held = tuple(name for name, row in facts.nodes.items()
                 if row.get("Reason", "").startswith(REASON) and name in node_names(lab))  # fmt: skip
    if plan.empty and not held:
        return
    nodes, wanted = node_names(lab), wanted_services(lab)
    differ = [one.what.removeprefix("service ") for one in plan.services if one.what.startswith("service ")]
    new = [name for name in differ if name in wanted and name not in facts.containers]
    renew = [name for name in differ if name in wanted and name in facts.containers]
    if _restart_all(lab, facts):
        renew = list(dict.fromkeys([*renew, "slurmctld", "slurmdbd", "login", *nodes]))
    renew_nodes = tuple(name for name in renew if name in nodes)
    gone = tuple(name for name in differ if name not in wanted)
    going = leaving(lab, facts)
    if empty := tuple(dict.fromkeys([*going, *renew_nodes])):
        yield Step("drain", tuple(name for name in empty if name in facts.nodes))
    users = tuple(one.what.removeprefix("user ") for one in plan.users if one.kind == "remove")
    if users and facts.config is not None:
        yield Step("let go of", users)
    yield Step("write files")
    if daemons := tuple(name for name in [*new, *renew] if name in FIXED_SERVICES):
        yield Step("start", daemons)
    if plan.users:
        yield Step("make homes")
    known = facts.accounting.qos if facts.accounting else {}
    if named := tuple(name for name in named_qos(lab) if name not in known):
        yield Step("add qos", named)
    if started := tuple(name for name in new if name not in FIXED_SERVICES):
        yield Step("start", started)
    if gone:
        yield Step("remove", gone)
    slurm = any(not one.what.startswith("slurmdbd") for one in plan.configuration)
    if slurm or renew_nodes or any(name in nodes for name in (*new, *gone)) or "slurmctld" in daemons:
        yield Step("reconfigure")
    if renewed := tuple(name for name in renew if name not in FIXED_SERVICES):
        yield Step("make anew", renewed)
        if renew_nodes:
            yield Step("reconfigure")
    if any(one.what.startswith("slurmdbd") for one in plan.configuration) and "slurmdbd" not in daemons:
        yield Step("restart", ("slurmdbd",))
    yield Step("accounting")
    by_hand = [name for name, row in facts.nodes.items() if name not in held and held_back({name: row})]
    drained = [name for name in renew_nodes if name in facts.nodes and name not in by_hand]
    if resumed := tuple(dict.fromkeys([*held, *drained])):
        yield Step("resume", resumed)
    yield Step("wait")
