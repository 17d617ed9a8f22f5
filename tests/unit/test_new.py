"""make new: a copy under a new name that loads; nothing is written over."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioning.errors import LabError
from provisioning.load import lab_names, load_lab
from provisioning.new import new_lab


@pytest.mark.parametrize("model", lab_names())
def test_a_copy_loads_and_keeps_its_comments(model: str, tmp_path: Path) -> None:
    path = new_lab("mine", model=model, folder=tmp_path)
    assert load_lab(str(path)).name == "mine"
    assert path.read_text(encoding="utf-8").count("#") > 3


def test_an_existing_lab_is_not_written_over(tmp_path: Path) -> None:
    new_lab("mine", folder=tmp_path)
    before = (tmp_path / "mine.yaml").read_text(encoding="utf-8")
    with pytest.raises(LabError, match="the lab mine exists"):
        new_lab("mine", model="ci", folder=tmp_path)
    assert (tmp_path / "mine.yaml").read_text(encoding="utf-8") == before


@pytest.mark.parametrize("name", ["Mine", "../x", "", "a b", "-x"])
def test_a_name_that_cannot_be_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no name for a lab"):
        new_lab(name, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_unknown_model_is_refused_with_the_valid_ones(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        new_lab("mine", model="nonesuch", folder=tmp_path)
    assert "default" in caught.value.hint
