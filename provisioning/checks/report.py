"""Where the checks put what they find, and what several of them need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from provisioning import slurmtypes
from provisioning.lab import Lab, Nodes
from provisioning.problems import Problem, nearest, shown


class Report:
    """The lab that is checked, what is known about it, and the problems found so far."""

    def __init__(self, lab: Lab, file: str, broken: frozenset[str]) -> None:
        self.lab, self.file, self.broken = lab, file, broken
        self.problems: list[Problem] = []

    def add(self, path: str, problem: str, remedy: str) -> None:
        """Note one problem, once."""
        found = Problem(self.file, path, problem, remedy)
        if found not in self.problems:
            self.problems.append(found)

    def refer(self, path: str, names: Iterable[str], section: str, known: Iterable[str]) -> None:
        """Each of the names must be one of those known in a section; letter case does not matter."""
        known = list(known)
        lower = {name.lower() for name in known}
        for name in names:
            if section not in self.broken and name.lower() not in lower:
                self.add(path, f"{shown(name)} is not in {section}", nearest(name, known) or f"add it to {section}")

    def unique(self, section: str, names: Iterable[str]) -> None:
        """Names of one section may not repeat; letter case does not matter."""
        seen: dict[str, int] = {}
        for index, name in enumerate(names):
            first = seen.setdefault(name.lower(), index)
            if name and first != index:
                self.add(f"{section}[{index}].name", f"{name} is already the name of {section}[{first}]",
                         "choose another name (letter case does not count)")  # fmt: skip

    def words(self, path: str, names: Iterable[str], valid: Iterable[str]) -> None:
        """Each of the words must be a valid one."""
        valid = list(valid)
        for name in names:
            if name not in valid:
                self.add(path, f"{shown(name)} is not known to Slurm here", nearest(name, valid) or "see slurm.conf(5)")

    @staticmethod
    def hosts(text: str) -> list[str]:
        """The names of a host list, none if it cannot be read (which was said before)."""
        try:
            return slurmtypes.expand_hosts(text) if text else []
        except ValueError:
            return []

    @cached_property
    def node_of(self) -> dict[str, Nodes]:
        """Each node's line, by the node's name."""
        return {name: nodes for nodes in self.lab.nodes for name in self.hosts(nodes.name)}

    @cached_property
    def tres(self) -> set[str]:
        """The GRES that some node has: gres/gpu, gres/gpu:a100."""
        found = set()
        for nodes in self.lab.nodes:
            for gres in slurmtypes.parse_gres(nodes.gres):
                found |= {f"gres/{gres.name}", f"gres/{gres.name}:{gres.type}"} if gres.type else {f"gres/{gres.name}"}
        return found

    @cached_property
    def qos_names(self) -> list[str]:
        """The QOS that exist: those of the lab, and normal, which slurmdbd always has."""
        return [*dict.fromkeys([*(qos.name for qos in self.lab.qos), "normal"])]

    def limit(self, path: str, text: str) -> None:
        """A TRES limit: whole numbers, of resources that some node has."""
        for name, value in slurmtypes.parse_tres(text).items():
            if not re.fullmatch("[0-9]+" if name != "mem" else "[0-9]+[KMGT]?", value, re.IGNORECASE):
                self.add(path, f"{name}={value} is not a whole number", "write digits only (mem takes a suffix)")
            self.has_tres(path, name)

    def has_tres(self, path: str, name: str) -> None:
        """A GRES that is named must be on some node."""
        if name.startswith("gres/") and "nodes" not in self.broken and name not in self.tres:
            self.add(path, f"no node has {name}", nearest(name, self.tres) or "leave it out")

    def extra(self, path: str, extra: Mapping[str, str], valid: Iterable[str], keys: Mapping[str, str],
              fixed: Iterable[str], *, line_of_its_own: bool) -> None:  # fmt: skip
        """Parameters by their Slurm names: known, not the lab's own, and with a value that keeps the line whole."""
        valid, fixed = sorted(valid), {name.lower() for name in fixed}
        own = {name.lower(): key for name, key in keys.items()}
        for name, value in extra.items():
            here = f"{path}.{name}"
            if name.lower() in own:
                self.add(here, "has a key of its own", f"write {own[name.lower()]}")
            elif name.lower() in fixed:
                self.add(here, "is written by the lab itself", "leave it out")
            elif name.lower() == "autodetect":
                self.add(here, "is of gres.conf, which the lab writes",
                         "leave it out: Slurm here is built without NVML, and slurmd would not start")  # fmt: skip
            elif name not in valid:
                self.add(
                    here, "is no parameter of this line in slurm.conf", nearest(name, valid) or "see slurm.conf(5)"
                )
            pattern = r'[^\s"#=][^\s"#]*|"[^"#]*"' if line_of_its_own else r'[^\s"#]+'
            if not re.fullmatch(pattern, value):
                what = "a blank must be within double quotes" if line_of_its_own else "no blanks and quotes here"
                self.add(
                    here, f"{shown(value)} would break the line of slurm.conf", f"write one value, not empty; {what}"
                )
