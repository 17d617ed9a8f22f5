"""Find a container engine, or install and start Debian's.

An engine that answers is used as it is. Without one, on Debian or Ubuntu, docker.io, Compose v2 and buildx come from
the distribution. Follows dockerd(8), apt_preferences(5) and sources.list(5).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from provisioning.cluster import run_local
from provisioning.errors import LabError

Say = Callable[[str], None]

ANSWER_S = 10
APT_S = 1200
START_S = 60
LOG = Path("/var/log/slurm-ray-lab-dockerd.log")
MARKER = Path("/run/slurm-ray-lab-dockerd.pid")
PID_FILE = Path("/var/run/docker.pid")
PLUGINS = ("compose", "buildx")
PLUGIN_FOLDERS = ("/usr/libexec/docker/cli-plugins", "/usr/lib/docker/cli-plugins")
CLIENT_FOLDER = Path("/usr/local/lib/docker/cli-plugins")
PACKAGES = {
    "debian": ("docker.io", "docker-cli", "docker-compose", "docker-buildx"),
    "bookworm": ("docker.io", "docker-compose", "docker-buildx"),
    "ubuntu": ("docker.io", "docker-compose-v2", "docker-buildx"),
}
BY_HAND = "install Docker Engine 20.10 or newer with the Compose v2 and buildx plugins, and start it"


def ensure_engine(say: Say) -> None:
    """Return once an engine, Compose v2 and buildx answer; otherwise raise LabError."""
    state = _engine_state()
    if "permission denied" in state:
        raise LabError(
            f"user {_user()} may not use the container engine",
            "run: sudo usermod -aG docker $USER   then log in again (or run make as root)",
        )
    missing = [plugin for plugin in PLUGINS if not _plugin_answers(plugin)]
    if not state and not missing:
        return
    if os.environ.get("ENGINE", "auto") == "never" and state:
        raise LabError("no container engine answers, and ENGINE=never", BY_HAND)
    if os.environ.get("DOCKER_HOST") and state:
        raise LabError("the engine named by DOCKER_HOST does not answer", "start it, or unset DOCKER_HOST")
    if state and shutil.which("dockerd") and not missing:
        _require_root("start the container engine", "run: sudo systemctl start docker   (or run make as root)")
    else:
        _install(say, missing if not state else ["engine", *missing])
    if _engine_state():
        _start(say)
    for plugin in PLUGINS:
        if not _plugin_answers(plugin):
            raise LabError(f"`docker {plugin}` does not answer", BY_HAND)


def stop_engine(say: Say) -> None:
    """Stop the dockerd that ensure_engine started; leave any other alone."""
    pid = _read_pid(MARKER)
    if pid is None or not _is_dockerd(pid):
        MARKER.unlink(missing_ok=True)
        say("engine: not started by the lab, left as it is")
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + START_S
    while _is_dockerd(pid):
        if time.monotonic() > deadline:
            raise LabError(f"the engine (pid {pid}) has not stopped within {START_S} s", f"look at {LOG}")
        time.sleep(0.2)
    MARKER.unlink(missing_ok=True)
    say("engine: stopped")


def apt_install(packages: list[str], say: Say) -> None:
    """Install Debian packages as root, quietly; a failure shows apt's last lines."""
    say(f"apt: installing {' '.join(packages)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    options = ["-qq", "-y", "-o", "DPkg::Lock::Timeout=120"]
    for command in (["update"], ["install", "--no-install-recommends", *packages]):
        # an apt that is broken off leaves packages half configured: it comes to its end
        done = run_local(["apt-get", *options, *command], env=env, timeout_s=APT_S, end_s=APT_S)
        if done.exit_code:
            last = "\n    ".join((done.stdout + done.stderr).strip().splitlines()[-8:])
            raise LabError(
                f"apt-get {command[0]} failed:\n    {last}",
                "check the network and the package sources; DEBIAN_MIRROR=URL names another mirror",
            )


def debian_mirror() -> str:
    """The mirror for Debian packages: DEBIAN_MIRROR, else the machine's own, else empty."""
    if mirror := os.environ.get("DEBIAN_MIRROR"):
        return mirror
    if _os_release().get("ID") == "debian":
        for path in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]:
            text = path.read_text(errors="replace") if path.is_file() else ""
            for uri in re.findall(r"(?m)^(?:URIs:|deb(?: \[[^]]*\])?)\s+(http\S+/debian/?)(?:\s|$)", text):
                return str(uri).rstrip("/")
    return ""


def _engine_state() -> str:
    """Empty when the engine answers, else why it does not (lower case)."""
    if not shutil.which("docker"):
        return "no docker command"
    try:
        done = subprocess.run(["docker", "info"], capture_output=True, text=True, timeout=ANSWER_S)
    except subprocess.TimeoutExpired:
        return f"no answer within {ANSWER_S} s"
    return "" if done.returncode == 0 else done.stderr.strip().lower() or "no answer"


def _plugin_answers(plugin: str) -> bool:
    command = shutil.which("docker")
    if command is None:
        return False
    return subprocess.run([command, plugin, "version"], capture_output=True, timeout=ANSWER_S).returncode == 0


def _install(say: Say, missing: list[str]) -> None:
    release = _os_release()
    what = " and ".join(missing)
    if os.environ.get("ENGINE", "auto") == "never" or release.get("ID") not in ("debian", "ubuntu"):
        raise LabError(f"missing on this machine: docker {what}", BY_HAND)
    key = release["ID"] if release.get("VERSION_CODENAME") != "bookworm" else "bookworm"
    packages = list(PACKAGES[key])
    if "engine" not in missing:
        packages.remove("docker.io")
    _require_root(f"install the container engine ({what} missing)", f"run as root: apt install {' '.join(packages)}")
    if sys.stdin.isatty():
        answer = input(f"No container engine answers. Install {' '.join(packages)} with apt? [Y/n] ")
        if answer.strip().lower() not in ("", "y", "yes"):
            raise LabError("no container engine", BY_HAND)
    say(f"engine: docker {what} missing, installing the packages of {release.get('PRETTY_NAME', 'this system')}")
    if key == "bookworm":
        _pin_trixie(say)
    apt_install(packages, say)
    _link_plugins()


def _pin_trixie(say: Say) -> None:
    """Debian 12 has no Compose v2 and no buildx: take these two packages, and nothing else, from Debian 13."""
    mirror = debian_mirror()
    if not mirror:
        raise LabError("no Debian mirror in this machine's package sources", "name one: DEBIAN_MIRROR=URL")
    say("engine: Compose v2 and buildx come from Debian 13 (all its other packages stay barred)")
    Path("/etc/apt/sources.list.d/slurm-ray-lab-trixie.sources").write_text(
        f"Types: deb\nURIs: {mirror}\nSuites: trixie\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )
    Path("/etc/apt/preferences.d/slurm-ray-lab-trixie").write_text(
        "Package: *\nPin: release n=trixie\nPin-Priority: -1\n\n"
        "Package: docker-compose docker-buildx\nPin: release n=trixie\nPin-Priority: 990\n"
    )


def _link_plugins() -> None:
    """A docker client from elsewhere may not search the folder of Debian's plugins."""
    for plugin in PLUGINS:
        found = [Path(folder, f"docker-{plugin}") for folder in PLUGIN_FOLDERS]
        source = next((path for path in found if path.exists()), None)
        if source and not _plugin_answers(plugin):
            CLIENT_FOLDER.mkdir(parents=True, exist_ok=True)
            link = CLIENT_FOLDER / f"docker-{plugin}"
            link.unlink(missing_ok=True)
            link.symlink_to(source)


def _start(say: Say) -> None:
    started = time.monotonic()
    pid = 0
    if Path("/run/systemd/system").is_dir():
        say("engine: starting docker.service")
        subprocess.run(["systemctl", "enable", "--now", "docker"], capture_output=True, timeout=START_S)
    elif not _running_dockerd():
        say(f"engine: no systemd here, starting dockerd (log: {LOG})")
        # not a Popen: those complain of a child that outlives its parent, as this one is meant to
        pid = os.posix_spawnp("dockerd", ["dockerd"], os.environ, setsid=True, file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ])  # fmt: skip
        MARKER.write_text(f"{pid}\n")
    while state := _engine_state():
        ended = pid and os.waitpid(pid, os.WNOHANG)[0]
        if ended or time.monotonic() - started > START_S:
            MARKER.unlink(missing_ok=True)
            raise LabError(f"the container engine does not start ({state})\n{_last_log_lines()}", f"look at {LOG}")
        time.sleep(0.2)
    say(f"engine: ready after {time.monotonic() - started:.1f} s")


def _running_dockerd() -> bool:
    """True when the pid file names a dockerd; a stale pid file is removed, dockerd refuses to start over it."""
    pid = _read_pid(PID_FILE)
    if pid is not None and _is_dockerd(pid):
        return True
    PID_FILE.unlink(missing_ok=True)
    return False


def _last_log_lines() -> str:
    if Path("/run/systemd/system").is_dir():
        command = ["journalctl", "-u", "docker", "-n", "8", "--no-pager", "-o", "cat"]
        lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    else:
        lines = LOG.read_text(errors="replace").splitlines()[-8:] if LOG.exists() else []
    return "\n".join(f"    {line}" for line in lines)


def _is_dockerd(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return "(dockerd)" in stat and ") Z " not in stat


def _read_pid(path: Path) -> int | None:
    try:
        return int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _require_root(what: str, hint: str) -> None:
    if os.geteuid() != 0:
        raise LabError(f"only root may {what}", hint)


def _user() -> str:
    return os.environ.get("USER") or str(os.geteuid())


def _os_release() -> dict[str, str]:
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return {}
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines)}
