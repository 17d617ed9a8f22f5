"""Runs inside a container, on standard input of ``python3 -``: what its processes see of the GPUs, as one line of JSON.

Standard library only; root may lack the right to look into other people's processes, so a child looks at each user's
as that user. CUDA_VISIBLE_DEVICES is read twice: /proc/PID/environ tells what a process was started with, and its
memory what it has now (Ray sets the variable in workers that run already). Memory is readable for processes of the
same Python as this one, and not where the host forbids it (kernel.yama.ptrace_scope); then ``now`` is missing.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GPUS = "CUDA_VISIBLE_DEVICES"
WANTED = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_GPUS")


def mappings(pid: str) -> list[tuple[int, int, str]]:
    """The mapped areas of a process: first and last address, and the file."""
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        first, last = (int(part, 16) for part in fields[0].split("-"))
        found.append((first, last, fields[5] if len(fields) > 5 else ""))
    return found


def place_of_environ() -> tuple[str, int]:
    """Where this Python keeps C's ``environ``: a file, and the distance from its first address."""
    address = ctypes.addressof(ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ"))
    areas, name = mappings("self"), ""
    for first, last, path in areas:
        name = path or name  # data without a file of its own follows its program's
        if first <= address < last:
            return name, address - min(area[0] for area in areas if area[2] == name)
    raise OSError("environ is nowhere")


def environment_now(pid: str, place: tuple[str, int]) -> dict[str, str]:
    """The environment of a running process of this Python."""
    base = min((first for first, _, path in mappings(pid) if path == place[0]), default=None)
    if base is None or Path(f"/proc/{pid}/exe").readlink() != Path("/proc/self/exe").readlink():
        raise OSError("not this Python")
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:

        def word(address: int) -> int:
            memory.seek(address)
            return int.from_bytes(memory.read(8), "little")

        def text(address: int) -> bytes:
            found = b""
            while b"\0" not in found:
                memory.seek(address + len(found))
                found += memory.read(256) or b"\0"
            return found.partition(b"\0")[0]

        array, lines = word(base + place[1]), []
        while pointer := word(array):
            lines.append(text(pointer).decode(errors="replace"))
            array += 8
    return dict(line.partition("=")[::2] for line in lines)


def environment_at_start(pid: str) -> dict[str, str]:
    """The environment that a process was started with; empty for those that write their title over it."""
    text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    return dict(line.partition("=")[::2] for line in text.split("\0") if "=" in line)


def option(command: list[str], name: str) -> str:
    """The value of ``--name=value``."""
    return next((part.partition("=")[2] for part in command if part.startswith(f"--{name}=")), "")


def ask(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """What the Ray cluster of this dashboard process believes: its nodes, and the GPUs of each worker process."""
    where = option(command, "host").replace("0.0.0.0", "127.0.0.1")
    stale_s = float(environment.get("NODE_STATS_UPDATE_INTERVAL_SECONDS", 15))
    token = environment.get("RAY_AUTH_TOKEN", "")
    answer: dict[str, Any] = {"gcs": option(command, "gcs-address"), "stale_s": stale_s, "nodes": None}
    try:
        if not token and environment.get("RAY_AUTH_TOKEN_PATH"):
            token = Path(environment["RAY_AUTH_TOKEN_PATH"]).read_text().strip()
        request = urllib.request.Request(f"http://{where}:{option(command, 'port')}/nodes?view=summary",
                                         headers={"Authorization": f"Bearer {token}"} if token else {})  # fmt: skip
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as reply:
            summary = json.load(reply)["data"]["summary"]
    except (OSError, ValueError, KeyError) as error:
        return answer | {"error": str(error)}
    nodes = {}
    for raylet in (row.get("raylet", {}) for row in summary):
        if raylet.get("state") == "ALIVE":
            rows = [worker for worker in raylet.get("coreWorkersStats", []) if worker.get("workerType") == "WORKER"]
            workers = {str(worker["pid"]): [slots(worker.get("usedResources") or {}), task(worker)] for worker in rows}
            nodes[raylet["nodeId"]] = {"gpus": int(raylet.get("resourcesTotal", {}).get("GPU", 0)), "workers": workers}
    return answer | {"nodes": nodes}


def task(worker: dict[str, Any]) -> str:
    """What a worker is at: its actor, or the number of tasks it has begun."""
    actor = str(worker.get("actorId", ""))
    return actor if actor.strip("f") else str(worker.get("numExecutedTasks", ""))


def slots(used: dict[str, Any]) -> list[int]:
    """The GPUs of one worker, by their number within the node; those of a placement group's bundle too."""
    names = [name for name in used if re.match(r"GPU($|_?[gG]roup)", name)]
    found = [int(slot["slot"]) for name in names for slot in used[name].get("resourceSlots", [])
             if float(slot.get("allocation", 0)) > 0]  # fmt: skip
    return sorted(set(found))


def look_at(pid: str, place: tuple[str, int]) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
    """One process, and what its Ray says if it is a dashboard; None if it has gone or is not to be seen."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        start = environment_at_start(pid)
    except OSError:
        return None
    after_name = stat.rpartition(")")[2].split()
    if after_name[0] in "ZX":
        return None
    try:
        now: dict[str, str] | None = environment_now(pid, place)
    except (OSError, ValueError, OverflowError):
        now = None
    environment = start or now or {}
    seen: dict[str, Any] = {"pid": int(pid), "ppid": int(after_name[1]), "started": after_name[19],
                            "title": " ".join(command)[:60] or stat[stat.index("(") + 1 : stat.rindex(")")],
                            "start": environment.get(GPUS)}  # fmt: skip
    seen |= {name: environment[name] for name in WANTED if name in environment}
    if now is not None:
        seen["now"] = now.get(GPUS)
    program = command[0].rpartition("/")[2]
    if program == "raylet":
        total = re.search(r"(?:^|,)GPU,([\d.]+)", option(command, "static_resource_list"))
        seen["raylet"] = {"node": option(command, "node_id"), "gcs": option(command, "gcs-address"),
                          "gpus": int(float(total[1])) if total else 0}  # fmt: skip
    elif program == "srun":
        seen["srun"] = True
    is_dashboard = any(part.endswith("/dashboard/dashboard.py") for part in command)
    return seen, ask(command, environment) if is_dashboard else None


def by_owner() -> Iterator[tuple[tuple[int, int], list[str]]]:
    """Process ids by user and group."""
    owners: dict[tuple[int, int], list[str]] = {}
    for pid in [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        ids = [re.search(rf"^{name}:\s+(\d+)", status, re.M) for name in ("Uid", "Gid")]
        if all(ids) and int(pid) != os.getpid():
            owners.setdefault((int(ids[0][1]), int(ids[1][1])), []).append(pid)  # type: ignore[index]
    yield from owners.items()


def as_owner(user: int, group: int, pids: list[str], place: tuple[str, int]) -> dict[str, Any]:
    """Look at one owner's processes, from a child process with that owner's rights."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        if os.getuid() != user:
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
        found = [seen for seen in (look_at(pid, place) for pid in pids) if seen]
        answer = {"processes": [{"uid": user, **one} for one, _ in found], "clusters": [two for _, two in found if two]}
        with os.fdopen(writer, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return dict(json.loads(text))


def main() -> None:
    """Print what was found."""
    place = place_of_environ()
    whole: dict[str, list[Any]] = {"processes": [], "clusters": []}
    for (user, group), pids in by_owner():
        for name, rows in as_owner(user, group, pids, place).items():
            whole[name] += rows
    print(json.dumps(whole))


if __name__ == "__main__":
    main()
