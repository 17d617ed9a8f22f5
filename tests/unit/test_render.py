"""Every shipped lab renders to exactly the files under golden/; ``python -m tests.unit.golden`` renews them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from provisioning.load import load_lab
from provisioning.render import render
from provisioning.render.gres_conf import gpu_devices
from tests.unit.golden import FOLDER, LABS


@pytest.mark.parametrize("name", LABS)
def test_files_are_the_golden_ones(name: str) -> None:
    texts = render(load_lab(name))
    golden = {str(path.relative_to(FOLDER / name)): path.read_text(encoding="utf-8")
              for path in (FOLDER / name).rglob("*") if path.is_file()}  # fmt: skip
    assert texts == golden


@pytest.mark.parametrize("name", LABS)
def test_rendering_is_stable(name: str) -> None:
    assert render(load_lab(name)) == render(load_lab(name))


def test_the_golden_folder_has_every_lab() -> None:
    assert sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__") == sorted(
        LABS
    )


def test_each_gpu_type_has_device_files_of_its_own() -> None:
    lab = load_lab("heterogeneous")
    mixed = next(nodes for nodes in lab.nodes if "a100" in nodes.gres and "h100" in nodes.gres)
    text = render(lab)["etc/slurm/gres.conf"]
    files = [
        line.split("File=")[1].split()[0] for line in text.splitlines() if line.startswith(f"NodeName={mixed.name} ")
    ]
    assert len(set(files)) == len(files) == 2
    service = yaml.safe_load(render(lab)["compose.yaml"])["services"]
    assert {service[name]["environment"]["LAB_GPU_DEVICES"] for name in service if name.startswith(mixed.name)} == {
        str(gpu_devices(mixed))
    }


def test_no_secret_is_rendered() -> None:
    assert "StoragePass" not in "".join(render(load_lab("default")).values())


def test_slurmdbd_speaks_as_slurm_conf_says() -> None:
    """A hash that only slurm.conf names leaves slurmdbd unable to read any message."""
    lab = load_lab("default")
    other = replace(lab, slurm=replace(lab.slurm, extra={"HashPlugin": "hash/sha3", "MaxArraySize": "100"}))
    text = render(other)["etc/slurm/slurmdbd.conf"]
    assert "HashPlugin=hash/sha3" in text.splitlines()
    assert "MaxArraySize" not in text
    assert "HashPlugin" not in render(lab)["etc/slurm/slurmdbd.conf"]
