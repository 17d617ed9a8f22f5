"""What is refused at submit, what only waits, and with which words: memory, accounts, QOS."""

from __future__ import annotations

import pytest

from provisioning.cluster import Cluster
from provisioning.lab import Lab
from smoke.slurm import Slurm
from tests.cluster.people import Person, settle

NO_ACCOUNT = "Invalid account or account/partition combination specified"
POLICY = "Job violates accounting/QOS policy"


def qos_table(person: Slurm, *columns: str) -> dict[str, list[str]]:
    """sacctmgr's own table of QOS, by name."""
    text = person.login.run("sacctmgr", "-nP", "show", "qos", f"format=Name,{','.join(columns)}").stdout
    rows = [line.split("|") for line in text.splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_memory_of_a_whole_node_and_one_more(alice: Person) -> None:
    """Case 5: exactly RealMemory is accepted, one MB more is refused at submit, on any node."""
    whole = alice.batch({"whole": "-w c1 --mem=515000"})["whole"]
    assert alice.wait_state(whole, ("RUNNING",)).tres["mem"] == "515000M"
    said = alice.refusals({"more": "--mem=515001", "on each": "--nodes=2 --mem=515001"})
    assert all("Memory specification can not be satisfied" in text for text in said.values()), said


def test_who_has_no_association_is_refused(cluster: Cluster, alice: Person, scratch: str) -> None:
    """Case 6: an unknown account, a user without one, and a directive with a variable in it."""
    assert NO_ACCOUNT in alice.refusals({"unknown": "--account=nobody"})["unknown"]
    stranger = cluster.exec("login", ["sbatch", "--wrap", "true"], user="nobody", workdir="/tmp", check=False)
    assert stranger.exit_code != 0
    assert NO_ACCOUNT in stranger.stderr
    script = rf"printf '#!/bin/bash\n#SBATCH --account=$proj\ntrue\n' > {scratch}/s; proj=research sbatch {scratch}/s"
    said = alice.sh(f"{script} && echo accepted || echo status $?", check=False)
    assert NO_ACCOUNT in said
    assert "status 1" in said
    assert alice.sh(f"export proj=teaching; sbatch --test-only --account=$proj {scratch}/s; echo status $?").endswith(
        "status 0\n"
    )


def test_an_association_that_holds_for_one_partition(alice: Person, operator: Slurm) -> None:
    """Case 7: refused until -A names the account and -p its partition; sacctmgr shows what is allowed."""
    show = ("sacctmgr", "-nP", "show", "assoc", "where", "user=alice", "format=account,partition")
    assert {"research|", "teaching|"} <= set(alice.login.run(*show).stdout.split())
    try:
        operator.login.run("sacctmgr", "-i", "add", "account", "tied")
        operator.login.run("sacctmgr", "-i", "add", "user", "alice", "account=tied", "partition=gpu-batch")
        assert "tied|gpu-batch" in alice.login.run(*show).stdout.split()
        said = alice.refusals({"default partition": "-A tied", "another": "-A tied -p gpu-debug"})
        assert all(NO_ACCOUNT in text for text in said.values()), said
        job = alice.batch({"right": ("-A tied -p gpu-batch", "true")})["right"]
        assert alice.wait_recorded(job)["Account"] == "tied"
    finally:
        alice.leave()
        operator.login.run("sacctmgr", "-i", "delete", "account", "tied")


def test_a_ladder_of_qos_comes_back_as_it_was_written(more: Lab, alice: Person) -> None:
    """Case 8: the table of sacctmgr; longer than its MaxWall a job waits for good, or is refused with DenyOnLimit."""
    found = qos_table(alice, "Priority", "MaxWall", "MaxTRESPU", "Flags")
    written = {
        one.name: [str(one.priority), one.max_wall, one.max_tres_per_user, ",".join(one.flags)] for one in more.qos
    }
    ladder = ("dev", "regular", "long", "strict")
    assert {name: found[name] for name in ladder} == {name: written[name] for name in ladder}
    assert found["long"] == ["30", "4-04:00:00", "gres/gpu=4", ""]
    jobs = alice.batch(
        {"dev": "--qos=dev --time=121", "fits": "--qos=dev --time=120", "regular": "--qos=regular --time=121"}
    )
    alice.wait_seen({
        jobs["dev"]: "PENDING QOSMaxWallDurationPerJobLimit", jobs["fits"]: "RUNNING", jobs["regular"]: "RUNNING",
    })  # fmt: skip
    said = alice.refusals({"longer": "--qos=strict --time=121", "larger": "--qos=strict --gres=gpu:3"})
    assert "QOSMaxWallDurationPerJobLimit" in said["longer"]
    assert "QOSMaxGRESPerUser" in said["larger"]
    assert all(POLICY in text for text in said.values()), said


def test_each_cap_has_its_own_reason(alice: Person, bob: Person) -> None:
    """Case 9: the user's own cap, the QOS's cap for all, the account's cap."""
    held = alice.batch({
        "own": "--qos=capped --gres=gpu:4", "group": "--qos=group --gres=gpu:2", "account": "-A teamA --gres=gpu:2",
    })  # fmt: skip
    alice.wait_seen(dict.fromkeys(held.values(), "RUNNING"))
    asks = {"own": "--qos=capped --gres=gpu:1", "group": "--qos=group --gres=gpu:1", "account": "-A teamA --gres=gpu:1"}
    mine, bobs = alice.batch(asks), bob.batch(asks)
    alice.wait_seen({
        mine["own"]: "PENDING QOSMaxGRESPerUser", bobs["own"]: "RUNNING",
        mine["group"]: "PENDING QOSGrpGRES", bobs["group"]: "PENDING QOSGrpGRES",
        mine["account"]: "PENDING AssocGrpGRES", bobs["account"]: "PENDING AssocGrpGRES",
    })  # fmt: skip
    alice.cancel(held["group"])
    alice.wait_seen({mine["group"]: "RUNNING", bobs["group"]: "RUNNING"})


def test_memory_in_a_qos_is_in_megabytes(alice: Person) -> None:
    """Case 10: without a unit; suffixes work too, and sacctmgr shows what they come to."""
    found = qos_table(alice, "MaxTRES")
    assert (found["megabytes"], found["gigabytes"]) == (["mem=2000M"], ["mem=2G"])
    jobs = alice.batch({
        "fits": "--qos=megabytes --mem=2000", "more": "--qos=megabytes --mem=2001",
        "fits too": "--qos=gigabytes --mem=2048", "more too": "--qos=gigabytes --mem=2049",
    })  # fmt: skip
    alice.wait_seen({
        jobs["fits"]: "RUNNING", jobs["more"]: "PENDING QOSMaxMemoryPerJob",
        jobs["fits too"]: "RUNNING", jobs["more too"]: "PENDING QOSMaxMemoryPerJob",
    })  # fmt: skip


def test_too_many_jobs_are_refused_or_delayed(alice: Person, bob: Person) -> None:
    """Case 11: beyond MaxSubmitJobsPU refused, beyond MaxJobsPU only delayed; for each user by themselves."""
    first, second, third = alice.batch(dict.fromkeys(("first", "second", "third"), "--qos=few")).values()
    waiting = "PENDING QOSMaxJobsPerUserLimit"
    alice.wait_seen({first: "RUNNING", second: waiting, third: waiting})
    said = alice.refusals({"fourth": "--qos=few", "array": "--qos=few --array=1-2"})
    assert all("QOSMaxSubmitJobPerUserLimit" in text and POLICY in text for text in said.values()), said
    bob.wait_seen({bob.batch({"first": "--qos=few"})["first"]: "RUNNING"})
    alice.cancel(first)
    alice.wait_seen({second: "RUNNING", third: waiting})


def test_order_and_capitals_in_the_yaml_are_no_drift(cluster: Cluster, more: Lab, alice: Person) -> None:
    """Case 12: `urgent` names QOS that come after it, `teamA` comes back in lower case: there is nothing left to do."""
    names = [one.name for one in more.qos]
    assert names.index("urgent") < names.index("young")
    assert qos_table(alice, "Preempt")["urgent"] == ["graced,young"]
    assert alice.login.run("sacctmgr", "-nP", "show", "account", "teamA", "format=account").stdout.strip() == "teama"
    assert settle(cluster, more) == []


@pytest.mark.parametrize("ends", ["\\r\\n", "\\n"], ids=["DOS", "Unix"])
def test_line_ends_of_a_batch_script(alice: Person, ends: str) -> None:
    """Case 23: DOS line ends are refused with a text that says so."""
    said = alice.sh(
        f"printf '#!/bin/bash{ends}#SBATCH --begin=now+1hour{ends}true{ends}' | sbatch --parsable", check=False
    )
    if ends == "\\n":
        alice.submitted.append(said.strip())
        assert said.strip().isdigit()
    else:
        assert "Batch script contains DOS line breaks" in said
