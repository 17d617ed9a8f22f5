#!/usr/bin/env python3
"""What waits, and will it ever run?          python3 ray_why.py [--cancel JOB]

Ray never refuses work that is too large: it waits for a node that might be added one day, and here that is for ever.
(A submitted job is given up after 15 minutes.) What to expect: one JSON line for each thing that waits, and no line if
nothing does.

    what   a submitted job, an actor, a task or a placement group
    asks   what it asks for; of a placement group one entry a bundle
    ever   false: no node is large enough, or there are too few; waiting is no use
           true: it fits, and runs once others have given back what they hold
    why    the reason, in words

Demands of placement groups are the ones that `ray status` lists, up to 5 s old; the others are as of now.

`ray job stop` has no effect on a job that has not started, and `ray job delete` refuses it. --cancel ends it: it kills
the actor that would run the job, which makes the job FAILED.
"""

import argparse
import json
import os
import urllib.parse
import urllib.request
from pathlib import Path

SUPERVISOR, SUPERVISORS = "_ray_internal_job_actor_", "SUPERVISOR_ACTOR_RAY_NAMESPACE"


def get(path, **filters):
    """An answer of Ray's REST API; filters are conditions that a row must meet."""
    query = [("detail", "1"), ("limit", "1000")]
    for key, value in filters.items():
        query += [("filter_keys", key), ("filter_predicates", "="), ("filter_values", value)]
    address = os.environ["RAY_API_SERVER_ADDRESS"]
    token = Path(os.environ["RAY_AUTH_TOKEN_PATH"]).read_text().strip()
    url = f"{address}{path}?{urllib.parse.urlencode(query)}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)["data"]


def rows(kind, **filters):
    """Rows of the state API: nodes, actors or tasks."""
    return get(f"/api/v0/{kind}", **filters)["result"]["result"]


def fits(asked, node):
    """Whether a node that holds nothing else has all of it."""
    return all(node.get(name, 0) >= amount for name, amount in asked.items())


def words(asked):
    """{"GPU": 9.0} as "9 GPU"."""
    return ", ".join(f"{amount:g} {name}" for name, amount in asked.items())


def why_not(asked, nodes):
    """Why no node can ever have this, or an empty text."""
    if any(fits(asked, node) for node in nodes):
        return ""
    largest = {name: max((node.get(name, 0) for node in nodes), default=0) for name in asked}
    over = {name: amount for name, amount in asked.items() if amount > largest[name]}
    if over:
        return f"no node has {words(over)}; the most is {words({name: largest[name] for name in over})}"
    return f"no node has all of {words(asked)} together"


def why_group_not(bundles, strategy, nodes):
    """The same for a placement group. An empty text does not promise that all bundles fit beside each other."""
    for bundle in bundles:
        if reason := why_not(bundle, nodes):
            return reason
    total = {name: sum(bundle.get(name, 0) for bundle in bundles) for name in {key for one in bundles for key in one}}
    if strategy == "STRICT_PACK" and (reason := why_not(total, nodes)):
        return f"all bundles on one node: {reason}"
    able = sum(any(fits(bundle, node) for bundle in bundles) for node in nodes)
    if strategy == "STRICT_SPREAD" and len(bundles) > able:
        return f"{len(bundles)} bundles on as many nodes: there are {able} that are large enough"
    pool = {name: sum(node.get(name, 0) for node in nodes) for name in total}
    return why_not(total, [pool]).replace("no node has", "all nodes together have less than")


def waiting():
    """Everything that waits for resources, with its verdict."""
    nodes = [node["resources_total"] for node in rows("nodes", state="ALIVE")]
    for actor in rows("actors", state="PENDING_CREATION"):
        name = actor["name"] or actor["class_name"]
        what = f"job {name.removeprefix(SUPERVISOR)}" if name.startswith(SUPERVISOR) else f"actor {name}"
        yield what, actor["required_resources"], why_not(actor["required_resources"], nodes)
    for task in rows("tasks", state="PENDING_NODE_ASSIGNMENT", type="NORMAL_TASK"):
        yield f"task {task['name']}", task["required_resources"], why_not(task["required_resources"], nodes)
    report = get("/api/cluster_status")["clusterStatus"]["loadMetricsReport"]
    for group, count in report["pgDemand"]:
        bundles = [bundle for bundle, number in group["bundles"] for _ in range(int(number))]
        title = f"placement group {group['strategy']}" + (f", {count} of it" if count > 1 else "")
        yield title, bundles, why_group_not(bundles, group["strategy"], nodes)


def cancel(job):
    """End a submitted job that has not started."""
    import ray

    ray.init(address="auto", namespace=SUPERVISORS, log_to_driver=False)
    ray.kill(ray.get_actor(f"{SUPERVISOR}{job}"))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="What waits, and will it ever run?")
    options.add_argument("--cancel", metavar="JOB", help="end a submitted job that has not started")
    args = options.parse_args()
    if args.cancel:
        cancel(args.cancel)
    for what, asks, reason in waiting():
        print(json.dumps({"what": what, "asks": asks, "ever": not reason, "why": reason or "waits for its turn"}))
