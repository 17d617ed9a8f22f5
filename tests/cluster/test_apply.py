"""make plan and make apply on a running lab: every kind of change is seen, closed, and gone from the next plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from provisioning.apply import apply_command
from provisioning.cluster import Cluster
from provisioning.errors import LabError
from provisioning.load import LABS
from provisioning.plan import Plan, make_plan
from provisioning.plan_facts import read_facts
from provisioning.pytest_plugin import own_lab
from provisioning.up import destroy, up
from provisioning.waiting import wait_for

#: Half an hour off every zone that a host is likely to have, and without daylight saving.
ZONE = "Asia/Kolkata"
CAROL = "  - name: carol\n    uid: 2003\n    accounts: [teaching]\n"


class Edited:
    """A running lab whose YAML lies in a folder of the test's own."""

    def __init__(self, cluster: Cluster, path: Path) -> None:
        self.first, self.path = cluster, path

    @property
    def cluster(self) -> Cluster:
        """The lab as its YAML is now."""
        return Cluster.open(self.first.settings)

    def edit(self, old: str, new: str) -> None:
        text = self.path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
        self.path.write_text(text.replace(old, new), encoding="utf-8")

    def plan(self) -> Plan:
        return make_plan(self.cluster.lab, read_facts(self.cluster))

    def apply(self, *, force: bool = False) -> None:
        apply_command(self.first.settings, force)

    def running_job(self, node: str) -> str:
        """A long job of alice that runs on a node."""
        submit = ["sbatch", "--parsable", "-w", node, "-o", "/dev/null", "--wrap", "sleep 600"]
        job = self.first.exec("login", submit, user="alice", workdir="/home/alice").stdout.strip()
        wait_for("job", lambda: self.run("squeue", "-h", "-j", job, "-o", "%T"), "RUNNING".__eq__, timeout_s=30)
        return job

    def run(self, *argv: str) -> str:
        return self.first.exec("slurmctld", argv).stdout.strip()


@pytest.fixture(scope="module")
def edited(lab: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edited]:
    path = tmp_path_factory.mktemp("lab") / "edited.yaml"
    text = (LABS / "ci.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("name: ci\n", f"name: edited\ntimezone: {ZONE}\n", 1), encoding="utf-8")
    with own_lab(replace(lab.settings, lab=str(path))) as cluster:
        yield Edited(cluster, path)


def test_after_up_the_plan_is_empty(edited: Edited) -> None:
    assert edited.plan() == Plan()


def test_many_kinds_of_change_at_once(edited: Edited) -> None:
    """QOS, partition, node, users, accounts and Ray workers; a job on another node runs on."""
    job = edited.running_job("c1")
    edited.edit("    priority: 1000\n", "    priority: 2000\n    max_tres_per_user: gres/gpu=1\n")
    edited.edit("accounts:\n", "accounts:\n  - name: Teaching\n    fairshare: 7\n    qos: [normal]\n")
    edited.edit(
        "    uid: 2002\n    accounts: [research]\n", "    uid: 2002\n    accounts: [research, teaching]\n" + CAROL
    )
    edited.edit("    max_time: 01:00:00\n", "    max_time: 02:00:00\n")
    edited.edit("  - name: c[1-2]\n", "  - name: c[1-3]\n")
    edited.edit("    nodes: c[1-2]\n", "    nodes: c[1-3]\n")
    edited.edit("    count: 1\n", "    count: 2\n")
    text = "\n".join(map(str, edited.plan().changes))
    for word in ("qos high", "teaching", "carol", "service c3", "service ray-worker-2", "02:00:00"):
        assert word in text, text
    edited.apply()
    assert edited.plan().changes == []
    assert edited.run("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"
    assert edited.run("sinfo", "-h", "-o", "%D %l") == "3 2:00:00"
    seen = edited.first.exec(
        "login", ["srun", "-w", "c3", "--gres=gpu:2", "id", "-un"], user="alice", workdir="/home/alice"
    )
    assert seen.stdout.strip() == "alice"
    carol = edited.cluster.exec("login", ["srun", "-A", "teaching", "id", "-un"], user="carol", workdir="/home/carol")
    assert carol.stdout.strip() == "carol"
    edited.run("scancel", job)


def test_drift_by_hand_is_seen_and_closed(edited: Edited) -> None:
    edited.run("sacctmgr", "-i", "modify", "qos", "low", "set", "priority=77")
    edited.run("scontrol", "update", "PartitionName=gpu", "MaxTime=00:11:00")
    text = "\n".join(map(str, edited.plan().changes))
    assert "qos low" in text
    assert "77" in text
    assert "00:11:00" in text
    edited.apply()
    assert edited.plan().changes == []
    assert edited.run("sacctmgr", "-nP", "show", "qos", "low", "format=Priority") == "0"


def test_a_drain_by_hand_is_shown_and_kept(edited: Edited) -> None:
    edited.run("scontrol", "update", "NodeName=c2", "State=DRAIN", "Reason=mend the fan")
    try:
        plan = edited.plan()
        assert plan.empty
        assert "mend the fan" in "\n".join(plan.notes)
        edited.apply()
        assert "drain" in edited.run("sinfo", "-hN", "-n", "c2", "-o", "%T")
    finally:
        edited.run("scontrol", "update", "NodeName=c2", "State=RESUME")


def test_removals_wait_for_jobs_unless_forced(edited: Edited) -> None:
    job = edited.running_job("c3")
    edited.edit("  - name: c[1-3]\n", "  - name: c[1-2]\n")
    edited.edit("    nodes: c[1-3]\n", "    nodes: c[1-2]\n")
    with pytest.raises(LabError, match=f"jobs run on nodes that are to be removed.*{job}"):
        edited.apply()
    assert edited.run("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"
    edited.apply(force=True)
    assert edited.plan().changes == []
    assert "c3" not in edited.first.containers()
    edited.run("scancel", job)


def test_the_rest_goes_as_it_came(edited: Edited) -> None:
    edited.edit(CAROL, "")
    edited.edit("  - name: Teaching\n    fairshare: 7\n    qos: [normal]\n", "")
    edited.edit("    accounts: [research, teaching]\n", "    accounts: [research]\n")
    edited.edit("    count: 2\n", "    count: 1\n")
    edited.edit("    max_tres_per_user: gres/gpu=1\n", "")
    edited.apply()
    assert edited.plan().changes == []
    assert "ray-worker-2" not in edited.first.containers()
    assert "teaching" not in edited.run("sacctmgr", "-nP", "show", "account", "format=Account")


def test_a_yaml_with_mistakes_changes_nothing(edited: Edited) -> None:
    before = edited.path.read_text(encoding="utf-8")
    edited.edit("    max_time: 02:00:00\n", "    max_time: soon\n")
    try:
        with pytest.raises(LabError, match="max_time"):
            edited.apply()
    finally:
        edited.path.write_text(before, encoding="utf-8")
    assert edited.plan().changes == []


def test_a_reset_clears_jobs_and_their_records(edited: Edited) -> None:
    """Field cases 24 and 25: every daemon has the lab's zone, and a new lab counts from 1 with an empty accounting."""
    assert edited.first.exec("slurmctld", ["sacct", "-anX", "-S", "1970-01-01", "-o", "JobID"]).stdout.split()
    destroy(edited.first.settings)
    up(edited.first.settings)
    assert edited.first.exec("slurmctld", ["sacct", "-anX", "-S", "1970-01-01", "-o", "JobID"]).stdout.split() == []

    before = datetime.now(ZoneInfo(ZONE)).replace(tzinfo=None, microsecond=0)
    job = edited.running_job("c1")
    assert job == "1"
    zones = {name: edited.cluster.exec(name, ["date", "+%z"]).stdout.strip() for name in edited.first.containers()}
    assert set(zones.values()) == {"+0530"}, zones
    edited.run("scancel", job)
    wait_for("its record", lambda: _sacct(edited, before), lambda rows: "CANCELLED" in rows, timeout_s=30)
    start = datetime.fromisoformat(_sacct(edited, before).split("|")[1])
    assert before <= start <= before + timedelta(minutes=2)
    assert _sacct(edited, before + timedelta(hours=1)) == ""


def _sacct(edited: Edited, since: datetime) -> str:
    """Records of jobs since a local time of the lab, as alice asks for them; sacct leaves out what ended before."""
    argv = ["sacct", "-nPX", "-S", since.isoformat(), "-E", (since + timedelta(minutes=30)).isoformat(),
            "-o", "JobID,Start,State"]  # fmt: skip
    return edited.first.exec("login", argv, user="alice").stdout.strip()


def test_what_a_reconfigure_does_not_survive_starts_all_daemons_anew(edited: Edited) -> None:
    """HashPlugin: old and new daemons would not understand each other."""
    before = edited.run("stat", "-c", "%Y %i", "/proc/1")
    edited.edit("slurm:\n", "slurm:\n  extra: {HashPlugin: hash/sha3}\n")
    edited.apply()
    assert edited.plan() == Plan()
    assert edited.run("stat", "-c", "%Y %i", "/proc/1") != before
    assert "hash/sha3" in edited.run("scontrol", "show", "config")
    seen = edited.first.exec("login", ["srun", "-N2", "hostname"], user="alice", workdir="/home/alice").stdout.split()
    assert sorted(seen) == ["c1", "c2"]
