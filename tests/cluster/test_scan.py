"""`make scan` on images: a security fix that is missing, a mirror that does not answer, the packages of Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from provisioning import versions
from provisioning.cluster import Cluster, run_local
from provisioning.errors import LabError
from provisioning.images import image_name
from provisioning.scan import debian_holes, python_packages

#: A security suite with a newer version of two installed packages, and an ordinary one with a newer version of a third.
SUITES = """
set -e
rm -rf /etc/apt/sources.list* /srv/*
suite() {
    mkdir -p "/srv/$1"; cd "/srv/$1"; shift
    for name; do
        printf 'Package: %s\\nVersion: 99\\nArchitecture: %s\\nMaintainer: x\\nFilename: ./x.deb\\n' \\
            "$name" "$(dpkg --print-architecture)"
        printf 'Size: 1\\nSHA256: %064d\\n\\n' 0
    done > Packages
    { printf 'Suite: %s\\nCodename: %s\\nSHA256:\\n' "${PWD##*/}" "${PWD##*/}"
      echo " $(sha256sum < Packages | cut -d' ' -f1) $(wc -c < Packages) Packages"; } > Release
    echo "deb [trusted=yes] file:$PWD ./" >> /etc/apt/sources.list
}
suite lab-security tini libc-bin
suite lab bash
"""
NOBODY = (
    "rm -rf /etc/apt/sources.list*; echo 'deb http://127.0.0.1:9/x-security x-security main' > /etc/apt/sources.list"
)
NO_SECURITY = "rm -rf /etc/apt/sources.list*; echo 'deb http://127.0.0.1:9/x x main' > /etc/apt/sources.list"


@pytest.fixture
def altered(cluster: Cluster) -> Iterator[Callable[[str], str]]:
    """The base image after a command, under a name of its own."""
    name = f"{cluster.settings.project}-scan"

    def make(script: str) -> str:
        base = image_name("base", cluster.settings.slurm)
        for command in (["run", "--name", name, "--entrypoint", "", base, "sh", "-c", script], ["commit", name, name]):
            done = run_local(["docker", *command])
            assert done.exit_code == 0, done.stderr
        return name

    yield make
    run_local(["docker", "rm", "--force", name])
    run_local(["docker", "rmi", name])


def test_a_missing_security_fix_is_found(altered: Callable[[str], str]) -> None:
    holes, newer = debian_holes(altered(SUITES))
    assert [(hole.package, hole.fixed) for hole in holes] == [("libc-bin", "99"), ("tini", "99")]
    assert newer == 1


@pytest.mark.parametrize(("script", "why"), [(NOBODY, "127.0.0.1"), (NO_SECURITY, "no security suite")])
def test_what_cannot_be_looked_at_is_no_good_news(altered: Callable[[str], str], script: str, why: str) -> None:
    with pytest.raises(LabError, match=why) as caught:
        debian_holes(altered(script))
    assert "\n" not in caught.value.what


def test_an_image_that_is_not_there_is_one_clear_line() -> None:
    with pytest.raises(LabError, match="there is no such image"):
        debian_holes("slurm-ray-lab/nonesuch:0")


def test_the_packages_of_ray_are_listed_as_they_are_in_the_image(cluster: Cluster) -> None:
    listed = python_packages(image_name("ray", cluster.settings.slurm)).splitlines()
    locked = (cluster.settings.root / "images/ray/requirements.txt").read_text(encoding="utf-8")
    assert f"ray=={versions.RAY}" in listed
    assert {line for line in listed if line.startswith(("aiohttp==", "grpcio=="))} <= {*locked.split()}
    assert any(line.startswith("numpy==") for line in listed)
