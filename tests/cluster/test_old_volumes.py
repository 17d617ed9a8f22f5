"""Volumes of an earlier lab: of the older Slurm they are taken over, of the newer one refused before a hand is laid on
them; of another Ray they are left behind; all with one clear line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from provisioning.cluster import Cluster, run_local
from provisioning.errors import LabError
from provisioning.files import write_whole
from provisioning.images import image_name
from provisioning.old_state import STATE_FILE, read_state, volumes
from provisioning.plan import make_plan
from provisioning.plan_facts import read_facts
from provisioning.pytest_plugin import own_lab
from provisioning.settings import SLURM_LINES, Settings
from provisioning.up import down, up
from tests.cluster.broken_off import make
from tests.cluster.people import Person

pytestmark = pytest.mark.slow

OLD, NEW = SLURM_LINES


@pytest.fixture(scope="module")
def old() -> Iterator[Cluster]:
    """A lab of the older line, which the tests may do anything with; the last one leaves it with the newer."""
    with own_lab(replace(Settings.from_env(), lab="ci", slurm=OLD)) as made:
        yield made


def record(settings: Settings, **changes: str) -> None:
    """Let the last start have been another one."""
    write_whole(settings.generated / STATE_FILE, json.dumps(read_state(settings) | changes))


def in_volumes(settings: Settings, script: str) -> str:
    """What a shell script says to which each volume is a folder of its name."""
    names = {name: name.removeprefix(f"{settings.project}_") for name in volumes(settings)}
    mounts = [word for name, folder in names.items() for word in ("--volume", f"{name}:/v/{folder}")]
    argv = ["docker", "run", "--rm", "--workdir", "/v", *mounts, image_name("slurm", OLD), "sh", "-c", script]
    done = run_local(argv, timeout_s=120)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def digest(settings: Settings) -> str:
    """Of all that lies in the volumes of the database and of slurmctld, with times and owners."""
    return in_volumes(settings, "tar --sort=name -cf - db slurmctld | sha256sum")


def test_state_of_another_ray_is_left_behind_and_the_rest_is_kept(old: Cluster) -> None:
    settings = old.settings
    up(settings)
    alice = Person(old, "alice")
    held = alice.batch({"held": "--hold"})["held"]
    old.exec("login", ["bash", "-lc", "ray job submit -- echo of the old Ray"], user="alice", workdir="/home/alice",
             timeout_s=120)  # fmt: skip
    down(settings)
    in_volumes(settings, "for one in *; do touch $one/mark; done")
    record(settings, ray="2.40.0")
    said = make(settings, "up").succeed()
    assert "written by Ray 2.40.0" in said
    kept = ["db", "home", "scratch", "slurmctld"]
    assert sorted(in_volumes(settings, "ls */mark; rm -f */mark").split()) == [f"{name}/mark" for name in kept]
    assert Person(old, "alice").seen(held) == {held: "PENDING JobHeldUser"}
    listed = old.exec("login", ["bash", "-lc", "ray job list"], user="alice", workdir="/home/alice", timeout_s=120)
    assert "of the old Ray" not in listed.stdout
    down(settings)
    assert "left behind" not in make(settings, "up").succeed()


@pytest.mark.parametrize(("changes", "what"), [
    ({"slurm": "22.05"}, "were written by Slurm 22.05; 24.11 cannot read them"),
    ({"slurm": "27.05"}, "were written by Slurm 27.05; 24.11 cannot read them"),
    ({"layout": "9"}, "have layout 9, this checkout knows 1"),
    ({"lab": "default"}, "belong to the lab default, not ci"),
])  # fmt: skip
def test_what_is_not_understood_is_refused(old: Cluster, changes: dict[str, str], what: str) -> None:
    down(old.settings)
    was = read_state(old.settings)
    record(old.settings, **changes)
    try:
        with pytest.raises(LabError, match=what) as caught:
            up(old.settings)
    finally:
        record(old.settings, **was)
    assert "make destroy" in caught.value.hint
    assert not old.containers()


def test_the_newer_slurm_goes_on_and_the_older_one_is_refused(old: Cluster) -> None:
    up(old.settings)
    alice = Person(old, "alice")
    jobs = alice.batch({"done": ("", "true"), "failed": ("", "exit 3"), "held": "--hold", "later": "--begin=now+1hour"})
    for name, state in (("done", "COMPLETED"), ("failed", "FAILED")):
        alice.wait_recorded(jobs[name], {state})
    records = {name: alice.records(jobs[name]) for name in ("done", "failed")}
    alice.sh("echo kept > ~/kept")
    running = alice.batch({"runs": "--requeue"})["runs"]
    alice.wait_state(running, ("RUNNING",))
    down(old.settings)

    new = Cluster(replace(old.settings, slurm=NEW), old.lab)
    said = make(new.settings, "up").succeed()
    assert "its jobs, actors and placement groups are left behind" in said
    alice = Person(new, "alice")
    version = new.exec("slurmctld", ["scontrol", "show", "config"]).stdout
    assert f"SLURM_VERSION           = {NEW}" in version
    assert alice.seen(jobs["held"], jobs["later"]) == {
        jobs["held"]: "PENDING JobHeldUser", jobs["later"]: "PENDING BeginTime",
    }  # fmt: skip
    for name in ("done", "failed"):
        now = alice.records(jobs[name])
        assert now == records[name], (now, records[name])
    assert alice.login.read("/home/alice/kept") == "kept\n"
    assert make_plan(new.lab, read_facts(new)).empty
    alice.submitted.append(running)
    wanted = alice.batch({"new": ("", "true")})["new"]
    assert int(wanted) > int(running)
    assert alice.wait_recorded(wanted)["State"] == "COMPLETED"
    alice.cancel(jobs["held"])
    alice.wait_recorded(jobs["held"], {"CANCELLED"})

    down(new.settings)
    before = digest(new.settings)
    state = (new.settings.generated / STATE_FILE).read_bytes()
    back = make(old.settings, "up")
    text = back.wait()
    assert back.child.returncode, text
    assert f"were written by Slurm {NEW}; {OLD} cannot read them" in text
    assert f"SLURM={NEW} make up" in text
    assert not old.containers()
    assert digest(new.settings) == before
    assert (new.settings.generated / STATE_FILE).read_bytes() == state
    up(new.settings)
    assert Person(new, "alice").wait_recorded(wanted)["State"] == "COMPLETED"
    # the doctor of the older line says the same
    down(new.settings)
    assert "cannot read them" in make(old.settings, "doctor").wait()
