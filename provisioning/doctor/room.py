"""Room in the lab's volumes: a full one does not look like a full disk from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from provisioning.cluster import run_local
from provisioning.doctor.finding import Finding
from provisioning.doctor.look import Look
from provisioning.errors import LabError
from provisioning.images import image_name
from provisioning.old_state import volumes
from provisioning.settings import Settings

#: A file system with room for fewer files than this is full too.
ROOM_FILES = 64


@dataclass(frozen=True)
class Volume:
    """A volume by its name in compose.yaml, where ``service`` has it, with how much room daemons do not fail, and what
    does not work with less."""

    name: str
    service: str
    folder: str
    room_mb: int
    while_full: str


VOLUMES = (
    Volume("db", "db", "/var/lib/mysql", 16, "accounting stands still; slurmctld keeps its records meanwhile"),
    Volume("slurmctld", "slurmctld", "/var/spool/slurmctld", 2, "batch jobs are refused, and the queue is not saved: "
           "what has changed since is lost if slurmctld ends now"),
    Volume("home", "login", "/home", 2, "jobs whose output goes there fail"),
    Volume("scratch", "login", "/scratch", 2, "jobs that write there fail"),
    Volume("ray", "ray-head", "/var/lib/ray/gcs", 8, "Ray's head ends when it cannot save its state"),
    Volume("ray-session", "ray-head", "/tmp/ray", 8, "Ray writes no logs, and its jobs do not start"),
)  # fmt: skip


def room_findings(project: str, rooms: Mapping[str, tuple[int, int]]) -> Iterator[Finding]:
    """``rooms`` are bytes and files that still fit, by the volume's name."""
    for one in VOLUMES:
        if one.name not in rooms:
            continue
        size, files = rooms[one.name]
        if size >= one.room_mb << 20 and files >= ROOM_FILES:
            continue
        left = f"{size >> 20} MB" if size < one.room_mb << 20 else f"{files} files"
        remove = (f"remove what is not needed: make shell AS=root, there du -xsh {one.folder}/*; "
                  if one.service == "login" else "")  # fmt: skip
        yield Finding(one.service, f"its volume {project}_{one.name} ({one.folder}) is full, {left} are left: "
                      f"{one.while_full}", f"{remove}make room where the volume lies: docker volume inspect "
                      f"{project}_{one.name}, docker system df; then it goes on by itself")  # fmt: skip


def rooms(settings: Settings) -> dict[str, tuple[int, int]]:
    """Bytes and files that still fit, by the volume's name. Seen from a container of its own, since a daemon whose
    volume is full may not run; see stat(1), -f. Raises LabError if the engine does not run it."""
    there = {name.removeprefix(f"{settings.project}_") for name in volumes(settings)}
    known = [one.name for one in VOLUMES if one.name in there]
    if not known:
        return {}
    mounts = [word for name in known for word in ("--volume", f"{settings.project}_{name}:/room/{name}:ro")]
    argv = ["docker", "run", "--rm", "--network", "none", *mounts, image_name("slurm", settings.slurm),
            "stat", "--file-system", "--format", "%n %a %S %d %c", *(f"/room/{name}" for name in known)]  # fmt: skip
    done = run_local(argv, timeout_s=30)
    if done.exit_code:
        raise LabError(f"the volumes cannot be looked into: {done.last_lines}", "docker system df; make images")
    found = {}
    for line in done.stdout.splitlines():
        path, blocks, size, free_files, files = line.split()
        # a file system without a number of files of its own has room for any number
        found[path.removeprefix("/room/")] = (int(blocks) * int(size), int(free_files) if int(files) else ROOM_FILES)
    return found


def room(look: Look) -> Iterator[Finding]:
    """No volume is full."""
    look.containers()  # first: without an engine this says so
    yield from room_findings(look.cluster.settings.project, rooms(look.cluster.settings))
