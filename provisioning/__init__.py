"""Provisioning of a lab from one YAML, for the command line and as a library.

``from provisioning import Cluster, LabError, Settings, load_lab`` is all that a tool's own tests need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provisioning.cluster import Cluster
    from provisioning.errors import LabError
    from provisioning.load import load_lab
    from provisioning.settings import Settings

__all__ = ["Cluster", "LabError", "Settings", "load_lab"]

_HOMES = {"Cluster": "cluster", "LabError": "errors", "load_lab": "load", "Settings": "settings"}


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is asked for: a command waits for nothing it does not use."""
    if name in _HOMES:
        return getattr(import_module(f"provisioning.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'provisioning' has no attribute {name!r}")
