"""What the only door to the containers says, and leaves behind, when there is no engine behind it."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path

import pytest

from provisioning.cluster import Result, list_containers, remove_networks
from provisioning.errors import LabError


def test_no_engine_is_one_clear_error_and_leaves_no_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An open socket is a warning at any later time, and so a failure of whatever test runs then."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(LabError, match="the container engine does not answer") as caught:
        list_containers("any")
    assert caught.value.hint == "make up starts it"
    del caught
    gc.collect()


@pytest.mark.parametrize(("attached", "left"), [("", []), ("guest other ", ["guest", "other"])])
def test_a_network_that_the_engine_holds_back_is_named_and_no_error(
    attached: str, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engine 20.10 miscounts what is attached now and then, and refuses until its next start."""
    tried = []

    def engine(argv: Sequence[str], **_: float) -> Result:
        verb = argv[2]
        if verb == "rm":
            tried.append(argv[3:])
            return Result(1, "lab_accounting", "Error response from daemon: network lab_lab has active endpoints")
        return Result(0, attached if verb == "inspect" else "lab_lab" if tried else "lab_accounting\nlab_lab", "")

    monkeypatch.setattr("provisioning.cluster.run_local", engine)
    assert remove_networks("lab") == {"lab_lab": left}
    assert tried == [["lab_accounting", "lab_lab"]]
