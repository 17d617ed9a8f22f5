"""What the only door to the containers says, and leaves behind, when there is no engine behind it."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from provisioning.cluster import list_containers
from provisioning.errors import LabError


def test_no_engine_is_one_clear_error_and_leaves_no_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An open socket is a warning at any later time, and so a failure of whatever test runs then."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(LabError, match="the container engine does not answer") as caught:
        list_containers("any")
    assert caught.value.hint == "make up starts it"
    del caught
    gc.collect()
