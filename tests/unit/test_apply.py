"""make apply: a plan in, steps out; and what a step that fails leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from provisioning import apply
from provisioning.apply import Applier, refuse_other_cluster
from provisioning.apply_steps import Step, make_steps
from provisioning.cluster import Cluster, Result
from provisioning.errors import LabError
from provisioning.lab import Lab, Nodes, Partition, Qos, Ray, RayNodes, Slurm, User
from provisioning.plan import make_plan
from provisioning.plan_facts import Facts
from provisioning.progress import Progress
from tests.unit.test_plan import FACTS, LAB, NODE, container, parse_rows


def steps(lab: Lab, facts: Facts = FACTS) -> list[str]:
    return [str(step) for step in make_steps(lab, make_plan(lab, facts), facts)]


def test_nothing_to_do_is_no_step() -> None:
    assert steps(LAB) == []


def test_accounting_alone_leaves_slurmctld_alone() -> None:
    assert steps(replace(LAB, qos=(Qos("low", priority=5),))) == ["write files", "accounting", "wait"]


def test_configuration_is_a_reconfigure() -> None:
    assert steps(replace(LAB, slurm=Slurm(kill_wait=9))) == ["write files", "reconfigure", "accounting", "wait"]


def test_a_new_node_runs_before_slurmctld_reads_its_name() -> None:
    assert steps(replace(LAB, nodes=(*LAB.nodes, Nodes("d1", 4, "1000")))) == [
        "write files", "start d1", "reconfigure", "accounting", "wait"]  # fmt: skip


def test_a_node_that_goes_is_drained_first() -> None:
    assert steps(replace(LAB, nodes=(replace(LAB.nodes[0], name="c1"),))) == [
        "drain c2", "write files", "remove c2", "reconfigure", "accounting", "wait"]  # fmt: skip


def test_a_node_whose_container_differs_is_drained_made_anew_and_resumed() -> None:
    facts = replace(FACTS, hashes={**FACTS.hashes, "c1": "new"})
    assert steps(replace(LAB, nodes=(replace(LAB.nodes[0], weight=2),)), facts) == [
        "drain c1", "write files", "reconfigure", "make anew c1", "reconfigure", "accounting", "resume c1",
        "wait"]  # fmt: skip


def test_a_node_that_was_drained_by_hand_is_not_resumed() -> None:
    row = parse_rows(NODE.format("c1").replace("IDLE", "IDLE+DRAIN") + " Reason=bad fan", "NodeName")
    facts = replace(FACTS, hashes={**FACTS.hashes, "c1": "new"}, nodes={**FACTS.nodes, **row})
    assert not any(step.startswith("resume") for step in steps(LAB, facts))


def test_a_drain_that_an_earlier_apply_left_is_taken_back() -> None:
    row = parse_rows(NODE.format("c1").replace("IDLE", "IDLE+DRAIN") + " Reason=make apply [root@now]", "NodeName")
    assert steps(LAB, replace(FACTS, nodes={**FACTS.nodes, **row}))[-2:] == ["resume c1", "wait"]


def test_a_qos_that_a_partition_names_exists_before_slurmctld_reads_of_it() -> None:
    wanted = replace(
        LAB, qos=(*LAB.qos, Qos("High")), partitions=(Partition("gpu", "ALL", qos="High", allow_qos=("low",)),)
    )
    assert steps(wanted) == ["write files", "add qos high", "reconfigure", "accounting", "wait"]


def test_users() -> None:
    assert steps(replace(LAB, users=(User("bob", 2002, ("a",)),))) == [
        "let go of alice", "write files", "make homes", "accounting", "wait"]  # fmt: skip


def test_ray_workers_come_and_go_without_slurm() -> None:
    assert steps(replace(LAB, ray=Ray(workers=RayNodes(count=2)))) == [
        "write files", "start ray-worker-2", "accounting", "wait"]  # fmt: skip
    assert steps(replace(LAB, ray=Ray(workers=RayNodes(count=0)))) == [
        "write files", "remove ray-worker-1", "accounting", "wait"]  # fmt: skip


def test_a_daemon_that_does_not_run_is_started() -> None:
    facts = replace(FACTS, containers={**FACTS.containers, "slurmctld": container("slurmctld", "exited")}, config=None,
                    nodes={}, partitions={}, silent=("slurmctld does not run",))  # fmt: skip
    assert steps(LAB, facts) == ["write files", "start slurmctld", "reconfigure", "accounting", "wait"]


def test_slurmdbd_is_restarted_for_its_own_file() -> None:
    assert "restart slurmdbd" in steps(replace(LAB, slurm=Slurm(private_data=("jobs",))))


def test_what_a_reconfigure_does_not_survive_starts_everything_anew() -> None:
    wanted = replace(LAB, slurm=Slurm(extra={"HashPlugin": "hash/sha3"}))
    assert steps(wanted)[0] == "drain c1, c2"
    assert "start slurmctld, slurmdbd, login" in steps(wanted)


class FakeCluster:
    """Answers commands from a table: the first entry whose words all occur in the command."""

    def __init__(self, folder: Path, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.log: list[str] = []
        self.settings = SimpleNamespace(generated=folder)
        self.lab = LAB

    def exec(self, service: str, argv: list[str], *, check: bool = True, **_: Any) -> Result:
        words = " ".join([service, *argv])
        self.log.append(words)
        for key, answer in self.answers.items():
            if all(part in words for part in key.split()):
                text = answer.pop(0) if isinstance(answer, list) and len(answer) > 1 else answer
                text = text[0] if isinstance(text, list) else text
                if isinstance(text, LabError) and check:
                    raise text
                return Result(0, str(text), "")
        return Result(0, "", "")

    def compose(self, *args: str, **_: Any) -> Result:
        self.log.append(f"compose {' '.join(args)}")
        return Result(0, "", "")

    write_file = Cluster.write_file

    def write_files(self) -> list[str]:
        self.log.append("write")
        return []

    def log_tail(self, _service: str, _lines: int) -> str:
        return "slurmctld: fatal: no such plugin"


def applier(tmp_path: Path, answers: dict[str, Any], *, force: bool = False) -> tuple[Applier, FakeCluster]:
    cluster = FakeCluster(tmp_path, answers)
    return Applier(cast(Cluster, cluster), Progress(), force=force), cluster


ROWS = "\n".join(NODE.format(name) for name in ("c1", "c2"))


def test_busy_nodes_are_drained_and_nothing_else_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "LEAVE_S", 0)
    one, cluster = applier(tmp_path, {"show node": ROWS, "squeue": "7 (alice, RUNNING, c2)"})
    with pytest.raises(LabError) as caught:
        one.run([Step("drain", ("c2",)), Step("write files"), Step("wait")])
    assert "7 (alice, RUNNING, c2)" in caught.value.what
    assert "done: nothing" in caught.value.what and "not done: drain c2, write files, wait" in caught.value.what
    assert "FORCE=1" in caught.value.hint
    assert "slurmctld scontrol update NodeName=c2 State=DRAIN Reason=make apply" in cluster.log
    assert "write" not in cluster.log


def test_force_takes_the_nodes_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "LEAVE_S", 0)
    one, cluster = applier(tmp_path, {"show node": ROWS, "squeue": ["7 (alice, RUNNING, c2)", ""]}, force=True)
    one.run([Step("drain", ("c2",))])
    assert cluster.log.count("slurmctld scontrol update NodeName=c2 State=DOWN Reason=make apply") == 1


def test_users_with_jobs_stay(tmp_path: Path) -> None:
    one, cluster = applier(tmp_path, {"squeue": "7 (alice, RUNNING)"})
    with pytest.raises(LabError, match="have jobs: 7"):
        one.run([Step("let go of", ("alice",)), Step("write files")])
    assert "write" not in cluster.log


def test_a_reconfigure_that_works_restarts_nothing(tmp_path: Path) -> None:
    one, cluster = applier(
        tmp_path, {"ping": "Slurmctld(primary) at slurmctld is UP", "show config": "HASH_VAL = Match"}
    )
    one.run([Step("reconfigure")])
    assert not any(line.startswith("compose") for line in cluster.log)


def test_slurmctld_that_cannot_live_with_its_files_gets_the_former_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "wait_for", lambda what, probe, ok=bool, **_: _once(what, probe, ok))
    one, cluster = applier(tmp_path, {"ping": "is UP", "show config": "HASH_VAL = Different"})
    (tmp_path / "etc/slurm").mkdir(parents=True)
    (tmp_path / "etc/slurm/slurm.conf").write_text("new\n")
    one.former = {"etc/slurm/slurm.conf": "old\n"}
    with pytest.raises(LabError, match="fatal: no such plugin; it runs with the former"):
        one.run([Step("reconfigure"), Step("accounting")])
    assert (tmp_path / "etc/slurm/slurm.conf").read_text() == "old\n"
    assert cluster.log.count("compose restart slurmctld") == 2


def _once(what: str, probe: Any, ok: Any) -> Any:
    answer = probe()
    if not ok(answer):
        raise LabError(what)
    return answer


def test_resume_takes_back_only_its_own_drains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "wait_nodes", lambda *_: None)
    text = f"{NODE.format('c1')} Reason=make apply [root@now]\n{NODE.format('c2')} Reason=bad fan"
    one, cluster = applier(tmp_path, {"show node": text})
    one.run([Step("resume", ("c1", "c2"))])
    assert cluster.log[-1] == "slurmctld scontrol update NodeName=c1 State=RESUME"


def test_another_cluster_name_is_refused() -> None:
    cluster = cast(Cluster, SimpleNamespace(lab=LAB))
    refuse_other_cluster(cluster, replace(FACTS, config={"ClusterName": "lab"}))
    with pytest.raises(LabError, match="cannot become lab"):
        refuse_other_cluster(cluster, replace(FACTS, config={"ClusterName": "old"}))
