"""Jobs on one node: each has its own temporary files, nobody meddles with another's, and none leaves anything."""

from __future__ import annotations

import pytest

from provisioning.cluster import Cluster
from provisioning.waiting import wait_for
from tests.cluster.people import Person

NODE = "c2"
#: What the job leaves running: two processes that have left its session and lost their parents.
LEAVES = """
setsid sh -c 'sleep 7654 & sleep 7654 &' > /dev/null 2>&1
until [ $(pgrep -u $(id -u) -cfx 'sleep 7654') = 2 ]; do sleep 0.1; done
mkdir -m 700 /tmp/left /dev/shm/left
touch /tmp/left/file $TMPDIR/there
"""


def on_node(cluster: Cluster, script: str) -> str:
    """What root sees on the node; of a command that fails, nothing."""
    return cluster.exec(NODE, ["sh", "-c", script], check=False).stdout


def wait_on_node(cluster: Cluster, script: str, *words: str) -> None:
    wait_for(f"{script} on {NODE}", lambda: on_node(cluster, script).split(), list(words).__eq__, timeout_s=30,
             show=str)  # fmt: skip


def test_two_users_on_one_node_do_not_reach_each_other(cluster: Cluster, alice: Person, bob: Person) -> None:
    """Bob's job sees neither alice's temporary files nor their names, and cannot end her process."""
    hers = alice.batch({"hers": (f"-w {NODE}", "echo secret > $TMPDIR/mine; exec sleep 600")})["hers"]
    wait_on_node(cluster, f"cat /tmp/jobs/{hers}/mine", "secret")
    pid = on_node(cluster, "pgrep -u alice -x sleep").split()[0]
    tries = {
        "read": f"cat /tmp/jobs/{hers}/mine",
        "list": f"ls /tmp/jobs/{hers}",
        "list all": "ls /tmp/jobs",
        "take a place": f"mkdir /tmp/jobs/{int(hers) + 100}",
        "signal": f"kill {pid}",
        "environment": f"cat /proc/{pid}/environ",
        "memory": f"head -c 1 /proc/{pid}/mem",
        "open files": f"ls /proc/{pid}/fd/",
        "folder": f"ls /proc/{pid}/cwd/",
        "script": f"grep -r secret /var/spool/slurmd/job*{hers}",
    }
    script = "\n".join(f"({command}) >/dev/null 2>&1 && echo '{what}'" for what, command in tries.items())
    own = "touch $TMPDIR/works && echo own"
    job = bob.batch({"his": (f"-w {NODE} -o {bob.login.home}/tries", f"{script}\n{own}")})["his"]
    assert bob.wait_recorded(job)["State"] == "COMPLETED"
    assert bob.sh("cat tries; rm tries") == "own\n"
    assert alice.job(hers).state == "RUNNING"


@pytest.mark.parametrize("end", ["by itself", "scancel", "SIGKILL"])
def test_what_a_job_leaves_running_ends_with_it(cluster: Cluster, alice: Person, end: str) -> None:
    """What proctrack/linuxproc no longer knows goes too; files outside of TMPDIR with the user's last job there."""
    files = "find /tmp /dev/shm -maxdepth 1 -name left -o -name of-bob | sort"
    on_node(cluster, "touch /tmp/of-bob; chown bob /tmp/of-bob")
    other = alice.batch({"other": f"-w {NODE}"})["other"]
    alice.wait_seen({other: "RUNNING"})
    wait_on_node(cluster, "ls /tmp/jobs; pgrep -u alice -ax sleep | cut -d' ' -f2-", other, "sleep", "600")
    last = "exit 0" if end == "by itself" else "exec tail -f /dev/null"
    job = alice.batch({"leaves": (f"-w {NODE}", LEAVES + last)})["leaves"]
    if end != "by itself":
        wait_on_node(cluster, f"ls /tmp/jobs/{job}", "there")
        alice.login.run("scancel", *(["--signal=KILL", "--full"] if end == "SIGKILL" else []), job)
    alice.wait_recorded(job)
    wait_on_node(cluster, "ls /tmp/jobs; pgrep -u alice -ax sleep | cut -d' ' -f2-", other, "sleep", "600")
    assert alice.job(other).state == "RUNNING"
    wait_on_node(cluster, files, "/dev/shm/left", "/tmp/left", "/tmp/of-bob")
    alice.cancel(other)
    wait_on_node(cluster, files, "/tmp/of-bob")
    on_node(cluster, "rm /tmp/of-bob")
