"""From the text of one value in the YAML to the value of one field of the model, by the field's kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from provisioning import slurmtypes
from provisioning.problems import nearest, shown
from provisioning.yamltext import Map, Node, Scalar, Sequence

#: Names of partitions, QOS, accounts, users, features.
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}"
YES, NO = ("yes", "true"), ("no", "false")
MAX_TEXT = 500


class BadValueError(Exception):
    """A value that its field does not take: what is wrong, and what to write."""

    def __init__(self, problem: str, remedy: str, key: str = "") -> None:
        super().__init__(problem)
        self.problem, self.remedy, self.key = problem, remedy, key


def _slurm(parse: Callable[[str], Any], remedy: str) -> Callable[[str, Mapping[str, Any]], str]:
    def convert(text: str, _meta: Mapping[str, Any]) -> str:
        try:
            parse(text)
        except ValueError as error:
            why = str(error)
            raise BadValueError(why if len(why) <= 200 else f"{why[:197]}...", remedy) from None
        return text

    return convert


def _name(text: str, _meta: Mapping[str, Any]) -> str:
    if not re.fullmatch(NAME, text):
        raise BadValueError(
            f"{shown(text)} is not a name", "use letters, digits, _ . and -, at most 63, first no . or -"
        )
    return text


def _text(text: str, _meta: Mapping[str, Any]) -> str:
    if bad := sorted({char for char in text if not char.isprintable() or char in "\"'|#\\"}):
        raise BadValueError(
            f"the text has {' '.join(map(repr, bad))} in it", "write one plain line without quotes, #, | and \\"
        )
    if len(text) > 255:
        raise BadValueError(f"the text has {len(text)} characters", "at most 255 fit")
    return text


def _int(text: str, meta: Mapping[str, Any]) -> int:
    if not re.fullmatch(r"-?[0-9]{1,12}", text):
        raise BadValueError(f"{shown(text)} is not a whole number", "write digits only")
    low, high = meta["bounds"]
    if not low <= int(text) <= high:
        raise BadValueError(f"{text} is out of range", f"write {low} to {high}")
    return int(text)


def _float(text: str, _meta: Mapping[str, Any]) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", text):
        raise BadValueError(f"{shown(text)} is not a number", "write it as 1 or 0.5")
    return float(text)


def _bool(text: str, _meta: Mapping[str, Any]) -> bool:
    if text.lower() not in YES + NO:
        raise BadValueError(f"{shown(text)} is neither yes nor no", "write yes or no")
    return text.lower() in YES


def _choice(text: str, meta: Mapping[str, Any]) -> str:
    for one in meta["choices"]:
        if one.lower() == text.lower():
            return str(one)
    raise BadValueError(f"{shown(text)} is not known here", nearest(text, meta["choices"]))


def _hostlist(text: str, meta: Mapping[str, Any]) -> str:
    if text.upper() == "ALL":
        return "ALL"
    return _slurm(slurmtypes.expand_hosts, "write names or ranges such as c[1-4]")(text, meta)


def _memory(text: str, meta: Mapping[str, Any]) -> str:
    _slurm(slurmtypes.parse_memory_mb, "write megabytes or a suffix, such as 4000, 32G")(text, meta)
    if not 1 <= slurmtypes.parse_memory_mb(text) <= 2**40:
        raise BadValueError(f"{text} is out of range", "write at least 1M")
    return text


def _gres(text: str, meta: Mapping[str, Any]) -> str:
    if "(" in text:
        raise BadValueError(f"{shown(text)} has brackets in it", "write name:type:count, such as gpu:a100:8")
    return _slurm(slurmtypes.parse_gres, "write name:type:count, such as gpu:a100:8")(text, meta)


_TIME_REMEDY = "write minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or UNLIMITED"
_CONVERT: dict[str, Callable[[str, Mapping[str, Any]], Any]] = {
    "name": _name, "text": _text, "int": _int, "float": _float, "bool": _bool, "choice": _choice,
    "hostlist": _hostlist, "memory": _memory, "gres": _gres,
    "time": _slurm(slurmtypes.parse_time, _TIME_REMEDY),
    "tres": _slurm(slurmtypes.parse_tres, "write name=value with commas between, such as cpu=64,gres/gpu=4"),
}  # fmt: skip


def _texts(node: Node) -> list[str]:
    """A list of texts, or a text with commas; either is a list."""
    if isinstance(node, Scalar):
        return [part.strip() for part in node.text.split(",")] if node.text else []
    if isinstance(node, Map):
        raise BadValueError("a map stands where a list belongs", "write [one, two] or one,two")
    found = []
    for item in node.items:
        if not isinstance(item, Scalar) or item.empty:
            raise BadValueError("something else than a text is in the list", "write [one, two] or one,two")
        found.append(item.text)
    return found


def _map(node: Node) -> dict[str, str]:
    if isinstance(node, Scalar) and node.empty:
        return {}
    if not isinstance(node, Map):
        raise BadValueError("a map belongs here", "write one line of name: value for each, indented")
    found = {}
    for key, value in node.items.items():
        if not isinstance(value, Scalar):
            raise BadValueError("the value is a list or a map", "write one text", key if key.isprintable() else "")
        found[key] = "" if value.empty else value.text
        if len(key) > MAX_TEXT or len(found[key]) > MAX_TEXT:
            raise BadValueError(f"the entry {shown(key)} is too long", f"at most {MAX_TEXT} characters fit")
        if not all(char.isprintable() for char in key + found[key]):
            raise BadValueError(
                "there is a line break or a control character in it", "write one line", key if key.isprintable() else ""
            )
        if "#" in key + found[key]:
            raise BadValueError("there is a # in it, which starts a comment in Slurm's files", "leave it out", key)
    return found


def convert(node: Node, meta: Mapping[str, Any], default: Any) -> Any:
    """The value of a field. Raises BadValueError. An empty text in quotes is the field's 'not given'."""
    kind = meta["kind"]
    if isinstance(node, Scalar) and len(node.text) > MAX_TEXT:
        raise BadValueError(f"has {len(node.text)} characters", f"at most {MAX_TEXT} fit")
    if kind == "map":
        return _map(node)
    if isinstance(node, Scalar) and node.empty:
        raise BadValueError("has no value", "write one, or leave the key out")
    if kind in ("names", "choices"):
        one = _CONVERT["name" if kind == "names" else "choice"]
        values = tuple(one(text, meta) for text in _texts(node))
        if len(set(values)) < len(values):
            raise BadValueError("the same name is there twice", "name it once")
        return values if isinstance(default, tuple) or kind == "names" else ",".join(values)
    if isinstance(node, Sequence) and kind in ("tres", "gres", "hostlist"):
        node = Scalar(",".join(_texts(node)), node.line, empty=False)
    if not isinstance(node, Scalar):
        raise BadValueError(
            f"a {'list' if isinstance(node, Sequence) else 'map'} stands where one value belongs", "write one"
        )
    if node.text == "" and default == "":
        return ""
    return _CONVERT[kind](node.text, meta)
