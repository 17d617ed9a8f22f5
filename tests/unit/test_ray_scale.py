"""Another number of Ray workers: the Compose file that it makes, and what the rest of the lab sees of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from provisioning.cluster import COMPOSE_FILE, Cluster
from provisioning.errors import LabError
from provisioning.load import load_lab
from provisioning.ray_scale import count_of, scaled_compose, with_workers
from provisioning.render.compose import compose_yaml
from provisioning.settings import Settings

LAB = load_lab("default")
NOW = compose_yaml(LAB)


def test_the_file_is_the_one_that_the_yaml_with_that_number_gives() -> None:
    for count in (0, 1, 2, 5):
        assert scaled_compose(NOW, with_workers(LAB, count)) == compose_yaml(with_workers(LAB, count))
    assert scaled_compose(scaled_compose(NOW, with_workers(LAB, 5)), LAB) == NOW


def test_other_changes_of_the_yaml_are_left_to_apply() -> None:
    edited = replace(LAB, nodes=(replace(LAB.nodes[0], name="c[1-9]"),))
    bigger = with_workers(replace(edited, ray=replace(LAB.ray, workers=replace(LAB.ray.workers, gpus=4))), 3)
    made = yaml.safe_load(scaled_compose(NOW, bigger))["services"]
    assert [name for name in made if name.startswith("c")] == ["c1", "c2", "c3", "c4"]
    gpus = {name: one["environment"]["LAB_RAY_GPUS"] for name, one in made.items() if name.startswith("ray-worker")}
    assert gpus == {"ray-worker-1": "8", "ray-worker-2": "8", "ray-worker-3": "4"}


@pytest.mark.parametrize("text", ["", "x", "-1", "65", "1.5", "٤"])
def test_what_is_no_number_is_one_clear_error(text: str) -> None:
    with pytest.raises(LabError, match="is no number of Ray workers") as caught:
        count_of(text)
    assert "make ray-scale N=4" in caught.value.hint


def test_a_lab_has_the_services_that_it_was_started_with(tmp_path: Path) -> None:
    cluster = Cluster(Settings(root=tmp_path), LAB)
    assert cluster.ray_workers() == ["ray-worker-1", "ray-worker-2"]
    cluster.write_file(COMPOSE_FILE, scaled_compose(NOW, with_workers(LAB, 3)))
    assert cluster.ray_workers() == ["ray-worker-1", "ray-worker-2", "ray-worker-3"]
    assert cluster.nodes() == ["c1", "c2", "c3", "c4"]
    assert cluster.stale_files() != []
    cluster.write_file(COMPOSE_FILE, scaled_compose(NOW, with_workers(LAB, 0)))
    assert cluster.ray_workers() == []
