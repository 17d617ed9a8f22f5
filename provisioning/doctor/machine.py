"""This machine: the engine, disk, memory, the dashboard's port, and whether the images are what images/ says."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from provisioning.cluster import run_local
from provisioning.doctor.finding import Finding
from provisioning.doctor.look import Look
from provisioning.errors import LabError

#: Below these a lab fails in ways that do not look like a full disk or a lack of memory.
DISK_GB = 2.0
MEMORY_MB_TO_RUN, MEMORY_MB_TO_START = 400, 2000
MEMORY_MB_IN_ALL = 3500


def engine(look: Look) -> Iterator[Finding]:
    """The engine and Compose answer. The rest is said by the error itself."""
    look.containers()
    done = run_local(["docker", "compose", "version"], timeout_s=10)
    if done.exit_code:
        yield Finding(
            "engine", f"`docker compose` does not answer: {done.last_lines}", "make up installs what is missing"
        )


def disk_findings(free_gb: dict[str, float]) -> Iterator[Finding]:
    """Folders by how much is free where they are."""
    for folder, free in free_gb.items():
        if free < DISK_GB:
            yield Finding("disk", f"{free:.1f} GB are free where {folder} is; the lab needs {DISK_GB:.0f}",
                          "free some: `docker system df` shows what the engine keeps, `docker builder prune` "
                          "removes what only building needs")  # fmt: skip


def disk(look: Look) -> Iterator[Finding]:
    """Room for images, volumes and logs."""
    done = run_local(["docker", "info", "--format", "{{json .DockerRootDir}}"], timeout_s=10)
    root = json.loads(done.stdout) if done.exit_code == 0 and done.stdout.strip() else ""
    folders = {str(look.cluster.settings.root), root} - {""}
    # an engine in a virtual machine or on another host names a folder that is not here
    yield from disk_findings({one: shutil.disk_usage(one).free / 1e9 for one in sorted(folders) if Path(one).is_dir()})


def memory_findings(meminfo: str, up: bool, killed: list[str]) -> Iterator[Finding]:
    """What /proc/meminfo says (empty where there is none), and who was killed for lack of memory."""
    rows = {line.partition(":")[0]: line.split() for line in meminfo.splitlines() if ":" in line}
    total, available = (int(rows[name][1]) // 1024 if name in rows else None for name in ("MemTotal", "MemAvailable"))
    needed = MEMORY_MB_TO_RUN if up else MEMORY_MB_TO_START
    if total is not None and total < MEMORY_MB_IN_ALL:
        yield Finding("memory", f"this machine has {total} MB; a lab wants {MEMORY_MB_IN_ALL}",
                      "LAB=ci is the smallest lab; a virtual machine can be given more memory")  # fmt: skip
    elif available is not None and available < needed:
        yield Finding("memory", f"{available} MB are free; the lab needs {needed} MB to {'run' if up else 'start'}",
                      "end other programs, or another lab (`docker ps` lists its containers, `make down PROJECT=` "
                      "ends it)")  # fmt: skip
    for service in killed:
        yield Finding(
            service,
            "it was killed because it used more memory than it may",
            f"make logs NODE={service}; give a job or a Ray task less to hold, then make down, make up",
        )


def memory(look: Look) -> Iterator[Finding]:
    """Enough memory, and nobody was killed for the lack of it."""
    path = Path("/proc/meminfo")
    killed = [service for service, row in look.inspected().items() if row["State"].get("OOMKilled")]
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    yield from memory_findings(text, bool(look.running()), killed)


def port(look: Look) -> Iterator[Finding]:
    """The dashboard answers where it should; while the lab is down, nobody else has its port."""
    cluster = look.cluster
    if not look.containers():
        from provisioning.up import refuse_taken_port

        refuse_taken_port(cluster)
        return
    if not look.running("ray-head"):
        return
    bound = look.inspected()["ray-head"]["NetworkSettings"]["Ports"].get("8265/tcp") or []
    published = [f"{one['HostIp']}:{one['HostPort']}" for one in bound]
    if cluster.dashboard not in published:
        where = published[0] if published else "nowhere"
        remedy = (f"DASHBOARD_PORT={where.rpartition(':')[2]} in front of every make, or make down and make up"
                  if published else "make down, then make up")  # fmt: skip
        yield Finding("port", f"Ray's dashboard is published at {where}, not at {cluster.dashboard}", remedy)
        return
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(f"http://{cluster.dashboard}/api/gcs_healthz", timeout=5).close()
    except urllib.error.HTTPError as error:
        error.close()  # it answers; whether it is well is for the checks of Ray
    except OSError as error:
        yield Finding("port", f"nothing answers at {cluster.dashboard}, Ray's dashboard: {error}",
                      "make logs NODE=ray-head; make down, then make up")  # fmt: skip


def image_findings(stale: list[str], old: list[str], line: str) -> Iterator[Finding]:
    """Images that are not what images/ says, and services that run an image from before."""
    if stale:
        yield Finding("images", f"missing or out of date for Slurm {line}: {', '.join(stale)}",
                      "make down, then make up, which builds them")  # fmt: skip
    if old:
        yield Finding("images", f"these run an image from before the last build: {', '.join(old)}",
                      "make down, then make up (queue, accounting and homes are kept)")  # fmt: skip


def images(look: Look) -> Iterator[Finding]:
    """Images fit what lies in images/, and the containers were made from them."""
    from provisioning.images import image_id, stale_images

    inspected = look.inspected()  # first: without an engine this says so, and no image could be asked for
    line = look.cluster.settings.slurm
    ids: dict[str, str] = {}
    old = []
    for service, row in inspected.items():
        name = row["Config"]["Image"]
        ids[name] = ids[name] if name in ids else image_id(name)
        if row["Image"] != ids[name]:
            old.append(service)
    yield from image_findings(stale_images(line), sorted(old), line)


def owner(look: Look) -> Iterator[Finding]:
    """The project is this lab's, of this checkout, with this Slurm."""
    from provisioning.up import refuse_other_owner

    look.containers()
    try:
        refuse_other_owner(look.cluster)
    except LabError as error:
        yield Finding(
            "project", error.what, f"name what runs: LAB=, SLURM=, PROJECT= in front of make; or {error.hint}"
        )
