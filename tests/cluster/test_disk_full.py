"""Volumes that are full, for real: each lies on a small file system of its own and is filled while work goes on. It is
named by the doctor, and nothing that was acknowledged is lost when there is room again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from provisioning.cluster import Cluster, run_local
from provisioning.doctor.room import VOLUMES, Volume
from provisioning.engine import ensure_engine
from provisioning.errors import LabError
from provisioning.images import ensure_images, image_name
from provisioning.old_state import write_state
from provisioning.pytest_plugin import test_settings as own_settings
from provisioning.secretfiles import ensure_secrets
from provisioning.settings import Settings
from provisioning.up import destroy, up
from provisioning.waiting import wait_for
from tests.cluster.broken_off import make
from tests.cluster.people import Person
from tests.cluster.test_slurm_faults import docker

pytestmark = pytest.mark.slow

SIZES = {"db": "260m", "slurmctld": "8m", "home": "16m", "scratch": "16m", "ray": "64m"}
KNOWN = {one.name: one for one in VOLUMES}
#: For what comes back by itself: a Ray head that hangs is ended after 120 s, then it starts anew.
BACK_S = 300


@pytest.fixture(scope="module")
def small() -> Iterator[Cluster]:
    """A lab whose volumes are small. A container of nobody's keeps them mounted: they are gone with their last user."""
    settings = own_settings(replace(Settings.from_env(), lab="ci"))
    lab = Cluster.open(replace(settings, project=f"{settings.project}-full"))
    project, keeper = lab.settings.project, f"{lab.settings.project}-keeper"
    ensure_engine(print)
    run_local(["docker", "rm", "--force", keeper])
    destroy(lab.settings)
    try:
        ensure_images(lab.settings.slurm, print)
        ensure_secrets(lab.settings.generated / "secrets")
        write_state(lab.settings, lab.lab, ready=False)
        for name, size in SIZES.items():
            docker("volume", "create", "--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", f"o=size={size}",
                   "--label", f"com.docker.compose.project={project}", "--label", f"com.docker.compose.volume={name}",
                   f"{project}_{name}")  # fmt: skip
        mounts = [word for name in SIZES for word in ("--volume", f"{project}_{name}:/kept/{name}:nocopy")]
        docker(
            "run", "--detach", "--name", keeper, *mounts, image_name("slurm", lab.settings.slurm), "sleep", "infinity"
        )
        up(lab.settings)
        yield lab
    finally:
        run_local(["docker", "rm", "--force", keeper])
        destroy(lab.settings)


@contextmanager
def full(lab: Cluster, name: str) -> Iterator[Volume]:
    """A volume without any room. The filler is written from beside: the daemon may not run."""
    keeper = f"{lab.settings.project}-keeper"
    filler = f"/kept/{name}/filler"
    docker("exec", keeper, "sh", "-c", f"dd if=/dev/zero of={filler} bs=4k 2>/dev/null; test -s {filler}")
    try:
        yield KNOWN[name]
    finally:
        docker("exec", keeper, "rm", "-f", filler)


def check_named(lab: Cluster, one: Volume) -> None:
    """Both commands say which volume it is, and what to do."""
    for word in ("doctor", "status"):
        text = " ".join(make(lab.settings, word).wait().split())
        assert f"{one.service}: its volume {lab.settings.project}_{one.name} ({one.folder}) is full, 0 MB" in text, text
        assert f"docker volume inspect {lab.settings.project}_{one.name}" in text, text


def wait_well(lab: Cluster) -> None:
    """Without a hand."""

    def seen() -> str:
        # other checkouts on this machine may build images of the same names meanwhile
        rows = make(lab.settings, "doctor").wait().splitlines()
        return "\n".join(row for row in rows if ": " in row and not row.startswith(("images", "  do:", "make:")))

    wait_for("a lab without findings", seen, lambda text: not text or text.startswith("nothing is wrong"),
             timeout_s=BACK_S, interval_s=2)  # fmt: skip


def kill_and_start(lab: Cluster, service: str) -> None:
    lab.kill(service)
    lab.start(service)


def wait_controller(lab: Cluster) -> None:
    wait_for("slurmctld", lambda: lab.exec("login", ["scontrol", "ping"], check=False).exit_code, (0).__eq__,
             timeout_s=60)  # fmt: skip


def wait_saved(lab: Cluster, name: str) -> None:
    """Wait until a job of this name stands in the saved queue."""
    look = ["grep", "-q", name, "/var/spool/slurmctld/job_state"]
    wait_for(f"{name} is saved", lambda: lab.exec("slurmctld", look, check=False).exit_code, (0).__eq__, timeout_s=60)


def job_state(lab: Cluster) -> str:
    return hashlib.sha256(lab.exec("slurmctld", ["sh", "-c", "base64 /var/spool/slurmctld/job_state"]).stdout.encode()
                          ).hexdigest()  # fmt: skip


def test_the_queue(small: Cluster) -> None:
    alice = Person(small, "alice")
    jobs = alice.batch({"held": "--hold", "later": "--begin=now+1hour", "runs-on": ("", "sleep 10")})
    alice.wait_state(jobs["runs-on"], ("RUNNING",))
    wait_saved(small, "runs-on")
    before = job_state(small)
    with full(small, "slurmctld") as volume:
        with pytest.raises(LabError, match="I/O error writing script"):
            alice.batch({"refused": ""})
        assert alice.wait_recorded(jobs["runs-on"], timeout_s=40)["State"] == "COMPLETED"
        check_named(small, volume)
        assert job_state(small) == before
    wait_well(small)
    new = alice.batch({"new": ("", "true"), "one-more": "--hold"})
    assert alice.wait_recorded(new["new"])["State"] == "COMPLETED"
    wait_saved(small, "one-more")
    waiting = {jobs["held"]: "PENDING JobHeldUser", jobs["later"]: "PENDING BeginTime",
               new["one-more"]: "PENDING JobHeldUser"}  # fmt: skip
    # a start from what was saved when there was room, while there is none; and one from what is saved afterwards
    with full(small, "slurmctld"):
        kill_and_start(small, "slurmctld")
        wait_controller(small)
        assert alice.seen(*waiting) == waiting
    alice.batch({"the-last": "--hold"})
    wait_saved(small, "the-last")
    kill_and_start(small, "slurmctld")
    wait_controller(small)
    assert alice.seen(*waiting) == waiting
    assert alice.job(jobs["runs-on"]).state == "COMPLETED"
    wait_well(small)
    alice.leave()


def test_accounting(small: Cluster) -> None:
    alice = Person(small, "alice")
    with full(small, "db") as volume:
        job = alice.sh("sbatch --parsable -o /dev/null --mem=10M --time=5 --array=1-100 --wrap true").strip()
        alice.submitted.append(job)
        left = f"squeue -h -r -j {job} -t PD,R,CG | wc -l"
        wait_for("100 jobs have ended", lambda: alice.sh(left).strip(), "0".__eq__, timeout_s=240)
        check_named(small, volume)
        # the database cannot start either; slurmctld keeps what nobody takes
        kill_and_start(small, "db")

    def states() -> dict[str, int]:
        rows = alice.sh(f"sacct -nX -j {job} -o State").split()
        return {one: rows.count(one) for one in set(rows)}

    wait_for("100 records", states, {"COMPLETED": 100}.__eq__, timeout_s=BACK_S, show=str)
    tables = small.exec("db", ["mariadb-check", "--all-databases", "--silent"]).stdout
    assert tables.strip() == ""
    wait_well(small)


@pytest.mark.parametrize(("name", "folder"), [("home", "/home/alice"), ("scratch", "/scratch")])
def test_where_jobs_write(small: Cluster, name: str, folder: str) -> None:
    """The job that writes there fails, others run, nodes stay in service."""
    alice = Person(small, "alice")
    writes = f"head -c 100000 /dev/zero > {folder}/written"
    with full(small, name) as volume:
        jobs = alice.batch({"writes": ("", writes), "other": ("", "true")})
        assert alice.wait_recorded(jobs["writes"])["State"] == "FAILED"
        assert alice.wait_recorded(jobs["other"])["State"] == "COMPLETED"
        check_named(small, volume)
    wait_well(small)
    again = alice.batch({"again": ("", writes)})["again"]
    assert alice.wait_recorded(again)["State"] == "COMPLETED"


def test_rays_state(small: Cluster) -> None:
    def ray(words: str) -> str:
        return small.exec("login", ["bash", "-lc", f"ray job {words} 2>&1"], user="alice", workdir="/home/alice",
                          timeout_s=120).stdout  # fmt: skip

    ray("submit --submission-id before -- echo before")
    with full(small, "ray") as volume:
        check_named(small, volume)
        kill_and_start(small, "ray-head")
        check_named(small, volume)
    wait_well(small)
    assert "SUCCEEDED" in ray("list").partition("before")[2]
    assert "after" in ray("submit -- echo after")
