"""The daemons: containers that do not run, nodes that take no jobs and why, accounting, Ray's nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from provisioning import ray_api
from provisioning.cluster import Container
from provisioning.doctor.finding import Finding
from provisioning.doctor.kept import one_line
from provisioning.doctor.look import Look
from provisioning.errors import LabError

LESS = "not what it claims to be"
#: Words of a node's State that keep jobs away, see scontrol(1); a `*` behind the first means that it does not answer.
BAD_WORDS = {"DOWN": "down", "DRAIN": "drained", "INVALID_REG": LESS, "INVAL": LESS,
             "FAIL": "failing", "NOT_RESPONDING": "not answering", "UNKNOWN": "not seen yet"}  # fmt: skip
RESUME = "make shell AS=root NODE=slurmctld, there: scontrol update nodename={name} state=resume"


def container_findings(services: list[str], containers: Mapping[str, Container], project: str) -> Iterator[Finding]:
    """Services without a container that runs and is healthy."""
    if not containers:
        yield Finding("lab", f"the lab {project} is not up", "make up")
        return
    for name in services:
        one = containers.get(name)
        if one is None or one.state in ("exited", "created"):
            yield Finding(name, "it does not run" if one else "it has no container", "make up starts it")
        elif one.state == "paused":
            yield Finding(name, "it is paused", f"docker unpause {one.name}")
        elif one.state != "running":
            yield Finding(name, f"it is {one.state}: it ends again and again", f"make logs NODE={name} says why")
        elif one.health == "unhealthy":
            yield Finding(name, "it runs, but does not answer its health check",
                          f"make logs NODE={name}; docker restart {one.name}")  # fmt: skip


def containers(look: Look) -> Iterator[Finding]:
    """Every service has a container that runs and is healthy; one that ends again and again says why."""
    found = look.containers()
    for one in container_findings(look.cluster.services(), found, look.cluster.settings.project):
        if one.where in found and found[one.where].state == "restarting":
            said = re.findall(r"(?:fatal|error): .*", look.cluster.log_tail(one.where, 40))
            yield Finding(one.where, one.what + (f" ({one_line(said[-1])})" if said else ""), one.remedy)
        else:
            yield one


def answers(look: Look) -> Iterator[Finding]:
    """A command can be run in every container that runs."""
    look.insides(look.cluster.services())
    for service in look.running():
        try:
            look.inside(service)
        except LabError as error:
            yield Finding(service, one_line(error.what), f"make logs NODE={service}; make down, then make up")


def node_findings(wanted: list[str], rows: Mapping[str, Mapping[str, str]], running: list[str]) -> Iterator[Finding]:
    """Nodes by ``scontrol show node``: those that are kept from jobs, each with its reason and what mends it."""
    for name in wanted:
        if name not in rows:
            yield Finding(name, "slurmctld does not know this node", "make apply")
            continue
        state, reason = rows[name].get("State", ""), rows[name].get("Reason", "")
        words = [word.rstrip("*$#@^-~%!") for word in state.split("+")]
        bad = list(dict.fromkeys(BAD_WORDS[word] for word in words if word in BAD_WORDS))
        if "*" in state and "not answering" not in bad:
            bad.append("not answering")
        if not bad:
            continue
        what = f"the node is {' and '.join(bad)} (State={state}): {reason or 'no reason given'}"
        resume = RESUME.format(name=name)
        if name not in running:
            remedy = "its container does not run: make up"
        elif LESS in bad or "lower than configured" in reason:
            remedy = f"it has less than the YAML says: make logs NODE={name}, make plan; when that is mended, {resume}"
        elif "not answering" in bad:
            remedy = f"make logs NODE={name}; if it does not come back by itself: docker restart its container"
        else:
            remedy = f"if the reason is mended: {resume}"
        yield Finding(name, what, remedy)


def nodes(look: Look) -> Iterator[Finding]:
    """Every node takes jobs."""
    if look.running("slurmctld"):
        names = look.cluster.nodes()
        yield from node_findings(names, look.node_rows(), look.running(*names) if names else [])


def controller(look: Look) -> Iterator[Finding]:
    """slurmctld answers those who ask from the login node."""
    if not look.running("slurmctld") or not look.running("login"):
        return
    done = look.cluster.exec("login", ["scontrol", "ping"], check=False, timeout_s=20)
    if "is UP" not in done.stdout:
        yield Finding("slurmctld", f"it does not answer the login node: {one_line(done.last_lines)}",
                      "make logs NODE=slurmctld, make logs NODE=login; make down, then make up")  # fmt: skip


def database_findings(select: str, port: bool, log: str) -> Iterator[Finding]:
    """``select`` is what the database said on its own machine (empty: all is well), ``port`` whether slurmdbd reaches
    it, ``log`` the end of slurmdbd's log."""
    if select:
        yield Finding("db", f"the database does not answer: {one_line(select)}",
                      "make logs NODE=db; docker restart its container")  # fmt: skip
    elif not port:
        yield Finding("slurmdbd", "it does not reach the database (db, port 3306)",
                      "make logs NODE=db; make down, then make up, makes the network anew")  # fmt: skip
    elif refused := re.findall(r".*Access denied for user.*", log):
        yield Finding("slurmdbd", f"the database refuses its password: {one_line(refused[-1])}",
                      "make rotate-secrets gives both a new one")  # fmt: skip


def database(look: Look) -> Iterator[Finding]:
    """The database answers, and slurmdbd reaches it with its password."""
    if not look.running("db") or not look.running("slurmdbd"):
        return
    asked = look.cluster.exec("db", ["mariadb", "--execute", "SELECT 1", "slurm_acct_db"], check=False, timeout_s=10)
    reach = look.cluster.exec("slurmdbd", ["timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/db/3306"], check=False,
                              timeout_s=10)  # fmt: skip
    # only its latest words: what it said before a mended password is history
    log = look.cluster.log_tail("slurmdbd", 5)
    yield from database_findings(asked.last_lines if asked.exit_code else "", reach.exit_code == 0, log)


def accounting_findings(rows: str, name: str, controller_runs: bool) -> Iterator[Finding]:
    """``rows`` are sacctmgr's lines ``cluster|address of its controller``."""
    hosts = dict(line.split("|", 1) for line in rows.splitlines() if "|" in line)
    if name not in hosts:
        yield Finding("slurmdbd", f"accounting does not know the cluster {name}", "make up registers it")
    elif controller_runs and not hosts[name]:
        yield Finding(
            "slurmctld",
            "it is not registered with slurmdbd: jobs are not recorded for now",
            "make logs NODE=slurmctld, make logs NODE=slurmdbd; docker restart the container of slurmctld",
        )


def accounting(look: Look) -> Iterator[Finding]:
    """slurmdbd answers, and knows the controller."""
    if not look.running("slurmdbd"):
        return
    done = look.cluster.exec("slurmdbd", ["timeout", "10", "sacctmgr", "-nP", "show", "cluster",
                                          "format=Cluster,ControlHost"], check=False, timeout_s=15)  # fmt: skip
    if done.exit_code:
        yield Finding("slurmdbd", f"it does not answer: {one_line(done.last_lines) or 'nothing within 10 s'}",
                      "make logs NODE=slurmdbd, make logs NODE=db")  # fmt: skip
        return
    yield from accounting_findings(done.stdout, look.cluster.lab.slurm.cluster_name, bool(look.running("slurmctld")))


def ray(look: Look) -> Iterator[Finding]:
    """Every Ray node is alive, and the head takes the lab's token."""
    if not look.running("ray-head"):
        return
    try:
        alive = ray_api.alive_nodes(look.cluster)
    except LabError as error:
        if refused := re.search(r"Error (401|403)\b", error.what):
            yield Finding(
                "ray-head",
                f"it refuses the lab's token ({refused[1]}): it was started with another one",
                "make rotate-secrets gives all a new one; make down, make up hands out the present one",
            )
            return
        if "Connection refused" in error.what:
            return  # said by the check of the port
        raise
    for name in look.running("ray-head", *look.cluster.ray_workers()):
        if name not in alive:
            yield Finding(name, "its container runs, but Ray does not count it among its nodes",
                          f"make logs NODE={name}; make up waits for it and says what it sees")  # fmt: skip
