"""``make new LAB=mine``: a commented copy of a shipped lab, to edit."""

from __future__ import annotations

import re
from pathlib import Path

from provisioning.errors import LabError
from provisioning.load import LABS, lab_names

#: A name that the loader, Compose and Slurm all accept.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


def new_lab(name: str, *, model: str = "default", folder: Path = LABS) -> Path:
    """Write ``folder/NAME.yaml``, a copy of the lab ``model`` under its new name. Raises LabError if it exists."""
    if not _NAME.fullmatch(name):
        raise LabError(f"{name!r} is no name for a lab", "lower-case letters, digits and -, such as: make new LAB=mine")
    if model not in lab_names():
        raise LabError(f"there is no lab {model!r} to start from", f"one of: {', '.join(lab_names())}")
    path = folder / f"{name}.yaml"
    if path.exists():
        raise LabError(f"the lab {name} exists: {path}", "edit it, or choose another name: make new LAB=mine")
    text, replaced = re.subn(rf"(?m)^name: {model}$", f"name: {name}", (LABS / f"{model}.yaml").read_text("utf-8"))
    if replaced != 1:
        raise LabError(f"the lab {model} has no line 'name: {model}'", "start from another one: FROM=ci")
    path.write_text(text, encoding="utf-8")
    return path
