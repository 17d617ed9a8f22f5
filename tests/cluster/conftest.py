"""The running lab that the tests look at, as testinfra and pytest-docker see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import testinfra
from testinfra.host import Host

from provisioning.cluster import Cluster
from provisioning.lab import Lab
from smoke.slurm import Slurm
from tests.cluster.people import Person, more_accounting

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
def alice(cluster: Cluster) -> Iterator[Person]:
    """Alice, whose default account is research; her jobs end with the test."""
    person = Person(cluster, "alice")
    yield person
    person.leave()


@pytest.fixture
def bob(cluster: Cluster) -> Iterator[Person]:
    """Bob, whose default account is teaching; his jobs end with the test."""
    person = Person(cluster, "bob")
    yield person
    person.leave()


@pytest.fixture
def operator(cluster: Cluster) -> Slurm:
    """Slurm as root uses it: may change what is not theirs."""
    return Slurm(cluster, user="root", folder="")


@pytest.fixture(scope="module")
def more(cluster: Cluster) -> Iterator[Lab]:
    """More QOS and accounts than the lab has, while a module's tests run."""
    with more_accounting(cluster) as lab:
        yield lab


@pytest.fixture
def scratch(cluster: Cluster) -> Iterator[str]:
    """A folder that login and all nodes see, for what jobs write."""
    folder = cluster.exec("login", ["mktemp", "-d", "/scratch/test-XXXXXX"]).stdout.strip()
    cluster.exec("login", ["chmod", "1777", folder])
    yield folder
    cluster.exec("login", ["rm", "-rf", folder])


@pytest.fixture(scope="session")
def overdue(cluster: Cluster) -> Iterator[dict[str, str]]:
    """Jobs over their time limit, by name. slurmctld looks for such every 30 s: ask for this early, look at it late.

    The limit is a minute, the shortest there is; the operator moves the end nearer.
    """
    alice = Person(cluster, "alice")
    try:
        jobs = alice.batch({
            "obedient": ("--partition=gpu-batch --time=1 --output=overdue-%j.out", "srun sleep 300"),
            "stubborn": ("--partition=gpu-batch --time=1", "trap '' TERM; sleep 300"),
        })  # fmt: skip
        for job in jobs.values():
            found = alice.wait_state(job, ("RUNNING",)).fields
            start, end = (datetime.fromisoformat(found[name]) for name in ("StartTime", "EndTime"))
            assert (found["TimeLimit"], end - start) == ("00:01:00", timedelta(minutes=1))
            Slurm(cluster, "root", folder="").login.run("scontrol", "update", f"JobId={job}", "EndTime=now+3")
        yield jobs
    finally:
        alice.leave()
        alice.sh("rm -f overdue-*.out")
