"""The Compose services that follow from the YAML: a node each, a Ray worker each, the Ray head's resources.

And the names under which a container stands in for nodes that do not run.
"""

from __future__ import annotations

import json

import yaml

from provisioning import slurmtypes
from provisioning.lab import Lab, RayNodes
from provisioning.render.gres_conf import gpu_devices

#: The hand-written templates, as seen from Compose's project directory, compose/.
TEMPLATES = "templates.yaml"


def node_names(lab: Lab) -> list[str]:
    """All node names, in the order of the YAML."""
    return [name for nodes in lab.nodes for name in slurmtypes.expand_hosts(nodes.name)]


def ray_worker_names(lab: Lab) -> list[str]:
    """Services of the Ray workers."""
    return [f"ray-worker-{number}" for number in range(1, lab.ray.workers.count + 1)]


def _bytes(memory: str) -> str:
    return str(slurmtypes.parse_memory_mb(memory) * 1024 * 1024)


def _amount(text: str) -> float:
    return float(text)


def ray_environment(nodes: RayNodes) -> dict[str, str]:
    """What ``ray start`` is told to offer: everything explicitly, since Ray would count the host's."""
    return {
        "LAB_RAY_CPUS": str(nodes.cpus),
        "LAB_RAY_GPUS": str(nodes.gpus),
        "LAB_RAY_MEMORY": _bytes(nodes.memory),
        "LAB_RAY_OBJECT_STORE": _bytes(nodes.object_store_memory),
        "LAB_RAY_RESOURCES": json.dumps({name: _amount(text) for name, text in nodes.resources.items()}),
        "LAB_RAY_LABELS": ",".join(f"{name}={text}" for name, text in nodes.labels.items()),
    }


def compose_yaml(lab: Lab) -> str:
    """The generated Compose file of a lab."""
    services: dict[str, dict[str, object]] = {}
    for nodes in lab.nodes:
        for name in slurmtypes.expand_hosts(nodes.name):
            services[name] = {
                "extends": {"file": TEMPLATES, "service": "node"},
                "hostname": name,
                "environment": {"LAB_GPU_DEVICES": str(gpu_devices(nodes))},
            }
    services["absent"] = {
        "environment": {"LAB_NODES": ",".join(nodes.name for nodes in lab.nodes)},
        "networks": {"lab": {"aliases": [f"{name}.absent" for name in node_names(lab)]}},
    }
    services["ray-head"] = {"environment": ray_environment(lab.ray.head)}
    for name in ray_worker_names(lab):
        services[name] = {
            "extends": {"file": TEMPLATES, "service": "ray-worker"},
            "hostname": name,
            "environment": ray_environment(lab.ray.workers),
        }
    return yaml.safe_dump({"services": services}, sort_keys=False, width=120)
