"""``make scan``: known holes in what the images consist of.

Debian packages: an installed one of which a security suite has a newer version, as apt(8) sees it in a throw-away
container. Python packages: what pip-audit finds for exactly those versions that the image has, in OSV's data unless
PIP_AUDIT_VULNERABILITY_SERVICE or PIP_AUDIT_OSV_URL says otherwise.

Exit status: 0 nothing was found, 1 there are holes with a fix, 2 none was found but not everything could be looked at.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from provisioning import versions
from provisioning.cluster import Result, run_local
from provisioning.errors import LabError, print_error
from provisioning.images import ca_bundle, image_id, image_name
from provisioning.settings import Settings

#: Images that no other is built from: together they have everything.
KINDS = tuple(kind for kind in versions.PARENTS if kind not in versions.PARENTS.values())
LOOK_S = 180
#: A suite that does not answer is an error here, not a warning.
DEBIAN = """
ca=/run/secrets/ca; [ -s $ca ] || ca=/etc/ssl/certs/ca-certificates.crt
grep -rq -e -security /etc/apt/sources.list* || { echo 'no security suite among its sources' >&2; exit 1; }
apt-get -qq -o Acquire::Check-Valid-Until=false -o Acquire::Languages=none -o Acquire::Retries=0 \\
    -o Acquire::http::Timeout=10 -o Acquire::https::CAInfo=$ca --error-on=any update && apt list --upgradable
"""
PYTHON = """
import glob, importlib.metadata
for one in importlib.metadata.distributions(path=glob.glob("/opt/*/lib/python3*/site-packages")):
    print(f"{one.name}=={one.version}")
"""


@dataclass(frozen=True, order=True)
class Hole:
    """One package with a known hole; ``fixed`` is the version without it, empty if there is none yet."""

    package: str
    have: str
    fixed: str
    names: str = ""

    def __str__(self) -> str:
        """One line: the package, its version and the next one, the names of the holes."""
        fixed = f"fixed in {self.fixed}" if self.fixed else "no fix yet"
        return f"{self.package} {self.have}: {fixed}" + (f" ({self.names})" if self.names else "")


def parse_upgradable(text: str) -> tuple[list[Hole], int]:
    """What ``apt list --upgradable`` has from a security suite, and how many other packages have a newer version."""
    rows = re.findall(r"(?m)^(\S+)/(\S+) (\S+) \S+ \[upgradable from: (\S+)\]$", text)
    holes = [Hole(package, have, new) for package, suites, new, have in rows if "-security" in suites]
    return sorted(holes), len(rows) - len(holes)


def parse_audit(text: str) -> tuple[list[Hole], list[str]]:
    """What pip-audit's JSON names, and the packages that it knows nothing about.

    Raises ValueError if the text is not that.
    """
    holes, unknown = [], []
    for row in json.loads(text)["dependencies"]:
        if "skip_reason" in row:
            unknown.append(row["name"])
        holes += [Hole(row["name"], row["version"], ", ".join(one["fix_versions"]), one["id"])
                  for one in row.get("vulns", [])]  # fmt: skip
    return sorted(holes), unknown


def _in_container(image: str, *command: str) -> Result:
    """Run a command in a container of the image that is gone afterwards. Raises LabError if there is no such image."""
    if not image_id(image):
        raise LabError(f"{image}: there is no such image", "make images builds it")
    mount = ["--volume", f"{bundle}:/run/secrets/ca:ro"] if (bundle := ca_bundle()) else []
    return run_local(["docker", "run", "--rm", "--entrypoint", "", *mount, image, *command], timeout_s=LOOK_S)


def debian_holes(image: str) -> tuple[list[Hole], int]:
    """Debian packages of an image with a security fix, and how many others lag behind. Raises LabError if unknown."""
    done = _in_container(image, "sh", "-c", DEBIAN)
    if done.exit_code:
        raise LabError(f"{image}: its Debian packages could not be looked at: {done.last_lines}",
                       "check the network and DEBIAN_MIRROR; make images FRESH=1 looks for the suite")  # fmt: skip
    return parse_upgradable(done.stdout)


def python_packages(image: str) -> str:
    """Python packages of an image's virtual environments, as requirements."""
    done = _in_container(image, "python3", "-c", PYTHON)
    if done.exit_code:
        raise LabError(f"{image}: its Python packages could not be listed: {done.last_lines}", "make images")
    return done.stdout


def python_holes(requirements: str) -> list[Hole]:
    """Known holes in exactly these packages. Raises LabError if the data cannot be reached or know none of one."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(requirements)
        file.flush()
        command = [str(Path(sys.executable).with_name("pip-audit")), "--requirement", file.name, "--no-deps",
                   "--disable-pip", "--format=json", "--progress-spinner=off", "--timeout=15"]  # fmt: skip
        env = {"PIP_AUDIT_VULNERABILITY_SERVICE": "osv", **os.environ}
        done = run_local(command, env=env, timeout_s=LOOK_S)
    try:
        holes, unknown = parse_audit(done.stdout)
    except ValueError as error:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise LabError(f"pip-audit: no answer about known holes: {last[0]}", "check the network") from error
    if unknown:
        raise LabError(f"pip-audit: its data says nothing about {len(unknown)} packages: {', '.join(unknown[:5])}",
                       "a mirror of PyPI may lack them: unset PIP_AUDIT_VULNERABILITY_SERVICE")  # fmt: skip
    return holes


@dataclass(frozen=True)
class Look:
    """What one look found: a line about all of it, the holes, and what to do about those with a fix."""

    summary: str
    holes: list[Hole]
    remedy: str


def _debian(kind: str, line: str) -> Look:
    holes, newer = debian_holes(image_name(kind, line))
    found = f"{len(holes)} with a security fix, {newer} others are not the newest"
    return Look(f"Debian packages of {kind}:{line}: {found}", holes,
                f"make images FRESH=1 SLURM={line}, then make down and make up")  # fmt: skip


def _python(kind: str, line: str) -> Look:
    listed = python_packages(image_name(kind, line))
    holes = python_holes(listed)
    found = f"{len(holes)} known holes in {len(listed.splitlines())} packages"
    return Look(f"Python packages of {kind}:{line}: {found}", holes,
                "a fixed version in images/ray/requirements.txt, then make down and make up")  # fmt: skip


def report(looks: Iterable[Callable[[], Look]]) -> int:
    """Print what the looks find, or why one could not look; return the exit status."""
    fixable = unknown = False
    for find in looks:
        try:
            look = find()
        except LabError as error:
            print_error(error)
            unknown = True
            continue
        print("\n".join([look.summary, *(f"  {hole}" for hole in look.holes)]))
        if any(hole.fixed for hole in look.holes):
            print(f"  next: {look.remedy}")
            fixable = True
    status = 1 if fixable else 2 if unknown else 0
    print(("no known hole with a fix", "there are holes with a fix", "not everything could be looked at")[status])
    return status


def scan_command(settings: Settings) -> int:
    """``make scan``: look at the images of one Slurm line."""
    with ThreadPoolExecutor() as pool:
        looks = [pool.submit(_debian, kind, settings.slurm) for kind in KINDS]
        looks.append(pool.submit(_python, "ray", settings.slurm))
        return report(look.result for look in looks)
