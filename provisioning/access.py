"""Ways into a running lab: a shell, the logs, the dashboard and its token."""

from __future__ import annotations

import os
import subprocess
import sys

from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.settings import Settings


def _running(cluster: Cluster, service: str) -> None:
    containers = cluster.containers()
    if service not in cluster.services():
        raise LabError(f"the lab has no service {service!r}", f"one of: {', '.join(cluster.services())}")
    if service not in containers:
        raise LabError(f"{service} of the lab {cluster.settings.project} is not up", "make up")


def shell(settings: Settings, user: str, node: str) -> int:
    """An interactive login shell as a user of the lab (or root). The shell's exit status is handed on."""
    cluster = Cluster.open(settings)
    names = [one.name for one in cluster.lab.users]
    if user not in [*names, "root"]:
        raise LabError(f"the lab has no user {user!r}", f"one of: {', '.join([*names, 'root'])}")
    _running(cluster, node)
    terminal = ["--tty"] if sys.stdin.isatty() else []
    home = "/root" if user == "root" else f"/home/{user}"
    command = ["docker", "exec", "--interactive", *terminal, *cluster.as_user(user), "--workdir", home]
    command += [cluster.container_name(node), "bash", "--login"]
    return subprocess.run(command, check=False).returncode


def logs(settings: Settings, node: str, since: str, lines: str) -> int:
    """The last lines of one service's log, or of all; ``since`` such as 10m. Never follows, so it always ends."""
    cluster = Cluster.open(settings)
    if node:
        _running(cluster, node)
    elif not cluster.containers():
        raise LabError(f"the lab {settings.project} is not up", "make up")
    if lines != "all" and not lines.isdigit():
        raise LabError(f"LINES={lines!r} is no number of lines", "LINES=200, or LINES=all")
    options = ["--no-color", "--tail", lines, *(["--since", since] if since else [])]
    result = cluster.compose("logs", *options, *([node] if node else []), check=False)
    if result.exit_code:
        raise LabError(f"logs: {result.last_lines}", "SINCE is a time such as 10m or 2026-01-31T10:00:00")
    sys.stdout.write(result.stdout.replace("\x1b[2K", ""))  # Compose clears the line although nobody has a terminal
    return 0


def token(settings: Settings) -> int:
    """Print Ray's token, for the dashboard's question and for clients."""
    print(Cluster.open(settings).ray_token())
    return 0


def dashboard(settings: Settings) -> int:
    """Print the dashboard's address, and open it in a browser where there is a display."""
    cluster = Cluster.open(settings)
    cluster.ray_token()
    print(f"http://{cluster.dashboard}   (it asks for a token: make token prints it)")
    if os.environ.get("DISPLAY") or sys.platform == "darwin":
        import webbrowser

        webbrowser.open(f"http://{cluster.dashboard}")
    return 0
