"""The running lab that the tests look at, as testinfra and pytest-docker see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import testinfra
from testinfra.host import Host

from provisioning.cluster import Cluster
from smoke.slurm import Slurm

pytest_plugins = ["provisioning.pytest_plugin"]


@pytest.fixture(scope="session")
def cluster(lab: Cluster) -> Cluster:
    """The lab, under the name that the tests use."""
    return lab


@pytest.fixture(scope="session")
def docker_compose_project_name(lab: Cluster) -> str:
    """pytest-docker looks at the lab's project."""
    return lab.settings.project


@pytest.fixture(scope="session")
def docker_compose_file(lab: Cluster) -> Iterator[list[str]]:
    """pytest-docker reads the lab's Compose files, with the variables that they need."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in lab.compose_environment().items():
            patch.setenv(name, value)
        folder: Path = lab.settings.root / "compose"
        yield [str(folder / "compose.yaml"), str(lab.settings.generated / "compose.yaml")]


@pytest.fixture(scope="session")
def docker_setup() -> list[str]:
    """The lab is started by ``up``, which waits for more than Compose does."""
    return []


@pytest.fixture(scope="session")
def docker_cleanup() -> list[str]:
    """The lab is removed by its own fixture."""
    return []


@pytest.fixture(scope="session")
def host(cluster: Cluster) -> Callable[[str], Host]:
    """testinfra's view of a service's container."""
    return lambda service: testinfra.get_host(f"docker://{cluster.container_name(service)}")


@pytest.fixture
def alice(cluster: Cluster) -> Slurm:
    """Slurm as alice uses it."""
    return Slurm(cluster, user="alice")
