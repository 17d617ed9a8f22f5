"""Faults done to containers, for real, each a block in which it is there: for chaos and for the tests of faults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from provisioning.cluster import Cluster, remove_containers, run_local
from provisioning.errors import LabError
from provisioning.up import up


def docker(*argv: str) -> str:
    """What a docker command printed. Raises LabError if it fails."""
    done = run_local(["docker", *argv], timeout_s=90)
    if done.exit_code:
        raise LabError(f"docker {' '.join(argv)[:100]}: {done.last_lines}", "make status")
    return done.stdout


def networks_of(cluster: Cluster, service: str) -> list[str]:
    """Docker's names of the networks that a container is in now."""
    form = "{{json .NetworkSettings.Networks}}"
    return list(json.loads(docker("inspect", "-f", form, cluster.container_name(service))))


def kill_all(cluster: Cluster) -> None:
    """Kill every container at once, as when the host loses its power."""
    docker("kill", *(one.name for one in cluster.containers().values() if one.state == "running"))


@contextmanager
def killed(cluster: Cluster, *services: str) -> Iterator[None]:
    """Containers that are killed, and started again at the end."""
    for service in services:
        cluster.kill(service)
    try:
        yield
    finally:
        for service in services:
            cluster.start(service)


@contextmanager
def frozen(cluster: Cluster, service: str) -> Iterator[None]:
    """A container whose processes stand still: it keeps its connections and answers nothing."""
    docker("pause", cluster.container_name(service))
    try:
        yield
    finally:
        docker("unpause", cluster.container_name(service))


@contextmanager
def cut_off(cluster: Cluster, service: str) -> Iterator[None]:
    """A container without a network; its processes go on."""
    name, was = cluster.container_name(service), networks_of(cluster, service)
    with ExitStack() as reconnect:
        for network in was:
            reconnect.callback(connect, cluster, service, network)
            docker("network", "disconnect", network, name)
        yield


def connect(cluster: Cluster, service: str, network: str) -> None:
    """Put a container into a network under its service's name, as Compose does."""
    docker("network", "connect", "--alias", service, network, cluster.container_name(service))


@contextmanager
def removed(cluster: Cluster, service: str) -> Iterator[None]:
    """A container that is removed, and whose address another takes; at the end ``up`` has made it anew."""
    [network] = networks_of(cluster, service)
    name = cluster.container_name(service)
    image = docker("inspect", "-f", "{{.Config.Image}}", name).strip()
    remove_containers([name], grace_s=0)
    label = f"lab.squatter={cluster.settings.project}"
    squatter = docker("run", "--rm", "--detach", "--label", label, "--network", network, image, "sleep", "600").strip()
    try:
        yield
    finally:
        up(cluster.settings)
        docker("rm", "--force", squatter)


def heal(cluster: Cluster) -> None:
    """Take every fault away that a block may have left, and bring the lab up. Raises LabError if it does not come."""
    if squatters := docker("ps", "-q", "--filter", f"label=lab.squatter={cluster.settings.project}").split():
        docker("rm", "--force", *squatters)
    for service, container in cluster.containers().items():
        if container.state == "paused":
            docker("unpause", container.name)
        if container.state in ("running", "paused") and not networks_of(cluster, service):
            connect(cluster, service, f"{cluster.settings.project}_lab")
    up(cluster.settings)
