"""New secrets on a running lab: what waits keeps waiting, what is recorded stays, the old ones are of no use."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from provisioning import ray_api
from provisioning.cluster import Cluster, Result
from provisioning.doctor import examine
from provisioning.errors import LabError
from provisioning.redact import read_secrets
from provisioning.rotate import FOLDER, rotate_command
from provisioning.secretfiles import DB_PASSWORD, RAY_TOKEN
from provisioning.waiting import wait_for
from tests.cluster.people import Person

pytestmark = pytest.mark.slow


def status_with(cluster: Cluster, token: str) -> int:
    """What Ray's API answers to somebody with this token, or with none."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://{cluster.dashboard}/api/v0/nodes", headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def password_works(cluster: Cluster, password: bytes) -> bool:
    """Whether slurmdbd's user of the database gets in with this password, over the network as slurmdbd does."""
    script = 'read -r MYSQL_PWD; export MYSQL_PWD; mariadb -h 127.0.0.1 -u slurm -e "SELECT 1" slurm_acct_db'
    done = cluster.exec("db", ["bash", "-c", script], stdin=password.decode() + "\n", check=False)
    assert done.exit_code == 0 or "Access denied" in done.stderr, done.stderr
    return done.exit_code == 0


def digests(cluster: Cluster) -> set[str]:
    """The digests of Slurm's key on every container that has it."""
    services = ("slurmctld", "slurmdbd", "login", *cluster.nodes())
    return {cluster.exec(one, ["sha256sum", "/etc/slurm/slurm.key"]).stdout.split()[0] for one in services}


def wait_well(cluster: Cluster) -> None:
    # other checkouts on this machine may build images of the same names meanwhile
    wait_for("a lab without findings", lambda: [str(one) for one in examine(cluster) if one.where != "images"],
             lambda now: not now, timeout_s=60, show=" / ".join)  # fmt: skip


def check_changed(cluster: Cluster, before: dict[str, bytes]) -> None:
    """The new secrets are in use, the old ones are not."""
    after = read_secrets(cluster.settings.generated / "secrets")
    assert sorted(after) == sorted(before)
    assert all(after[name] != before[name] for name in before)
    assert not (cluster.settings.generated / FOLDER).exists()
    refused = status_with(cluster, "")
    assert refused == 401
    # Ray says 401 to nobody and 403 to somebody with a token that is not its own
    assert status_with(cluster, before[RAY_TOKEN].decode()) in (401, 403)
    assert status_with(cluster, after[RAY_TOKEN].decode()) == 200
    assert (password_works(cluster, before[DB_PASSWORD]), password_works(cluster, after[DB_PASSWORD])) == (False, True)


def test_pending_jobs_and_accounting_outlive_a_rotation(cluster: Cluster, alice: Person) -> None:
    before = read_secrets(cluster.settings.generated / "secrets")
    keys = digests(cluster)
    assert len(keys) == 1
    jobs = alice.batch({"done": ("", "true"), "held": "--hold", "later": "--begin=now+1hour"})
    alice.wait_recorded(jobs["done"], ("COMPLETED",))
    told = alice.records(jobs["done"])
    assert rotate_command(cluster.settings, force=False) == 0
    check_changed(cluster, before)
    new_keys = digests(cluster)
    assert (len(new_keys), new_keys & keys) == (1, set())
    assert alice.seen(jobs["held"], jobs["later"]) == {
        jobs["held"]: "PENDING JobHeldUser", jobs["later"]: "PENDING BeginTime",
    }  # fmt: skip
    assert alice.records(jobs["done"]) == told
    again = alice.batch({"after": ("", "srun hostname")})["after"]
    assert int(again) > int(jobs["later"])
    row = alice.wait_recorded(again, ("COMPLETED",), timeout_s=60)
    assert row["ExitCode"] == "0:0"
    # what reached the queue before and ended after is recorded too
    alice.cancel(jobs["held"])
    alice.wait_recorded(jobs["held"], ("CANCELLED",))
    wait_well(cluster)


def test_ray_jobs_are_taken_with_the_new_token(cluster: Cluster) -> None:
    before = read_secrets(cluster.settings.generated / "secrets")
    rotate_command(cluster.settings, force=False)
    check_changed(cluster, before)
    said = cluster.exec("login", ["bash", "-lc", "ray job submit -- echo new token"], user="alice",
                        workdir="/home/alice", timeout_s=120).stdout  # fmt: skip
    assert "new token" in said
    assert sorted(ray_api.alive_nodes(cluster)) == ["ray-head", *cluster.ray_workers()]


def test_running_jobs_are_named_and_ended_only_by_force(cluster: Cluster, alice: Person) -> None:
    before = read_secrets(cluster.settings.generated / "secrets")
    job = alice.batch({"long": "--requeue"})["long"]
    alice.wait_state(job, ("RUNNING",))
    with pytest.raises(LabError, match=rf"job {job} \(alice, RUNNING\)") as caught:
        rotate_command(cluster.settings, force=False)
    assert "FORCE=1" in caught.value.hint
    assert read_secrets(cluster.settings.generated / "secrets") == before
    assert alice.job(job).state == "RUNNING"
    rotate_command(cluster.settings, force=True)
    check_changed(cluster, before)
    # its first run is closed in accounting, and the job is there to run again
    assert alice.job(job).fields["Restarts"] == "1"
    rows = wait_for(f"the first run of job {job} is recorded", lambda: alice.sacct(job),
                    lambda rows: bool(rows) and rows[0]["End"] != "Unknown", timeout_s=60)  # fmt: skip
    assert rows[0]["State"].split()[0] in ("NODE_FAIL", "REQUEUED", "CANCELLED", "PREEMPTED"), rows
    state = wait_for("the job again", lambda: alice.job(job).state, lambda now: now in ("PENDING", "RUNNING"),
                     timeout_s=60)  # fmt: skip
    assert state in ("PENDING", "RUNNING")
    wait_well(cluster)


@pytest.mark.parametrize("action", ["stop", "start"])
def test_the_next_call_ends_a_rotation_that_was_broken_off(
    cluster: Cluster, alice: Person, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_secrets(cluster.settings.generated / "secrets")
    held = alice.batch({"held": "--hold"})["held"]
    real, calls = Cluster.compose, []

    def breaks(self: Cluster, *words: str, **options: object) -> Result:
        calls.append(words[0])
        # the second group is not stopped any more; or nothing is started
        if words[0] == action and (action == "start" or calls.count("stop") == 2):
            raise LabError("the power went out")
        return real(self, *words, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "compose", breaks)
        with pytest.raises(LabError, match="half done: the power went out") as caught:
            rotate_command(cluster.settings, force=False)
    assert "make rotate-secrets again" in caught.value.hint
    assert [one for one in examine(cluster) if "rotate-secrets did not come to its end" in one.what]
    made = read_secrets(cluster.settings.generated / FOLDER)
    assert rotate_command(cluster.settings, force=False) == 0
    assert read_secrets(cluster.settings.generated / "secrets") == made
    check_changed(cluster, before)
    assert alice.seen(held) == {held: "PENDING JobHeldUser"}
    wait_well(cluster)
