"""The only door to the containers of a lab: run a command in one, list them, drive Docker Compose."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from provisioning.errors import LabError
from provisioning.files import write_whole
from provisioning.hostzone import zone_of
from provisioning.lab import FIXED_SERVICES, Lab
from provisioning.load import load_lab
from provisioning.render import render
from provisioning.render.compose import node_names, ray_worker_names
from provisioning.render.users import GID
from provisioning.secretfiles import RAY_TOKEN
from provisioning.settings import Settings

PROJECT_LABEL = "com.docker.compose.project"
SERVICE_LABEL = "com.docker.compose.service"
#: The generated Compose file, below compose/generated/PROJECT/.
COMPOSE_FILE = "compose.yaml"
#: At Ctrl-C a command that has begun may come to its end within so many seconds: half of what changes a lab is worse.
END_S, CHANGE_END_S = 5.0, 90.0


@dataclass(frozen=True)
class Result:
    """What a command left: exit status and both outputs."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def last_lines(self) -> str:
        """The end of what it said, errors first, for a message of one line."""
        text = self.stderr.strip() or self.stdout.strip()
        return " | ".join(text.splitlines()[-3:])


@dataclass(frozen=True)
class Container:
    """One container of the project. ``state`` is Docker's word, ``health`` is empty without a health check."""

    service: str
    name: str
    state: str
    health: str
    image: str
    labels: Mapping[str, str]


def run_local(argv: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: str | None = None,
              timeout_s: float = 60, end_s: float = END_S) -> Result:  # fmt: skip
    """Run a command on the host. Raises LabError if it cannot start or does not end within ``timeout_s``.

    It has a session of its own: a terminal's Ctrl-C does not reach it, and it has ``end_s`` to come to its end then.
    """
    try:
        # without input of its own a command must not read the caller's terminal
        child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                 start_new_session=True)  # fmt: skip
    except FileNotFoundError as error:
        raise LabError(f"{argv[0]} is not installed", "make up installs what the lab needs") from error
    try:
        out, err = child.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise LabError(
            f"{shlex.join(argv)[:200]}: no answer within {timeout_s:.0f} s", "make status, make logs"
        ) from error
    except KeyboardInterrupt:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=end_s)
        raise
    finally:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)  # docker's plugins too
            child.communicate()
    return Result(child.returncode, out, err)


class Cluster:
    """One lab, running or not, under one project name."""

    def __init__(self, settings: Settings, lab: Lab) -> None:
        """Nothing is asked or started here."""
        self.settings = settings
        self.lab = lab

    @classmethod
    def open(cls, settings: Settings | None = None) -> Cluster:
        """The cluster of the settings' lab (those of the environment if none are given). Raises LabInvalid."""
        settings = settings or Settings.from_env()
        return cls(settings, load_lab(settings.lab))

    # -- what the lab consists of

    # A lab that was started has the services that its Compose file names until apply, ray-scale or a new start
    # changes them; what the YAML says by now may differ.

    def nodes(self) -> list[str]:
        """Names of the Slurm nodes, in the order of the YAML."""
        made = self._made_from("node")
        return node_names(self.lab) if made is None else made

    def ray_workers(self) -> list[str]:
        """Services of the Ray workers."""
        made = self._made_from("ray-worker")
        return ray_worker_names(self.lab) if made is None else made

    def services(self) -> list[str]:
        """All services of the lab."""
        return [*FIXED_SERVICES, *self.nodes(), *self.ray_workers()]

    def _made_from(self, template: str) -> list[str] | None:
        """Services of the project's Compose file that extend a template; None if the lab was never started."""
        path = self.settings.generated / COMPOSE_FILE
        if not path.is_file():
            return None
        services = yaml.safe_load(path.read_text(encoding="utf-8"))["services"]
        return [name for name, one in services.items() if one.get("extends", {}).get("service") == template]

    @property
    def dashboard(self) -> str:
        """Address of Ray's dashboard on the host, ``address:port``."""
        given = self.settings.dashboard or self.lab.ports.dashboard
        return given if ":" in given else f"127.0.0.1:{given}"

    # -- files

    def stale_files(self) -> list[str]:
        """Paths (below the generated folder) of rendered files that differ from what lies there."""
        return [path for path, text in render(self.lab).items() if not self._same(self.settings.generated / path, text)]

    @staticmethod
    def _same(path: Path, text: str) -> bool:
        return path.is_file() and path.read_text(encoding="utf-8") == text

    def write_files(self) -> list[str]:
        """Render what differs and return its paths. Readable for everybody: containers read them as several users."""
        changed = self.stale_files()
        texts = render(self.lab)
        for name in changed:
            self.write_file(name, texts[name])
        return changed

    def write_file(self, name: str, text: str) -> None:
        """Put one rendered file in its place, whole or not at all."""
        path = self.settings.generated / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)

    def ray_token(self) -> str:
        """The token that Ray's APIs ask for. Raises LabError if the lab was never started."""
        path = self.settings.generated / "secrets" / RAY_TOKEN
        if not path.is_file():
            raise LabError(f"the lab {self.settings.project} has no Ray token yet", "make up")
        return path.read_text(encoding="utf-8").strip()

    # -- Docker

    def container_name(self, service: str) -> str:
        """Compose's name of a service's container."""
        return f"{self.settings.project}-{service}-1"

    def as_user(self, user: str) -> list[str]:
        """Options of ``docker exec`` for a user of the lab, or of the image.

        Docker looks names up in /etc/passwd alone, where the lab's users are not, and sets no environment for them.
        """
        for one in self.lab.users:
            if one.name == user:
                home = f"/home/{user}"
                return ["--user", f"{one.uid}:{GID}", "--env", f"HOME={home}", "--env", f"USER={user}",
                        "--env", f"LOGNAME={user}"]  # fmt: skip
        return ["--user", user]

    def exec(self, service: str, argv: Sequence[str], *, user: str = "root", workdir: str | None = None,
             env: Mapping[str, str] | None = None, stdin: str | None = None, timeout_s: float = 60,
             check: bool = True) -> Result:  # fmt: skip
        """Run a command in a service's container.

        With ``check`` raises LabError naming the command, its exit status and its last lines if it fails.
        """
        command = ["docker", "exec", *self.as_user(user)]
        if stdin is not None:
            command.append("--interactive")
        if workdir:
            command += ["--workdir", workdir]
        for name, value in (env or {}).items():
            command += ["--env", f"{name}={value}"]
        result = run_local([*command, self.container_name(service), *argv], stdin=stdin, timeout_s=timeout_s)
        if check and result.exit_code:
            raise LabError(
                f"{service}: {shlex.join(argv)[:200]}: exit status {result.exit_code}: {result.last_lines}",
                f"make logs NODE={service}",
            )
        return result

    def compose(self, *args: str, generated: Path | None = None, timeout_s: float = 300, check: bool = True) -> Result:
        """Run docker compose on the lab's files (or another generated one). With ``check`` a failure is a LabError."""
        folder = self.settings.root / "compose"
        result = run_local(
            ["docker", "compose", "--ansi", "never", "-p", self.settings.project, "--project-directory", str(folder),
             "-f", str(folder / "compose.yaml"), "-f", str(generated or self.settings.generated / COMPOSE_FILE), *args],
            env={**os.environ, **self.compose_environment()}, timeout_s=timeout_s, end_s=CHANGE_END_S,
        )  # fmt: skip
        if check and result.exit_code:
            raise LabError(f"docker compose {args[0]}: {result.last_lines}", _compose_hint(result.stderr))
        return result

    def compose_environment(self) -> dict[str, str]:
        """The variables of the Compose files."""
        return {
            "LAB_NAME": self.lab.name,
            "LAB_SLURM": self.settings.slurm,
            "LAB_GENERATED": str(self.settings.generated),
            "LAB_DASHBOARD": self.dashboard,
            "LAB_TZ": zone_of(self.lab.timezone),
            "LAB_CHECKOUT": str(self.settings.root),
        }

    def containers(self) -> dict[str, Container]:
        """The project's containers by service, running or not. Raises LabError if the engine does not answer."""
        return list_containers(self.settings.project)

    def inspect(self) -> dict[str, dict[str, Any]]:
        """Docker's whole record of each of the project's containers, by service."""
        containers = self.containers()
        if not containers:
            return {}
        done = run_local(["docker", "inspect", *(one.name for one in containers.values())], timeout_s=20)
        rows = json.loads(done.stdout or "[]")  # one that has gone meanwhile is only left out
        return {row["Config"]["Labels"][SERVICE_LABEL]: row for row in rows}

    def read_file(self, service: str, path: str) -> str:
        """A small file of a container, its volumes included, running or not. Raises LabError without it."""
        with tempfile.TemporaryDirectory(prefix="slurm-ray-lab-") as folder:
            copy = Path(folder, "file")
            done = run_local(["docker", "cp", f"{self.container_name(service)}:{path}", str(copy)], timeout_s=20)
            if done.exit_code:
                raise LabError(f"{service}: {path} cannot be read: {done.last_lines}", f"make logs NODE={service}")
            return copy.read_text(encoding="utf-8", errors="replace")

    def remove(self, services: Iterable[str]) -> None:
        """Stop containers within their grace and remove them. Raises LabError if one is left."""
        containers = self.containers()
        remove_containers(containers[service].name for service in services if service in containers)

    def kill(self, service: str) -> None:
        """Kill a service's container as a machine dies that loses its power; the engine does not start it again."""
        self._signal("kill", service)

    def start(self, service: str) -> None:
        """Start a container that was stopped or killed; one that runs is left alone."""
        self._signal("start", service)

    def _signal(self, verb: str, service: str) -> None:
        done = run_local(["docker", verb, self.container_name(service)], timeout_s=60, end_s=CHANGE_END_S)
        if done.exit_code:
            raise LabError(f"{service}: docker {verb}: {done.last_lines}", "make status")

    def log_tail(self, service: str, lines: int = 8) -> str:
        """The last lines of a service's log."""
        result = run_local(["docker", "logs", "--tail", str(lines), self.container_name(service)], timeout_s=10)
        return (result.stdout + result.stderr).strip()


def list_containers(project: str) -> dict[str, Container]:
    """A project's containers by service, running or not. Raises LabError if the engine does not answer."""
    return {one.service: one for one in all_containers(project)}


def all_containers(project: str) -> list[Container]:
    """The same, with the second container that a service may have after a start that was broken off."""
    import docker  # a third of a second: only when it is needed
    import docker.errors
    import requests

    try:
        _connect_once()
        with contextlib.closing(docker.from_env(timeout=30)) as client:
            rows = client.api.containers(all=True, filters={"label": f"{PROJECT_LABEL}={project}"})
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        denied = "ermission denied" in str(error)
        hint = "usermod -aG docker $USER, then log in again" if denied else "make up starts it"
        raise LabError(f"the container engine does not answer: {error}", hint) from error
    found = []
    for row in rows:
        labels, status = row["Labels"], row["Status"]
        health = status.rpartition("(")[2].rstrip(")").removeprefix("health: ") if "(" in status else ""
        found.append(Container(labels.get(SERVICE_LABEL, ""), row["Names"][0].lstrip("/"), row["State"],
                               health if row["State"] == "running" else "", row["Image"], labels))  # fmt: skip
    return found


def remove_containers(names: Iterable[str], grace_s: int = 15) -> None:
    """Stop containers within their grace and remove them, with the volumes that have no name, such as that of /tmp.

    Compose keeps those, and nobody finds them again. It also hands them on to the container that replaces another, by
    their numbers: the engine then no longer takes them for nameless. Raises LabError if something is left.
    """
    if not (found := list(names)):
        return
    mounts = run_local(["docker", "inspect", "-f", "{{range .Mounts}}{{.Name}} {{end}}", *found], timeout_s=30)
    nameless = [name for name in mounts.stdout.split() if re.fullmatch("[0-9a-f]{64}", name)]
    run_local(["docker", "stop", "--time", str(grace_s), *found], timeout_s=180, end_s=CHANGE_END_S)
    removed = run_local(["docker", "rm", "--force", "--volumes", *found], timeout_s=120, end_s=CHANGE_END_S)
    if removed.exit_code:
        raise LabError(f"containers are left: {removed.last_lines}", "the same command again")
    if nameless:
        removed = run_local(["docker", "volume", "rm", "--force", *nameless], timeout_s=120, end_s=CHANGE_END_S)
        if removed.exit_code:
            raise LabError(f"volumes are left: {removed.last_lines}", "docker volume prune")


def remove_networks(project: str) -> dict[str, list[str]]:
    """Remove a project's networks once its containers are gone; those that stay, with whose containers use them.

    One that stays without any is a mistake of the engine, which has miscounted what was attached ("has active
    endpoints", moby issue 17217): it finds out at its next start. Until then nothing can remove the network, and the
    project's next start takes it as it is.
    """
    listing = ["docker", "network", "ls", "--format", "{{.Name}}", "--filter", f"label={PROJECT_LABEL}={project}"]
    if not (names := run_local(listing).stdout.split()):
        return {}
    run_local(["docker", "network", "rm", *names], timeout_s=60, end_s=CHANGE_END_S)
    users = ["docker", "network", "inspect", "-f", "{{range .Containers}}{{.Name}} {{end}}"]
    return {name: run_local([*users, name]).stdout.split() for name in run_local(listing).stdout.split()}


def _connect_once() -> None:
    """Raise OSError if nobody listens on the engine's socket: docker's own client would leave its end of it open."""
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(10)
            probe.connect(host.removeprefix("unix://"))


def _compose_hint(stderr: str) -> str:
    """The next step for what Compose said."""
    if "port is already allocated" in stderr or "address already in use" in stderr:
        return "another program has the port: DASHBOARD_PORT=8266 make up"
    if "no space left" in stderr:
        return "free some disk space: docker system df"
    if "No such image" in stderr or "pull access denied" in stderr or "not found" in stderr:
        return "an image is missing: make images builds them"
    return "make logs, make status"
