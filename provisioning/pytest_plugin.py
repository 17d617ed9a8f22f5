"""A pytest plugin for tests of tools that submit to Slurm or Ray: the fixture ``lab`` is a running cluster.

In a ``conftest.py``::

    pytest_plugins = ["provisioning.pytest_plugin"]

and then::

    def test_my_tool(lab):
        done = lab.exec("login", ["sbatch", "--parsable", "--wrap", "hostname"], user="alice", workdir="/home/alice")
        assert done.stdout.strip().isdigit()

LAB, SLURM, PROJECT and DASHBOARD_PORT choose the lab as they do for ``make up``. A lab that is up is used and left up;
otherwise one is started under a name and a port of the tests' own, and removed at the end.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from provisioning.bundle import bundle
from provisioning.cluster import Cluster
from provisioning.engine import ensure_engine
from provisioning.errors import LabError
from provisioning.settings import Settings
from provisioning.up import destroy, up

#: Projects that tests start carry this in front, so that nobody's own lab is taken for one of them.
TEST_PREFIX = "labtest-"


def free_port() -> str:
    """A port of 127.0.0.1 that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def test_settings(given: Settings) -> Settings:
    """The given settings under a port and a project name of the tests' own, another one in each checkout."""
    checkout = hashlib.sha256(str(given.root).encode()).hexdigest()[:4]
    name = f"{TEST_PREFIX}{Path(given.lab).stem}-{given.slurm.replace('.', '')}-{checkout}"
    return replace(given, project=name, dashboard=free_port())


test_settings.__test__ = False  # type: ignore[attr-defined]  # a helper, although its name looks like a test's


def is_up(cluster: Cluster) -> bool:
    """Whether this very lab, with this Slurm and of this checkout, is up."""
    try:
        containers = cluster.containers()
    except LabError:
        return False
    labels = containers["login"].labels if "login" in containers else {}
    wanted = (cluster.lab.name, cluster.settings.slurm, str(cluster.settings.root))
    return (labels.get("lab.name"), labels.get("lab.slurm"), labels.get("lab.checkout")) == wanted


@contextmanager
def own_lab(given: Settings) -> Iterator[Cluster]:
    """A lab of the tests' own, from nothing to nothing, beside whatever else runs on this host."""
    own = Cluster.open(test_settings(given))
    destroy(own.settings)  # what a killed run may have left under this name
    try:
        up(own.settings)
        yield own
    finally:
        destroy(own.settings)


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The lab, ready. If a test fails, what a person would look at first is printed before the lab goes."""
    given = Cluster.open(Settings.from_env())
    ensure_engine(print)
    if is_up(given):
        up(given.settings)
        yield given
        _show_bundle(request, given)
        return
    with own_lab(given.settings) as own:
        yield own
        _show_bundle(request, own)


def _show_bundle(request: pytest.FixtureRequest, cluster: Cluster) -> None:
    if not request.session.testsfailed:
        return
    capture = request.config.pluginmanager.getplugin("capturemanager")
    text = bundle(cluster)
    if capture is None:
        print(text)
        return
    with capture.global_and_fixture_disabled():
        print("\n" + text)
