"""The standing Ray set's API, asked from the host through the dashboard's published port and with the lab's token."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

from provisioning.cluster import Cluster
from provisioning.errors import LabError


def get(cluster: Cluster, path: str, *, timeout_s: float = 5) -> Any:
    """The JSON answer of one GET request. Raises LabError if there is none.

    Without nocache=1 the dashboard may say again what it told the last one who asked, however long ago.
    """
    return _ask(cluster, f"{path}{'&' if '?' in path else '?'}nocache=1", None, timeout_s)


def post(cluster: Cluster, path: str, body: Any, *, timeout_s: float = 5) -> Any:
    """The JSON answer of one POST request. Raises LabError if there is none, although Ray may have acted."""
    return _ask(cluster, path, json.dumps(body).encode(), timeout_s)


def _ask(cluster: Cluster, path: str, body: bytes | None, timeout_s: float) -> Any:
    headers = {"Authorization": f"Bearer {cluster.ray_token()}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{cluster.dashboard}{path}", body, headers)
    # the dashboard is on this host: a proxy of the environment must not be asked
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return json.load(answer)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise LabError(f"Ray's dashboard at {cluster.dashboard}{path}: {error}", "make logs NODE=ray-head") from error


def alive_nodes(cluster: Cluster) -> dict[str, dict[str, float]]:
    """Total resources of every Ray node that is alive, by its host name."""
    answer = get(cluster, "/nodes?view=summary")
    found = {}
    for node in answer["data"]["summary"]:
        raylet = node.get("raylet", {})
        if raylet.get("state") == "ALIVE":
            found[node.get("hostname") or raylet.get("nodeManagerHostname", "?")] = raylet.get("resourcesTotal", {})
    return found
