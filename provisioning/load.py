"""From a lab's YAML to the model: everything that is wrong is reported at once, each with line, path and remedy."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import MISSING, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from provisioning import kinds
from provisioning.checks import check
from provisioning.lab import Lab
from provisioning.problems import LabInvalid, Problem, nearest, shown
from provisioning.yamltext import Map, Node, Scalar, Sequence, parse, read_text

__all__ = ["LABS", "LabInvalid", "Problem", "Reading", "build", "lab_names", "load_lab", "load_text"]

LABS = Path(__file__).parent / "labs"
#: Fields that others refer to: while one of them is wrong, references to its section are not judged.
_REFERRED = ("name", "cpus", "real_memory", "gres")


@dataclass
class Reading:
    """What is gathered while the tree is read; ``thing`` is what the file describes, ``keys`` where its keys are."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    bad: set[str] = field(default_factory=set)
    thing: str = "a lab"
    keys: str = "docs/lab.schema.json has all keys"
    like: str = "labs/default.yaml"

    def complain(self, line: int, path: str, problem: str, remedy: str) -> None:
        """Note a problem, and that what it stands in is not to be relied on."""
        self.problems.append(Problem(f"{self.file}:{line}", path, problem, remedy))
        self.bad.add(path)
        section, _, rest = path.partition("[")
        if not rest or rest.partition("].")[2] in ("", *_REFERRED):
            self.broken.add(section)


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _unknown(name: str, valid: list[str], keys: str) -> str:
    if re.sub("[^a-z]", "", name.lower()) == "autodetect":
        return "leave it out: the lab writes gres.conf itself, and Slurm here is built without NVML"
    return nearest(name, valid) or f"leave it out; {keys}"


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


@cache
def _stand_in(cls: type) -> Any:
    """An object of the model whose required fields are still empty, for reading on after a problem."""
    hints = _hints(cls)
    empty = {
        one.name: () if get_origin(hints[one.name]) is tuple else hints[one.name]()
        for one in dataclasses.fields(cls)
        if one.default is MISSING and one.default_factory is MISSING
    }
    return cls(**empty)


def build(cls: type, node: Node, path: str, reading: Reading) -> Any:
    """One object of a model (a dataclass of lab.param fields) from one map; ``reading`` has what is wrong with it."""
    reading.lines[path] = node.line
    result = _stand_in(cls)
    if not isinstance(node, Map):
        reading.complain(node.line, path, "a map of keys and values belongs here", "write key: value lines, indented")
        return result
    hints = _hints(cls)
    valid = [one.name for one in dataclasses.fields(cls)]
    for key in node.items:
        if key not in valid:
            where = _below(path, key if re.fullmatch(r"[\w.-]{1,40}", key) else shown(key))
            reading.complain(
                node.lines[key], where, f"is not a key of {reading.thing}", _unknown(key, valid, reading.keys)
            )
    values = {}
    for one in dataclasses.fields(cls):
        here = _below(path, one.name)
        if one.name not in node.items:
            if one.default is MISSING and one.default_factory is MISSING:
                reading.complain(node.line, here, "is missing", f"write it: {one.metadata['help']}")
            continue
        child = node.items[one.name]
        reading.lines[here] = node.lines[one.name]
        value = _field(one, hints[one.name], child, here, reading)
        if value is not MISSING:
            values[one.name] = value
    return dataclasses.replace(result, **values)


def _field(one: dataclasses.Field[Any], hint: Any, node: Node, path: str, reading: Reading) -> Any:
    """The value of one field, MISSING if it is wrong."""
    if "kind" in one.metadata:
        try:
            value = kinds.convert(node, one.metadata, one.default)
        except kinds.BadValueError as bad:
            where = _below(path, bad.key) if bad.key else path
            reading.complain(reading.lines[path], where, bad.problem, bad.remedy)
            return MISSING
        if one.default is MISSING and value in ("", ()):
            reading.complain(reading.lines[path], path, "is empty", f"write it: {one.metadata['help']}")
        if isinstance(node, Map):
            reading.lines |= {_below(path, key): line for key, line in node.lines.items()}
        return value
    if get_origin(hint) is not tuple:
        return build(hint, node, path, reading)
    if isinstance(node, Scalar) and node.empty:
        reading.complain(node.line, path, "has no value", "write a list with - lines, or leave the key out")
        return MISSING
    if not isinstance(node, Sequence):
        reading.complain(node.line, path, "a list belongs here", f"start each entry with '- ', as in {reading.like}")
        return MISSING
    return tuple(build(get_args(hint)[0], item, f"{path}[{i}]", reading) for i, item in enumerate(node.items))


def load_text(text: str, file: str) -> Lab:
    """The lab that a YAML text describes. Raises LabInvalid with all problems."""
    tree, problems = parse(text, file)
    reading = Reading(file, problems)
    lab: Lab = build(Lab, tree, "", reading)
    for problem in check(lab, file, frozenset(reading.broken)):
        if any(problem.path == bad or problem.path.startswith((bad + ".", bad + "[")) for bad in reading.bad):
            continue
        path = problem.path
        while path and path not in reading.lines:
            path = re.sub(r"(\.[^.\[\]]*|\[[^\]]*\]|^[^.\[]*)$", "", path)
        line = reading.lines.get(path, 1)
        reading.problems.append(dataclasses.replace(problem, file=f"{file}:{line}"))
    if reading.problems:
        raise LabInvalid(sorted(reading.problems, key=lambda one: int(one.file.rpartition(":")[2])))
    return lab


def lab_names() -> list[str]:
    """The names of the labs that come with the repository."""
    return sorted(path.stem for path in LABS.glob("*.yaml"))


def load_lab(name_or_path: str) -> Lab:
    """A lab by its name in provisioning/labs, or by the path of a .yaml file. Raises LabInvalid with all problems."""
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        path, file = Path(name_or_path), name_or_path if name_or_path.isprintable() else repr(name_or_path)
    else:
        path, file = LABS / f"{name_or_path}.yaml", f"provisioning/labs/{name_or_path}.yaml"
        if name_or_path not in lab_names():
            known = f"write one of {', '.join(lab_names())}, or the path of a .yaml file"
            where = f"LAB={shown(name_or_path)[1:-1]}"
            raise LabInvalid([Problem(where, "", "there is no such lab", known)], nearest(name_or_path, lab_names()))
    lab = load_text(read_text(path, file), file)
    if lab.name != path.stem:
        remedy = f"write name: {path.stem}, or rename the file to {lab.name}.yaml"
        raise LabInvalid([Problem(file, "name", f"{lab.name} is not the name of the file", remedy)])
    return lab
