"""Build the lab's images when they are missing or out of date.

Each image carries a label with a digest over its folder, the pinned versions and its parent's digest; an image whose
label agrees is left alone. Follows docker-build(1) and mmdebstrap(1).
"""

from __future__ import annotations

import hashlib
import os
import platform
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from provisioning import versions
from provisioning.engine import apt_install, debian_mirror
from provisioning.errors import LabError
from provisioning.together import together

Say = Callable[[str], None]

FOLDER = Path(__file__).resolve().parent.parent / "images"
LABEL = "lab.digest"
ANSWER_S = 6
PULL_S = 600
BUILD_S = 1800
HOST_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
PIP_OPTIONS = ("index-url", "extra-index-url", "trusted-host", "proxy", "default-timeout", "timeout", "retries")


def image_name(kind: str, line: str) -> str:
    """The local name of an image: `slurm-ray-lab/KIND:LINE`."""
    return f"slurm-ray-lab/{kind}:{line}"


def ensure_images(line: str, say: Say, *, fresh: bool = False) -> None:
    """Build what is missing or out of date for one Slurm line; db is built beside ray and slurm.

    ``fresh``: build all of them, with the packages that the mirrors have now.
    """
    if line not in versions.SUITES:
        raise LabError(f"no Slurm {line}", f"SLURM is one of {', '.join(versions.SUITES)}")
    if os.environ.get("TORCH") == "1" and not os.environ.get("TORCH_INDEX") and platform.machine() == "x86_64":
        raise LabError(
            "TORCH=1 needs TORCH_INDEX: the ordinary index has only the build for CUDA, 5 GB with its libraries",
            "set TORCH_INDEX to the URL of PyTorch's index of CPU wheels (see pytorch.org, Get started, CPU)",
        )
    stale = list(versions.PARENTS) if fresh else stale_images(line)
    if not stale:
        return
    with tempfile.TemporaryDirectory(prefix="slurm-ray-lab-") as folder:
        options = [*_secrets(Path(folder)), *(["--no-cache"] if fresh else [])]
        if "base" in stale:
            _build("base", line, _debian_image(versions.SUITES[line], say), options, say)

        def chain(*kinds: str) -> None:
            for kind in kinds:
                if kind in stale:
                    _build(kind, line, image_name(versions.PARENTS[kind], line), options, say)

        together(lambda: chain("ray", "slurm"), lambda: chain("db"))


def stale_images(line: str) -> list[str]:
    """Images of one Slurm line that are missing, or were not made from what lies in images/ now."""
    return [kind for kind in versions.PARENTS if _label(image_name(kind, line)) != image_digest(kind, line)]


def image_id(image: str) -> str:
    """The engine's id of an image; empty if it has none of that name."""
    done = subprocess.run(["docker", "image", "inspect", "-f", "{{.Id}}", image], capture_output=True, text=True)
    return done.stdout.strip()


def image_digest(kind: str, line: str) -> str:
    """What the image is made from, its parents included. Mirrors, indexes and proxies do not count."""
    parent = versions.PARENTS[kind]
    parts = [image_digest(parent, line) if parent else f"{versions.SUITES[line]} {os.environ.get('BASE_IMAGE', '')}"]
    if kind == "ray":
        parts.append(f"torch={os.environ.get('TORCH', '0') or '0'}")
    for path in sorted((FOLDER / kind).rglob("*")):
        if path.is_file():
            parts.append(f"{path.relative_to(FOLDER)} {path.stat().st_mode & 0o100:o}")
            parts.append(path.read_text())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _label(image: str) -> str:
    command = ["docker", "image", "inspect", "-f", f'{{{{index .Config.Labels "{LABEL}"}}}}', image]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def _build(kind: str, line: str, parent: str, options: list[str], say: Say) -> None:
    started = time.monotonic()
    say(f"image {kind}:{line}: building")
    command = ["docker", "build", "--progress=plain", "-t", image_name(kind, line)]
    command += ["--label", f"{LABEL}={image_digest(kind, line)}", *options]
    arguments = {"PARENT": parent}
    if kind == "base":
        arguments["DEBIAN_MIRROR"] = os.environ.get("DEBIAN_MIRROR", "")
    if kind == "ray":
        arguments |= {name: os.environ.get(name, "") for name in ("TORCH", "TORCH_INDEX")}
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        arguments[name] = os.environ.get(name) or os.environ.get(name.lower(), "")
    for name, value in arguments.items():
        command += ["--build-arg", f"{name}={value}"] if value else []
    env = {**os.environ, "DOCKER_BUILDKIT": "1"}
    try:
        done = subprocess.run(
            [*command, str(FOLDER / kind)],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=BUILD_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise LabError(f"image {kind}:{line}: not built within {BUILD_S} s", "check the network, try again") from error
    if done.returncode:
        last = "\n".join(f"    {text}" for text in done.stdout.strip().splitlines()[-15:])
        raise LabError(f"image {kind}:{line}: the build failed\n{last}", _next_step(done.stdout))
    say(f"image {kind}:{line}: built in {time.monotonic() - started:.0f} s")


def _next_step(output: str) -> str:
    if "no space left on device" in output.lower():
        return "the disk is full: `docker system df` shows what the engine keeps, `docker system prune` frees it"
    if "certificate" in output.lower():
        return "a proxy may answer in the server's place: CA_CERTS=FILE names its certificates"
    return "check the network; DEBIAN_MIRROR, PYPI_INDEX, HTTPS_PROXY name other ways out"


def _secrets(folder: Path) -> list[str]:
    """Build secrets: the CA bundle and the pip settings of this machine. Neither is kept in an image."""
    options = ["--secret", f"id=ca,src={found}"] if (found := ca_bundle()) else []
    config = folder / "pip.conf"
    config.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in _pip_settings().items()))
    config.chmod(0o600)
    return [*options, "--secret", f"id=pip,src={config}"]


def ca_bundle() -> str:
    """The file with this machine's CA certificates, or empty. Raises LabError if CA_CERTS names none."""
    named = os.environ.get("CA_CERTS", "")
    if named and not Path(named).is_file():
        raise LabError(f"CA_CERTS: no such file: {named}", "name a file of PEM certificates")
    bundles = [named] + [os.environ.get(name, "") for name in ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")]
    return next((path for path in [*bundles, *HOST_BUNDLES] if path and Path(path).is_file()), "")


def _pip_settings() -> dict[str, str]:
    """This machine's pip settings that make sense in a build; PYPI_INDEX comes before them."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True).stdout
    settings: dict[str, str] = {}
    for line in listed.splitlines():  # global first, the environment last: later ones win, as in pip
        name, _, value = line.partition("=")
        key = name.rpartition(".")[2]
        words = [word for word in value.strip("'\"").replace("\\n", " ").split() if not word.startswith("file:")]
        if key in PIP_OPTIONS and words:
            settings["timeout" if key == "default-timeout" else key] = " ".join(words)
    if index := os.environ.get("PYPI_INDEX"):
        settings["index-url"] = index
        settings.pop("extra-index-url", None)
    return settings


def _debian_image(suite: str, say: Say) -> str:
    """The name of a Debian image: pulled, or bootstrapped from a Debian mirror and imported."""
    mode = os.environ.get("BASE") or "auto"
    if mode not in ("auto", "pull", "bootstrap"):
        raise LabError(f"BASE={mode} is unknown", "BASE is one of auto, pull, bootstrap")
    bootstrapped = versions.BOOTSTRAPPED_BASE.format(suite=suite)
    pulled = os.environ.get("BASE_IMAGE") or versions.PULLED_BASE.format(suite=suite)
    if mode != "bootstrap" and _exists(pulled):
        return pulled
    if mode != "pull" and _exists(bootstrapped) and not os.environ.get("BASE_IMAGE"):
        return bootstrapped
    if mode != "bootstrap":
        why = _pull(pulled, say)
        if not why:
            return pulled
        if mode == "pull" or os.environ.get("BASE_IMAGE"):
            raise LabError(f"image {pulled}: {why}", "BASE_IMAGE=NAME names another, BASE=bootstrap needs no registry")
        say(f"image {pulled}: no registry in reach ({why})")
    _bootstrap(suite, bootstrapped, say)
    return bootstrapped


def _exists(image: str) -> bool:
    return subprocess.run(["docker", "image", "inspect", image], capture_output=True).returncode == 0


def _pull(image: str, say: Say) -> str:
    """Pull; return an empty text, or why not. A registry that says nothing for a few seconds counts as absent."""
    child = subprocess.Popen(["docker", "pull", image], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert child.stdout is not None  # closed by communicate() on every way out
    if not select.select([child.stdout], [], [], ANSWER_S)[0]:
        child.kill()
        child.communicate()
        return f"no answer within {ANSWER_S} s"
    try:
        output = child.communicate(timeout=PULL_S)[0].strip()
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return f"not pulled within {PULL_S} s"
    if child.returncode:
        return str(output.splitlines()[-1]).rpartition(": ")[2] if output else "docker pull failed"
    say(f"image {image}: pulled")
    return ""


def _bootstrap(suite: str, image: str, say: Say) -> None:
    started = time.monotonic()
    if not shutil.which("mmdebstrap"):
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise LabError(
                f"no registry in reach for Debian {suite}, and no mmdebstrap", "install it, or set BASE_IMAGE"
            )
        apt_install(["mmdebstrap", "debian-archive-keyring"], say)
    say(f"image {image}: bootstrapping Debian {suite} with mmdebstrap")
    mirror = [url] if (url := debian_mirror()) else []
    options = ["--quiet", "--variant=minbase", '--aptopt=Acquire::Check-Valid-Until "false"']
    excludes = (FOLDER / "base/files/etc/dpkg/dpkg.cfg.d/lab").read_text().split()
    options += [f"--dpkgopt={word}" for word in excludes]
    with tempfile.TemporaryFile() as errors:
        command = ["mmdebstrap", *options, suite, "-", *mirror]
        partial = f"{image}-partial"  # its name it gets when it is whole
        # leaving the block closes the pipe: a mmdebstrap whose reader has failed ends too
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as make:
            load = subprocess.run(["docker", "import", "-", partial], stdin=make.stdout, capture_output=True)
        if make.returncode or load.returncode:
            errors.seek(0)
            output = (errors.read() + load.stderr).decode(errors="replace")
            subprocess.run(["docker", "rmi", partial], capture_output=True)
            last = "\n".join(f"    {text}" for text in output.strip().splitlines()[-8:])
            raise LabError(f"image {image}: the bootstrap failed\n{last}", _next_step(output))
    subprocess.run(["docker", "tag", partial, image], check=True)
    subprocess.run(["docker", "rmi", partial], capture_output=True)
    say(f"image {image}: made in {time.monotonic() - started:.0f} s")
