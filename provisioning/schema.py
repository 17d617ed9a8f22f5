"""JSON Schema (draft 2020-12) of a lab's YAML, derived from the model, so that editors complete and check it.

An editor's YAML turns 4000 and true into a number and a truth value; the lab's loader keeps texts. The schema takes
either, and is never stricter than the loader; what needs more than one value at a time is left to the loader.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import MISSING
from typing import Any, get_args, get_origin, get_type_hints

from provisioning import slurm_names
from provisioning.checks.slurm import WEIGHTS
from provisioning.kinds import NAME
from provisioning.lab import Lab

_TRES = r"[A-Za-z]+(/[A-Za-z0-9_:.@-]+)?=[0-9.]+[KMGTPkmgtp]?"
_GRES = r"[a-z][a-z0-9_]*(:[A-Za-z][A-Za-z0-9_.-]*)?(:[0-9]+)?"


def _any_case(words: tuple[str, ...]) -> str:
    """A pattern of words in any letter case; JSON Schema's patterns have no such flag."""
    return "|".join("".join(f"[{c.upper()}{c.lower()}]" if c.isalpha() else re.escape(c) for c in w) for w in words)


_TIME = rf"[0-9]+(:[0-9]+){{0,2}}|[0-9]+-[0-9]+(:[0-9]+){{0,2}}|{_any_case(('unlimited', 'infinite'))}"
#: Kind: (JSON types that an editor may see, pattern of the text).
_SIMPLE = {
    "name": (["string", "integer"], NAME),
    "hostlist": (["string"], r"[A-Za-z0-9_.,\[\]-]+"),
    "text": (["string", "integer"], r"[^\"'|#\\\n]{0,255}"),
    "time": (["string", "integer"], _TIME),
    "memory": (["string", "integer"], r"[0-9]+[KMGTkmgt]?"),
    "tres": (["string"], f"{_TRES}(,{_TRES})*"),
    "gres": (["string"], f"{_GRES}(,{_GRES})*"),
}  # fmt: skip
_SCALAR = {"type": ["string", "number", "boolean", "null"]}


def _names_of(path: str) -> list[str] | None:
    """The keys that a map takes, where they are known."""
    line = {"nodes": "NODE", "partitions": "PARTITION", "slurm": "CLUSTER"}.get(path.partition(".")[0], "")
    if path.endswith(".extra") and line:
        sets = (getattr(slurm_names, line + suffix, frozenset[str]()) for suffix in ("", "_24_11", "_26_05"))
        return sorted(frozenset[str]().union(*sets))
    known = {"priority_weights": WEIGHTS, "scheduler_parameters": slurm_names.SCHEDULER,
             "preempt_parameters": slurm_names.PREEMPT}  # fmt: skip
    names = known.get(path.rpartition(".")[2])
    return sorted(names) if names else None


def _value(meta: Any, path: str, default: Any) -> dict[str, Any]:
    """The schema of one value, by its kind."""
    kind = meta["kind"]
    if kind == "int":
        low, high = meta["bounds"]
        return {"type": "integer", "minimum": low, "maximum": high}
    if kind == "float":
        return {"type": "number", "minimum": 0}
    if kind == "bool":
        return {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": f"^({_any_case(('yes', 'no'))})$"}]}
    if kind == "choice":
        forms: list[dict[str, Any]] = [{"enum": [*meta["choices"], *([""] if default == "" else [])]}]
        return {"anyOf": [*forms, {"type": "string", "pattern": f"^({_any_case(meta['choices'])})$"}]}
    if kind == "map":
        names = _names_of(path)
        return {"type": ["object", "null"], "additionalProperties": _SCALAR,
                **({"propertyNames": {"enum": names}} if names else {})}  # fmt: skip
    if kind in ("names", "choices"):
        one = f"({_any_case(meta['choices'])})" if kind == "choices" else NAME
        items: dict[str, Any] = {"type": ["string", "integer"], "pattern": f"^{one}$"}
        text = {"type": "string", "pattern": f"^({one}( *, *{one})*)?$"}
        return {"anyOf": [{"type": "array", "items": items, "uniqueItems": True}, text]}
    types, pattern = _SIMPLE[kind]
    whole = {"type": types, "pattern": f"^({pattern})?$" if default == "" else f"^({pattern})$"}
    if kind in ("hostlist", "tres", "gres"):
        return {"anyOf": [whole, {"type": "array", "items": {"type": "string"}}]}
    return whole


def _object(cls: type, path: str) -> dict[str, Any]:
    """The schema of one dataclass."""
    hints, properties, required = get_type_hints(cls), {}, []
    for one in dataclasses.fields(cls):
        hint, here = hints[one.name], f"{path}.{one.name}" if path else one.name
        if "kind" in one.metadata:
            inner = _value(one.metadata, here, one.default)
        elif get_origin(hint) is tuple:
            inner = {"type": "array", "items": _object(get_args(hint)[0], here)}
        else:
            inner = _object(hint, here)
        slurm = one.metadata.get("slurm", "")
        described = one.metadata["help"] + (f" (Slurm: {slurm})" if slurm else "")
        if isinstance(one.default, str | int | float) and one.default != "":
            inner["default"] = one.default
        properties[one.name] = {"description": described, **inner}
        if one.default is MISSING and one.default_factory is MISSING:
            required.append(one.name)
    result = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**result, "required": required} if required else result


def schema() -> dict[str, Any]:
    """The whole schema."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A lab"}
    whole = {**head, "description": " ".join((Lab.__doc__ or "").split()), **_object(Lab, "")}
    whole["required"] = [*whole["required"], "nodes", "partitions"]
    return whole
