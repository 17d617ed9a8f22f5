"""``make ray-scale N=4``: another number of Ray workers on a running lab.

The number holds for the project that runs: it stands in the generated Compose file, `make plan` shows it as a
difference from the YAML, and `make apply`, or `make down` and `make up`, take it back.
"""

from __future__ import annotations

import re
from dataclasses import replace

import yaml

from provisioning import ray_api
from provisioning.cluster import COMPOSE_FILE, Cluster
from provisioning.errors import LabError
from provisioning.lab import Lab, RayNodes
from provisioning.progress import Progress
from provisioning.ready import wait_ray
from provisioning.render.compose import compose_yaml, ray_worker_names
from provisioning.settings import Settings
from provisioning.up import refuse_other_owner
from provisioning.waiting import wait_for

#: As many as a YAML may ask for.
MOST: int = RayNodes.__dataclass_fields__["count"].metadata["bounds"][1]
READY_S = 120.0


def count_of(text: str) -> int:
    """The wanted number of workers. Raises LabError if it is none."""
    if not re.fullmatch(r"[0-9]{1,3}", text) or int(text) > MOST:
        raise LabError(f"N={text!r} is no number of Ray workers", f"make ray-scale N=4 (0 to {MOST})")
    return int(text)


def with_workers(lab: Lab, count: int) -> Lab:
    """The same lab with another number of Ray workers."""
    return replace(lab, ray=replace(lab.ray, workers=replace(lab.ray.workers, count=count)))


def scaled_compose(running: str, lab: Lab) -> str:
    """The Compose file of a running project with the Ray workers of this lab; all else stays as it is."""
    services = yaml.safe_load(running)["services"]
    names = ray_worker_names(lab)
    rendered = yaml.safe_load(compose_yaml(lab))["services"]
    kept = {name: one for name, one in services.items() if not name.startswith("ray-worker-")}
    workers = {name: services.get(name, rendered[name]) for name in names}
    return yaml.safe_dump({"services": kept | workers}, sort_keys=False, width=120)


def ray_scale(settings: Settings, text: str) -> int:
    """Change the number of workers and wait until Ray has that many. Raises LabError if it has not."""
    count = count_of(text)
    cluster = Cluster.open(settings)
    if not refuse_other_owner(cluster):
        raise LabError(f"the lab {settings.project} is not up", "make up")
    scaled = Cluster(settings, with_workers(cluster.lab, count))
    path = settings.generated / COMPOSE_FILE
    with Progress() as progress:
        # first the file: what is interrupted after it goes on from it, with the same command or with make up
        scaled.write_file(COMPOSE_FILE, scaled_compose(path.read_text(encoding="utf-8"), scaled.lab))
        containers = scaled.containers()
        wanted = scaled.ray_workers()
        new = [name for name in wanted if name not in containers or containers[name].state != "running"]
        surplus = [name for name in containers if name.startswith("ray-worker-") and name not in wanted]
        if new:
            progress.say("ray", f"starting {', '.join(new)}")
            scaled.compose("up", "--detach", "--no-build", "--no-deps", *new)
        if surplus:
            progress.say("ray", f"stopping {', '.join(surplus)}")
            scaled.remove(surplus)
        wait_ray(scaled, progress, READY_S)
        wait_for("Ray workers that are to go", lambda: sorted({*surplus} & {*ray_api.alive_nodes(scaled)}),
                 lambda left: not left, timeout_s=30, show=", ".join, look_at="make logs NODE=ray-head")  # fmt: skip
        if count != cluster.lab.ray.workers.count:
            said = cluster.lab.ray.workers.count
            progress.say("note", f"the YAML says {said}: make plan shows it, make apply goes back to it")
    return 0
