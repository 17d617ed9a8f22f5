"""Slurm when parts of it die, freeze, move or are cut off: for real, in the order of the file, on one running lab.

Each test leaves the lab whole. Bounds are the promise (a node is idle 30 s after its return, slurmctld is back after
10 s) and, beside it, what a busy machine may need for the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from provisioning.cluster import Cluster
from provisioning.ready import node_states
from provisioning.up import up
from provisioning.waiting import wait_for
from smoke.faults import cut_off, docker, frozen, heal, kill_all, killed, removed
from tests.cluster.people import Person

pytestmark = pytest.mark.slow

NODE, OTHER = "c3", "c4"
#: Promised for a node that is back: idle within so many seconds; and for slurmctld to answer again.
IDLE_S, CONTROLLER_S = 30, 10
#: A busy machine may need so many times that.
BUSY = 2
#: The controller is not stalled by a node's absence: an answer takes no longer.
ANSWER_S = 5


def state(cluster: Cluster, node: str = NODE) -> str:
    return str(node_states(cluster)[node])


def wait_idle(cluster: Cluster, node: str = NODE) -> float:
    """Wait until a node takes jobs; return the seconds it took."""
    begun = time.monotonic()
    wait_for(f"{node} idle", lambda: state(cluster, node), lambda text: text == f"{node} idle",
             timeout_s=IDLE_S * BUSY, look_at=f"make logs NODE={node}")  # fmt: skip
    return time.monotonic() - begun


def wait_noticed(cluster: Cluster, node: str = NODE) -> None:
    """Wait until slurmctld calls a silent node DOWN; it must answer quickly all the while, and call no other so."""
    slowest = 0.0

    def ask() -> str:
        nonlocal slowest
        begun = time.monotonic()
        states = node_states(cluster)
        slowest = max(slowest, time.monotonic() - begun)
        assert not [str(now) for name, now in states.items() if name != node and now.state == "down"]
        return str(states[node])

    bound = cluster.lab.slurm.slurmd_timeout * 1.7 + 30
    wait_for(f"{node} down", ask, lambda text: text.startswith(f"{node} down"), timeout_s=bound)
    assert slowest < ANSWER_S * BUSY, f"an answer took {slowest:.1f} s"


def submit(person: Person) -> dict[str, str]:
    """Jobs on the node: one that may be requeued, one that may not, one with a step on another node too.

    slurmctld tells the srun of such a step that a node has failed, and looks up the name of the node where it ran.
    """
    jobs = person.batch({"again": f"-w {NODE} --requeue", "once": f"-w {NODE} --no-requeue",
                         "gang": (f"-w {NODE},{OTHER} -N2 --no-requeue", "srun sleep 3600")})  # fmt: skip
    person.wait_seen(dict.fromkeys(jobs.values(), "RUNNING"))
    wait_for("the step", lambda: person.sh("squeue --noheader --steps --format=%i").split(),
             lambda ids: f"{jobs['gang']}.0" in ids, timeout_s=30)  # fmt: skip
    return jobs


def check_failed_over(person: Person, jobs: dict[str, str]) -> None:
    """NODE_FAIL for all; the one that may goes back into the queue."""
    again = jobs["again"]
    for name in ("once", "gang"):
        assert person.wait_recorded(jobs[name], {"NODE_FAIL"})["State"] == "NODE_FAIL"
    wait_for("the first run's record", lambda: person.sacct(again)[0]["State"], "NODE_FAIL".__eq__, timeout_s=20)
    assert person.job(again).state == "PENDING"
    assert person.job(again).fields["Restarts"] == "1"


@pytest.fixture(autouse=True)
def whole(cluster: Cluster) -> Iterator[None]:
    """Whatever a test left: the lab is up and every node idle when the next one begins."""
    yield
    heal(cluster)
    for node in cluster.nodes():
        wait_idle(cluster, node)


# -- a node


def test_a_killed_node_fails_its_jobs_and_is_idle_soon_after_its_return(cluster: Cluster, alice: Person) -> None:
    jobs = submit(alice)
    with killed(cluster, NODE):
        wait_noticed(cluster)
        check_failed_over(alice, jobs)
    wait_idle(cluster)


def test_a_frozen_node_too(cluster: Cluster, alice: Person) -> None:
    jobs = submit(alice)
    with frozen(cluster, NODE):
        wait_noticed(cluster)
        check_failed_over(alice, jobs)
    alice.cancel(jobs["again"])
    wait_idle(cluster)
    sleepers = ["pgrep", "-u", "alice", "-xa", "sleep"]
    wait_for("nothing of the old run is left", lambda: cluster.exec(NODE, sleepers, check=False).stdout, "".__eq__,
             timeout_s=30)  # fmt: skip


def test_a_node_whose_network_was_cut_too(cluster: Cluster, alice: Person) -> None:
    jobs = submit(alice)
    with cut_off(cluster, NODE):
        wait_noticed(cluster)
        check_failed_over(alice, jobs)
    alice.cancel(jobs["again"])
    wait_idle(cluster)


def test_a_node_that_was_made_anew_has_another_address_and_is_found(cluster: Cluster, alice: Person) -> None:
    def address() -> str:
        return cluster.exec(NODE, ["hostname", "-i"]).stdout.strip()

    was = address()
    with removed(cluster, NODE):
        pass  # another container takes its address meanwhile
    assert address() != was
    wait_idle(cluster)
    assert alice.run("hostname", options=[f"--nodelist={NODE}", "--mem=50M"]).strip() == NODE


def test_a_node_that_was_started_again_at_once_fails_its_jobs_and_keeps_a_drain(
    cluster: Cluster, alice: Person
) -> None:
    """Before slurmctld has noticed anything: it must not go on believing in jobs that have gone with the container."""
    jobs = submit(alice)
    cluster.exec("slurmctld", ["scontrol", "update", f"NodeName={NODE}", "State=DRAIN", "Reason=mend the fan"])
    docker("restart", "--time", "0", cluster.container_name(NODE))
    begun = time.monotonic()
    check_failed_over(alice, jobs)
    assert time.monotonic() - begun < cluster.lab.slurm.slurmd_timeout
    alice.cancel(jobs["again"])
    wait_for("drained as before", lambda: state(cluster), f"{NODE} drained (mend the fan)".__eq__, timeout_s=60)
    cluster.exec("slurmctld", ["scontrol", "update", f"NodeName={NODE}", "State=RESUME"])
    wait_idle(cluster)


def test_a_node_that_starts_while_slurmctld_does_ends_the_jobs_that_it_lost_too(
    cluster: Cluster, alice: Person
) -> None:
    """As after a loss of power: it is there first, and the controller may refuse its first questions."""
    jobs = submit(alice)
    wait_saved(cluster)
    with killed(cluster, "slurmctld"):
        docker("restart", "--time", "0", cluster.container_name(NODE))
        wait_for("it waits for slurmctld", lambda: cluster.exec(NODE, ["pgrep", "-f", "wait-port"], check=False).stdout,
                 timeout_s=20)  # fmt: skip
    begun = time.monotonic()
    check_failed_over(alice, jobs)
    assert time.monotonic() - begun < cluster.lab.slurm.slurmd_timeout
    alice.cancel(jobs["again"])
    wait_idle(cluster)


# -- slurmctld


@contextmanager
def submitting(cluster: Cluster) -> Iterator[Callable[[], list[str]]]:
    """Bob submits one job after the other; what sbatch said to each comes in the end."""
    sbatch = "timeout 40 sbatch --parsable -o /dev/null --mem=10M --time=5 --wrap true"
    script = f"""cd; rm -f said; touch going
    while [ -e going ]; do {sbatch} >> said 2>&1 || echo refused >> said; sleep 0.2; done"""
    docker("exec", "--detach", *cluster.as_user("bob"), cluster.container_name("login"), "bash", "-lc", script)

    def said() -> list[str]:
        return cluster.exec("login", ["cat", "/home/bob/said"], check=False).stdout.splitlines()

    try:
        yield said
    finally:
        cluster.exec("login", ["rm", "-f", "/home/bob/going"])


def test_slurmctld_that_was_killed_is_back_soon_and_running_jobs_end_as_if_nothing_had_been(
    cluster: Cluster, alice: Person, bob: Person
) -> None:
    """Jobs that run, and wait, before the kill are all there; a submission waits or is refused with a message."""
    running = alice.batch({"runs": ("-w c1", "sleep 12; exit 3")})["runs"]
    waiting = alice.batch({"waits": "--begin=now+1hour"})["waits"]
    alice.wait_seen({running: "RUNNING", waiting: "PENDING"})
    saved = wait_saved(cluster)
    assert saved >= 0
    with submitting(cluster) as said:
        wait_for("bob submits", said, lambda lines: len(lines) >= 3, timeout_s=30)
        docker("exec", cluster.container_name("slurmctld"), "pkill", "-KILL", "slurmctld")
        begun = time.monotonic()
        wait_for("slurmctld answers", lambda: cluster.exec("login", ["scontrol", "ping"], check=False).exit_code,
                 (0).__eq__, timeout_s=CONTROLLER_S * BUSY)  # fmt: skip
        back = time.monotonic() - begun
        count = len(said())
        wait_for("bob submits again", said, lambda lines: len(lines) >= count + 3, timeout_s=60)
    assert back < CONTROLLER_S * BUSY
    answers = said()
    assert all(line.isdigit() or "error" in line or line == "refused" for line in answers), answers
    record = alice.wait_recorded(running)
    assert (record["State"], record["ExitCode"]) == ("FAILED", "3:0")
    assert alice.job(waiting).state == "PENDING"
    last = [line for line in answers if line.isdigit()][-1]
    assert bob.wait_recorded(last)["State"] == "COMPLETED"


def save(cluster: Cluster, job: str) -> None:
    """Make slurmctld save its queue, with this job in it."""

    def written() -> str:
        return cluster.exec("slurmctld", ["stat", "-c", "%.9Y", "/var/spool/slurmctld/job_state"], check=False).stdout

    before = written()
    cluster.exec("slurmctld", ["scontrol", "update", f"JobId={job}", "Comment=saved"])
    wait_for("the queue is saved", written, lambda now: now not in ("", before), timeout_s=12)


def test_what_slurmctld_forgets_when_it_is_killed_harms_no_later_job(cluster: Cluster, alice: Person) -> None:
    """Jobs run that it has not saved: their ids are not given again, their processes go, their records are closed.

    Given again, an id would be that of a job on a node still, which would be ended there together with its new owner.
    """
    kept = alice.batch({"kept": ("-w c1", "sleep 600")})["kept"]
    alice.wait_seen({kept: "RUNNING"})
    save(cluster, kept)
    on_node = f"-w {NODE} --gres=gpu:2"
    # the first of them may be saved while the others come
    unsaved = list(alice.batch({f"unsaved{number}": on_node for number in range(4)}).values())[1:]
    wait_for("they run", lambda: cluster.exec(NODE, ["pgrep", "-xc", "sleep"], check=False).stdout.strip(),
             lambda count: count.isdigit() and int(count) >= len(unsaved), timeout_s=4, interval_s=0.1)  # fmt: skip
    with killed(cluster, "slurmctld"):
        pass
    wait_for("slurmctld answers", lambda: cluster.exec("login", ["scontrol", "ping"], check=False).exit_code,
             (0).__eq__, timeout_s=CONTROLLER_S * BUSY)  # fmt: skip
    later = alice.batch({f"later{number}": (on_node, "sleep 3") for number in range(4)})
    known = {row["id"] for row in alice.queue("--states=all")}
    forgotten = [job for job in unsaved if job not in known]
    assert forgotten, "everything was saved: the kill came too late"
    assert min(map(int, later.values())) > max(map(int, unsaved))
    for job in later.values():
        assert alice.wait_recorded(job, timeout_s=60)["State"] == "COMPLETED"
    assert alice.job(kept).state == "RUNNING"
    for job in forgotten:
        assert alice.wait_recorded(job, timeout_s=60)["Start"].isdigit()
    wait_for("their processes are gone", lambda: cluster.exec(NODE, ["ls", "/tmp/jobs"]).stdout.split(),
             lambda jobs: not set(forgotten) & set(jobs), timeout_s=30, show=str)  # fmt: skip


def test_a_job_that_began_just_before_slurmctld_was_killed_runs_again_and_its_node_is_not_drained(
    cluster: Cluster, alice: Person
) -> None:
    """It is saved as waiting. slurmctld may start it once more on the node that runs it, and drains that for it."""
    job = alice.batch({"late": (f"-w {NODE} --begin=now+15 --requeue", "sleep 4")})["late"]
    save(cluster, job)
    wait_for("it runs", lambda: cluster.exec(NODE, ["ls", "/tmp/jobs"]).stdout.split(), lambda jobs: job in jobs,
             timeout_s=60, interval_s=0.1, show=str)  # fmt: skip
    with killed(cluster, "slurmctld"):
        pass

    # 24.11 holds a requeued job back for two minutes
    states = wait_for("its record", lambda: [row["State"] for row in alice.sacct(job)],
                      lambda states: bool(states) and states[-1] in ("COMPLETED", "FAILED"),
                      timeout_s=200, interval_s=2, show=str)  # fmt: skip
    assert len([state for state in states if state != "REQUEUED"]) == 1
    wait_idle(cluster)


def test_slurmctld_killed_before_it_saved_all_of_its_state_starts_again(cluster: Cluster, alice: Person) -> None:
    """Usage is saved minutes after the first start: what is missing then is not to keep it from starting."""
    waits = alice.batch({"waits": "--hold"})["waits"]
    save(cluster, waits)
    folder = "/var/spool/slurmctld"
    late = [f"{folder}/{name}{old}" for name in ("assoc_usage", "qos_usage") for old in ("", ".old")]
    cluster.exec("slurmctld", ["rm", "-f", *late])
    with killed(cluster, "slurmctld"):
        pass
    assert alice.job(waits).state == "PENDING"


def test_ids_go_on_without_a_gap_when_slurmctld_ends_by_itself(cluster: Cluster, alice: Person) -> None:
    before = int(alice.batch({"before": "--hold"})["before"])
    docker("restart", "--time", "20", cluster.container_name("slurmctld"))
    wait_for("slurmctld answers", lambda: cluster.exec("login", ["scontrol", "ping"], check=False).exit_code,
             (0).__eq__, timeout_s=CONTROLLER_S * BUSY)  # fmt: skip
    assert int(alice.batch({"after": "--hold"})["after"]) == before + 1


def _saved_s(cluster: Cluster) -> float:
    """Seconds between the last change of the queue and its last saving; negative while it is not saved."""
    text = cluster.exec("slurmctld", ["stat", "-c", "%Y", "/var/spool/slurmctld/job_state"]).stdout
    newest = cluster.exec("slurmctld", ["squeue", "-h", "-o", "%V"], env={"SLURM_TIME_FORMAT": "%s"}).stdout.split()
    return float(text) - max(map(float, newest)) - 1


def wait_saved(cluster: Cluster) -> float:
    """Wait until slurmctld has saved its queue; return how long after its last change."""
    return wait_for("the queue is saved", lambda: _saved_s(cluster), lambda age: age >= 0, timeout_s=30)


# -- accounting


@pytest.mark.parametrize("service", ["slurmdbd", "db"])
def test_no_record_is_lost_while_accounting_is_away(cluster: Cluster, alice: Person, service: str) -> None:
    """200 jobs end while it is away; sacct has them all afterwards."""
    with killed(cluster, service):
        options = "--parsable -o /dev/null --mem=10M --time=5 --array=1-200"
        job = alice.sh(f"sbatch {options} --wrap true").strip()
        alice.submitted.append(job)
        wait_for("200 jobs have ended", lambda: alice.sh(f"squeue -h -r -j {job} -t PD,R,CG | wc -l").strip(),
                 "0".__eq__, timeout_s=240)  # fmt: skip

    def states() -> dict[str, int]:
        # without --duplicates: 24.11 may leave the start of one task once more, without an end
        rows = alice.sh(f"sacct -nX -j {job} -o State").split()
        return {one: rows.count(one) for one in set(rows)}

    wait_for("200 records", states, {"COMPLETED": 200}.__eq__, timeout_s=120, show=str)


# -- all of it


def test_all_containers_killed_at_once_come_back_with_queue_homes_and_records(cluster: Cluster, alice: Person) -> None:
    """As when the host loses its power: what waited waits, what ran is requeued or failed as it asked, in order."""
    done = alice.batch({"done": ("", "echo kept > ~/kept")})["done"]
    assert alice.wait_recorded(done)["State"] == "COMPLETED"
    jobs = submit(alice)
    held = list(alice.batch({f"held{number}": "--hold" for number in range(3)}).values())
    wait_saved(cluster)
    kill_all(cluster)
    up(cluster.settings)
    order = cluster.exec("slurmctld", ["squeue", "-h", "-t", "PD", "-S", "i", "-o", "%i"]).stdout.split()
    assert [job for job in order if job in held] == held
    check_failed_over(alice, jobs)
    for node in cluster.nodes():
        wait_idle(cluster, node)
    assert alice.wait_recorded(done)["State"] == "COMPLETED"
    assert alice.login.read("/home/alice/kept") == "kept\n"
    new = alice.batch({"new": ("", "true")})["new"]
    assert int(new) > int(held[-1])
    assert alice.wait_recorded(new)["State"] == "COMPLETED"
