"""The running lab that the tests look at: reused and left up if it is up, else started and removed again."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import testinfra
from testinfra.host import Host

from provisioning.bundle import bundle
from provisioning.cluster import Cluster
from provisioning.engine import ensure_engine
from provisioning.errors import LabError
from provisioning.settings import Settings
from provisioning.up import destroy, up
from smoke.slurm import Slurm


def free_port() -> str:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def running(cluster: Cluster) -> bool:
    """Whether this very lab, with this Slurm and of this checkout, is up."""
    try:
        containers = cluster.containers()
    except LabError:
        return False
    labels = containers["login"].labels if "login" in containers else {}
    wanted = (cluster.lab.name, cluster.settings.slurm, str(cluster.settings.root))
    return (labels.get("lab.name"), labels.get("lab.slurm"), labels.get("lab.checkout")) == wanted


@pytest.fixture(scope="session")
def docker_compose_project_name(settings: Settings) -> str:
    """pytest-docker's name for the project: ours."""
    return settings.project


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The settings of the environment; a name and a port of the tests' own if that lab is not up."""
    given = Settings.from_env()
    if running(Cluster.open(given)):
        return given
    return replace(given, project=f"labtest-{given.slurm.replace('.', '')}", dashboard=free_port())


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, settings: Settings) -> Iterator[Cluster]:
    """The lab, ready. If a test fails, what a person would look at first is printed before the lab goes."""
    found = Cluster.open(settings)
    was_up = running(found)
    if not was_up:
        ensure_engine(print)
        destroy(settings)  # what a killed run may have left under the tests' own name
    try:
        up(settings)
        yield found
    finally:
        if request.session.testsfailed:
            with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
                print("\n" + bundle(found))
        if not was_up:
            destroy(settings)


@pytest.fixture(scope="session")
def host(cluster: Cluster) -> Callable[[str], Host]:
    """testinfra's view of a service's container."""
    return lambda service: testinfra.get_host(f"docker://{cluster.container_name(service)}")


@pytest.fixture
def alice(cluster: Cluster) -> Slurm:
    """Slurm as alice uses it; the queue is empty before and after."""
    return Slurm(cluster, user="alice")
