"""Who goes first: priority, fairshare, backfill, and softer preemption (claims S7, S8, P6, P7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from provisioning.cluster import Cluster
from provisioning.lab import Lab
from provisioning.slurmtypes import parse_time
from provisioning.waiting import wait_for
from smoke.slurm import Slurm
from tests.cluster.people import Person

pytestmark = pytest.mark.usefixtures("overdue")

SPRIO = "sprio --noheader --format='%i|%Y|%A|%F|%J|%P|%Q'"
PARTS = ("age", "fairshare", "job_size", "partition", "qos")


@dataclass(frozen=True)
class Share:
    """A line of sshare."""

    usage: float
    factor: float


def shares(person: Slurm, account: str) -> dict[str, Share]:
    """The users of an account, as sshare prints them."""
    argv = ("sshare", "--all", "-nP", f"--accounts={account}", "--format=User,RawUsage,FairShare")
    rows = (line.split("|") for line in person.login.run(*argv).stdout.splitlines())
    return {user: Share(float(usage), float(factor)) for user, usage, factor in rows if user}


def priorities(text: str) -> dict[str, tuple[int, dict[str, int]]]:
    """Priority and its parts of each job, from SPRIO's lines."""
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if "|" in line]
    return {job: (int(total), dict(zip(PARTS, map(int, parts), strict=True))) for job, total, *parts in rows}


@dataclass(frozen=True)
class Burned:
    """Shares in the account `even` before and after, and CPU-seconds of each user's job."""

    before: dict[str, Share]
    after: dict[str, Share]
    work: dict[str, float]


@pytest.fixture(scope="module")
def burned(cluster: Cluster, more: Lab) -> Iterator[Burned]:  # noqa: ARG001 - its account and its QOS are used
    """Bob and alice do the same work in an account with equal shares, alice under a QOS with UsageFactor=0."""
    operator = Slurm(cluster, "root", folder="").login
    operator.run("scontrol", "reconfigure")  # fairshare is counted anew then, otherwise once a minute
    people = {"bob": Person(cluster, "bob"), "alice": Person(cluster, "alice")}
    qos = {"bob": "normal", "alice": "free"}
    before = shares(people["bob"], "even")
    jobs = {}
    try:
        for user, one in people.items():
            jobs |= {user: one.batch({"burn": (f"-A even --qos={qos[user]} --cpus-per-task=30", "sleep 2")})["burn"]}
        work = {user: 30 * float(one.wait_recorded(jobs[user])["ElapsedRaw"]) for user, one in people.items()}
        operator.run("scontrol", "reconfigure")
        yield Burned(before, shares(people["bob"], "even"), work)
    finally:
        for one in people.values():
            one.leave()


@pytest.mark.usefixtures("burned")  # so that factors differ
def test_priority_is_the_weighted_sum_of_its_factors(cluster: Cluster, alice: Person, bob: Person) -> None:
    """S7: each part of sprio follows from the YAML, sshare and the job's size."""
    lab = cluster.lab
    alice.wait_seen(dict.fromkeys(alice.batch({"full": "--nodes=4 --gres=gpu:8"}).values(), "RUNNING"))
    small, debug = alice.batch({
        "small": "--gres=gpu:1",
        "debug": "--partition=gpu-debug --qos=debug --gres=gpu:1",
    }).values()  # fmt: skip
    large, even = bob.batch({
        "large": "--partition=gpu-batch --qos=low --nodes=4 --ntasks=4 --cpus-per-task=64 --gres=gpu:1",
        "even": "-A even --gres=gpu:1",
    }).values()  # fmt: skip
    asked = {  # user and account, partition, qos, nodes, cpus
        small: (("alice", "research"), "gpu", "normal", 1, 1),
        debug: (("alice", "research"), "gpu-debug", "debug", 1, 1),
        large: (("bob", "teaching"), "gpu-batch", "low", 4, 256),
        even: (("bob", "even"), "gpu", "normal", 1, 1),
    }
    sshare = "sshare --all -nP --format=Account,User,FairShare"

    def looked() -> tuple[str, str, str]:
        """Both between two counts of the priorities, which come every few seconds."""
        before, between, after = alice.sh(f"{sshare}; echo --; {SPRIO}; echo --; {sshare}").split("--\n")
        return before, between, after

    shown, found, _ = wait_for(
        "sprio between two equal looks at sshare",
        looked,
        lambda seen: seen[0] == seen[2] and set(priorities(seen[1])) == set(asked),
        timeout_s=30,
    )
    fairshare = {(account.strip(), user): float(factor)
                 for account, user, factor in (line.split("|") for line in shown.splitlines()) if user}  # fmt: skip
    weights = {name: int(lab.slurm.priority_weights[name]) for name in PARTS}
    factors = {one.name: one.priority_job_factor or 1 for one in lab.partitions}
    qos = {one.name: one.priority for one in lab.qos}
    cpus = 64 * 4
    for job, (total, parts) in priorities(found).items():
        who, partition, quality, nodes, asked_cpus = asked[job]
        assert abs(total - sum(parts.values())) <= 2  # each part is rounded
        expected = {
            "age": 0.0,  # of a week: nothing yet
            "fairshare": fairshare[who[1], who[0]],
            "job_size": (nodes / 4 + asked_cpus / cpus) / 2,
            "partition": factors[partition] / max(factors.values()),
            "qos": qos[quality] / max(qos.values()),
        }
        for name, factor in expected.items():
            assert abs(parts[name] - weights[name] * factor) <= 1, (asked[job], name, parts)


def test_who_burned_time_falls_behind_who_did_not(burned: Burned, alice: Person, bob: Person) -> None:
    """S7: sshare before and after; then alice goes first although second in line."""
    assert burned.before["bob"].usage <= burned.before["alice"].usage
    assert burned.before["bob"].factor >= burned.before["alice"].factor
    assert burned.after["bob"].factor < burned.after["alice"].factor
    full = alice.batch({"full": "-w c1 --gres=gpu:8"})["full"]
    alice.wait_seen({full: "RUNNING"})
    same = "-A even -w c1 --gres=gpu:8"
    second, first = bob.batch({"bobs": same})["bobs"], alice.batch({"alices": same})["alices"]

    found = priorities(alice.sh(SPRIO))
    assert found[first][1]["fairshare"] > found[second][1]["fairshare"]
    assert found[first][0] > found[second][0]
    alice.cancel(full)
    alice.wait_seen({first: "RUNNING", second: "PENDING"})


def test_usage_factor_0_is_not_counted(burned: Burned) -> None:
    """P7: equal work; what ran under UsageFactor=0 costs nothing, the other its CPU-seconds."""
    assert burned.work["alice"] >= 60
    grown = {user: burned.after[user].usage - burned.before[user].usage for user in burned.work}
    assert grown["alice"] == 0
    assert abs(grown["bob"] - burned.work["bob"]) <= 30 * 1.5  # records have whole seconds


def test_backfill_lets_a_short_job_pass_and_no_long_one(alice: Person) -> None:
    """S8: the first in line keeps its expected start; only what is over by then may use the hole."""
    running, first = alice.batch({"running": "-w c1 --gres=gpu:5", "first": "-w c1 --gres=gpu:8"}).values()
    end = datetime.fromisoformat(alice.wait_state(running, ("RUNNING",)).fields["EndTime"])

    def expected(job: str) -> datetime:
        text = wait_for(f"an expected start of job {job}", lambda: alice.job(job).fields["StartTime"],
                        lambda text: text != "Unknown", timeout_s=30)  # fmt: skip
        return datetime.fromisoformat(text)

    promised = expected(first)
    assert abs(promised - end) <= timedelta(minutes=1)  # backfill's grid
    long, short = alice.batch({"long": "-w c1 --gres=gpu:3 --time=30", "short": "-w c1 --gres=gpu:3 --time=5"}).values()
    alice.wait_seen({short: "RUNNING", first: "PENDING Resources", long: "PENDING"})
    assert expected(long) >= promised + timedelta(minutes=10)
    assert expected(first) == promised


def test_a_young_job_is_not_preempted_yet(more: Lab, alice: Person) -> None:
    """P6: PreemptExemptTime protects the young; without it, and once it is over, the urgent job gets the place."""
    exempt_s = parse_time(next(one for one in more.qos if one.name == "young").preempt_exempt_time) or 0
    victims = alice.batch({"young": "--qos=young -w c1 --gres=gpu:8", "low": "--qos=low -w c2 --gres=gpu:8"})
    alice.wait_seen(dict.fromkeys(victims.values(), "RUNNING"))
    urgent = alice.batch({"young": "--qos=urgent -w c1 --gres=gpu:8", "low": "--qos=high -w c2 --gres=gpu:8"})
    alice.wait_seen(dict.fromkeys(urgent.values(), "RUNNING"))
    rows = {name: alice.wait_preempted(job) for name, job in victims.items()}
    starts = {name: alice.wait_recorded(job, ("RUNNING",)) for name, job in urgent.items()}
    waited = {name: int(row["Start"]) - int(row["Submit"]) for name, row in starts.items()}
    assert int(rows["young"]["ElapsedRaw"]) >= exempt_s
    assert int(rows["low"]["ElapsedRaw"]) < exempt_s
    assert waited["young"] > waited["low"]


def test_a_suspended_job_keeps_its_gpus(alice: Person, operator: Slurm) -> None:
    """P6: SUSPEND stops processes and frees CPUs, no GPU: who needs one waits, also with a QOS that preempts."""
    held = alice.batch({"held": "-w c1 --gres=gpu:8 --cpus-per-task=64"})["held"]
    alice.wait_seen({held: "RUNNING"})
    operator.login.run("scontrol", "suspend", held)
    alice.wait_seen({held: "SUSPENDED"})
    cpus = alice.batch({"cpus": "-w c1 --cpus-per-task=64"})["cpus"]
    alice.wait_seen({cpus: "RUNNING"})
    gpu = alice.batch({"gpu": "--qos=high -w c1 --gres=gpu:1"})["gpu"]
    alice.wait_seen({cpus: "RUNNING", gpu: "PENDING Resources"})
    used = operator.login.run("sinfo", "-hN", "-n", "c1", "-p", "gpu", "-O", "GresUsed:60").stdout
    assert used.strip() == "gpu:a100:8(IDX:0-7)"
    alice.cancel(cpus, gpu)
    wait_for("c1 has one job", lambda: alice.queue("-w", "c1"), lambda rows: len(rows) == 1, timeout_s=30)
    operator.login.run("scontrol", "resume", held)
    alice.wait_seen({held: "RUNNING"})
