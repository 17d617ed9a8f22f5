"""Ctrl-C and SIGTERM at any moment of a command: it ends soon with one clear line, and the next command works."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from provisioning.cluster import Cluster
from provisioning.doctor import examine
from provisioning.load import LABS
from provisioning.plan import make_plan
from provisioning.plan_facts import read_facts
from provisioning.pytest_plugin import own_lab
from provisioning.ready import node_states
from provisioning.settings import Settings
from provisioning.waiting import wait_for
from tests.cluster.broken_off import Typed, check_files, make, pause, says_what_next

pytestmark = pytest.mark.slow

INT, TERM = signal.SIGINT, signal.SIGTERM
CAROL = "  - name: carol\n    uid: 2003\n    accounts: [research]\n"


class Own:
    """A small lab that only these tests use, from a YAML of its own."""

    def __init__(self, cluster: Cluster, path: Path) -> None:
        self.settings, self.path = cluster.settings, path
        self.first = path.read_text(encoding="utf-8")

    @property
    def cluster(self) -> Cluster:
        """The lab as its YAML is now."""
        return Cluster.open(self.settings)

    def held_job(self) -> str:
        """A job that is to outlive what comes."""
        submit = ["sbatch", "--parsable", "--hold", "-o", "/dev/null", "--wrap", "true"]
        return self.cluster.exec("login", submit, user="alice", workdir="/home/alice").stdout.strip()

    def queue(self) -> list[str]:
        return self.cluster.exec("slurmctld", ["squeue", "-h", "-o", "%i"]).stdout.split()

    def check_whole(self) -> None:
        """It is what its YAML says, and takes work of both kinds."""
        check_files(self.settings)
        cluster = self.cluster
        assert make_plan(cluster.lab, read_facts(cluster)).empty
        wait_for("nodes", lambda: {name: str(one) for name, one in node_states(cluster).items()},
                 lambda seen: all(text == f"{name} idle" for name, text in seen.items()), timeout_s=60)  # fmt: skip
        ran = cluster.exec("login", ["srun", f"-N{len(cluster.nodes())}", "--mem=50M", "hostname"], user="alice",
                           workdir="/home/alice").stdout.split()  # fmt: skip
        assert sorted(ran) == sorted(cluster.nodes())
        # other checkouts on this machine may build images of the same names meanwhile
        wait_for("a lab without findings", lambda: [str(one) for one in examine(cluster) if one.where != "images"],
                 lambda now: not now, timeout_s=60, show=" / ".join)  # fmt: skip


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    path = tmp_path_factory.mktemp("lab") / "broken.yaml"
    text = (LABS / "ci.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("name: ci\n", "name: broken\n", 1), encoding="utf-8")
    with own_lab(replace(Settings.from_env(), lab=str(path))) as made:
        yield Own(made, path)


def broken_off(typed: Typed, moment: str, sent: signal.Signals) -> None:
    typed.wait_said(moment)
    says_what_next(typed.break_off(sent))


# -- up


@pytest.mark.parametrize(("moment", "sent"), [
    (r"containers: starting", INT), (r"containers: starting", TERM), (r"containers: started", INT),
    (r"accounting: ", TERM), (r"slurm: 2 nodes ready", INT),
])  # fmt: skip
def test_first_up(own: Own, moment: str, sent: signal.Signals) -> None:
    make(own.settings, "destroy").succeed()
    broken_off(make(own.settings, "up"), moment, sent)
    check_files(own.settings)
    make(own.settings, "up").succeed()
    own.check_whole()


def test_up_that_was_broken_off_and_then_another_yaml(own: Own) -> None:
    make(own.settings, "destroy").succeed()
    broken_off(make(own.settings, "up"), "containers: started", INT)
    own.path.write_text(own.first.replace("    max_time: 01:00:00\n", "    max_time: 02:00:00\n"), encoding="utf-8")
    try:
        assert "begins anew" in make(own.settings, "up").succeed()
        own.check_whole()
    finally:
        own.path.write_text(own.first, encoding="utf-8")
    make(own.settings, "apply").succeed()


@pytest.mark.parametrize("number", range(4))
def test_up_again_at_any_moment(own: Own, number: int) -> None:
    held = own.held_job()
    make(own.settings, "down").succeed()
    typed = make(own.settings, "up")
    pause(random.Random(number).uniform(0.3, 8))
    typed.break_off(random.Random(number).choice([INT, TERM]))
    check_files(own.settings)
    make(own.settings, "up").succeed()
    assert held in own.queue()
    own.check_whole()


# -- down, destroy


def some_are_gone(own: Own) -> bool:
    return len(own.cluster.containers()) < len(own.cluster.services())


@pytest.mark.parametrize("sent", [INT, TERM])
def test_down(own: Own, sent: signal.Signals) -> None:
    held = own.held_job()
    typed = make(own.settings, "down")
    typed.wait_until("a container is gone", lambda: some_are_gone(own))
    says_what_next(typed.break_off(sent))
    make(own.settings, "up").succeed()
    assert held in own.queue()
    own.check_whole()


@pytest.mark.parametrize("then", ["up", "destroy"])
def test_destroy(own: Own, then: str) -> None:
    """What was to go has gone, whatever comes next."""
    own.held_job()
    typed = make(own.settings, "destroy")
    typed.wait_until("a container is gone", lambda: some_are_gone(own))
    says_what_next(typed.break_off(INT))
    make(own.settings, then).succeed()
    make(own.settings, "up").succeed()
    assert own.queue() == []
    own.check_whole()


# -- apply, ray-scale


def another(own: Own) -> str:
    """The YAML with one more node, user and Ray worker, and another time limit."""
    text = own.first
    for old, new in (
        ("  - name: c[1-2]\n", "  - name: c[1-3]\n"), ("    nodes: c[1-2]\n", "    nodes: c[1-3]\n"),
        ("    max_time: 01:00:00\n", "    max_time: 02:00:00\n"), ("    count: 1\n", "    count: 2\n"),
        ("    uid: 2002\n    accounts: [research]\n", "    uid: 2002\n    accounts: [research]\n" + CAROL),
    ):  # fmt: skip
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(("moment", "sent"), [
    (r"apply: \d+ differences", INT), (r"apply: write files", TERM), (r"apply: start", INT),
    (r"apply: reconfigure", INT), (r"apply: accounting", TERM),
])  # fmt: skip
def test_apply(own: Own, moment: str, sent: signal.Signals) -> None:
    own.path.write_text(another(own), encoding="utf-8")
    try:
        broken_off(make(own.settings, "apply"), moment, sent)
        check_files(own.settings)
        make(own.settings, "status").wait()  # says that something does not run, if it is so
        make(own.settings, "apply").succeed()
        own.check_whole()
    finally:
        own.path.write_text(own.first, encoding="utf-8")
    # and back: the node that goes is drained first
    typed = make(own.settings, "apply")
    typed.wait_said(r"apply: (drain|write files|remove)")
    says_what_next(typed.break_off(sent))
    make(own.settings, "apply").succeed()
    own.check_whole()


@pytest.mark.parametrize(("moment", "sent"), [("starting ray-worker-2", INT), ("stopping ray-worker-2", TERM)])
def test_ray_scale(own: Own, moment: str, sent: signal.Signals) -> None:
    count = "2" if "starting" in moment else "1"
    if count == "1":
        make(own.settings, "ray-scale", "N=2").succeed()
    broken_off(make(own.settings, "ray-scale", f"N={count}"), moment, sent)
    make(own.settings, "up").succeed()
    assert len(own.cluster.ray_workers()) == int(count)
    make(own.settings, "apply").succeed()
    own.check_whole()


# -- rotate-secrets


@pytest.mark.parametrize(("moment", "then", "sent"), [
    ("secrets: new ones made", "up", INT), ("stopping: login", "rotate-secrets", TERM),
    ("stopping: slurmdbd", "up", INT), ("secrets: in place", "rotate-secrets", INT),
    ("containers: started", "up", TERM),
])  # fmt: skip
def test_rotate(own: Own, moment: str, then: str, sent: signal.Signals) -> None:
    held = own.held_job()
    broken_off(make(own.settings, "rotate-secrets"), moment, sent)
    make(own.settings, then).succeed()
    assert held in own.queue()
    own.check_whole()


@pytest.mark.parametrize("number", range(3))
def test_rotate_before_anything_is_changed(own: Own, number: int) -> None:
    """Nodes that it holds back meanwhile are in service again."""
    typed = make(own.settings, "rotate-secrets")
    pause(0.3 + number * 0.3)
    typed.break_off(INT)
    make(own.settings, "up").succeed()
    own.check_whole()


# -- what only looks


@pytest.mark.parametrize(
    "words", [["status"], ["plan"], ["doctor"], ["bundle", "OUT=/dev/null"]], ids=lambda one: one[0]
)
@pytest.mark.parametrize("number", range(3))
def test_looking(own: Own, words: list[str], number: int) -> None:
    typed = make(own.settings, *words)
    pause(random.Random(number).uniform(0.25, 0.6))
    if typed.child.poll() is None:
        typed.break_off(INT)
    assert "Traceback" not in typed.text


# -- scenarios, on the lab that they are made for


def check_restored(cluster: Cluster) -> None:
    """No job, no change, no folder is left, and every node takes work."""
    check_files(cluster.settings)
    assert cluster.exec("slurmctld", ["squeue", "-h"]).stdout == ""
    assert make_plan(cluster.lab, read_facts(cluster)).empty
    assert cluster.exec("login", ["sh", "-c", "ls -d /scratch/scenario-*"], check=False).stdout == ""
    assert {one.state for one in node_states(cluster).values()} == {"idle"}


@pytest.mark.parametrize(("name", "moment", "sent"), [
    ("backfill", r"a minute lasts", INT),
    ("backfill", r"RUNNING", TERM),
    ("preemption", r"RUNNING", INT),
    ("preemption-modes", r"RUNNING", INT),
    ("preemption-modes", r"gone from the queue", TERM),
    ("fairshare", r"RUNNING", INT),
    ("failure", r"RUNNING", INT),
    ("failure", r"(?i)kill|dies", TERM),
    ("gang-deadlock", r"a minute lasts", INT),
    ("elastic-rlhf", r"a minute lasts", TERM),
])  # fmt: skip
def test_scenario(cluster: Cluster, name: str, moment: str, sent: signal.Signals) -> None:
    typed = Typed(cluster.settings, [".venv/bin/python", "-m", "smoke", "scenario", name])
    broken_off(typed, moment, sent)
    check_restored(cluster)


@pytest.mark.parametrize("number", range(4))
def test_scenario_at_any_moment(cluster: Cluster, number: int) -> None:
    chosen = random.Random(number)
    typed = make(
        cluster.settings, "scenario", f"NAME={chosen.choice(['fragmentation', 'preemption-modes', 'gang-deadlock'])}"
    )
    pause(chosen.uniform(0.3, 12))
    typed.break_off(chosen.choice([INT, TERM]))
    check_restored(cluster)


@pytest.mark.parametrize("number", range(3))
def test_smoke(cluster: Cluster, number: int) -> None:
    typed = make(cluster.settings, "smoke")
    pause(random.Random(number).uniform(0.5, 8))
    typed.break_off(INT)
    wait_for("no job is left", lambda: cluster.exec("slurmctld", ["squeue", "-h"]).stdout, "".__eq__, timeout_s=40)
