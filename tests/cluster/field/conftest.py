"""What these tests share: more QOS and accounts, and jobs for which slurmctld's half-minute look is awaited early."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from provisioning.cluster import Cluster
from provisioning.lab import Lab
from provisioning.waiting import wait_for
from tests.cluster.people import Person, more_accounting

# The signal of --signal=...@60 comes at slurmctld's next look at a job of one minute. Each job gets this limit only
# when its trap is set: a look before that would end it.
WAITS = """
trap 'echo batch USR1 >> {out}' USR1
touch {out}.ready
sleep 300 & wait
echo over >> {out}
"""
DEFERS = """
trap 'echo batch USR1 >> {out}' USR1
touch {out}.ready
bash -c 'until [ -s {seen} ]; do sleep 0.2; done; sleep 2; echo foreground over >> {out}'
echo over >> {out}
"""
# A loop, not "sleep 300 & wait": the signal ends a step's children too, perhaps before the shell itself hears it.
STEP = """
trap 'echo batch USR1 >> {out}' USR1
srun bash -c 'trap "echo step USR1 >> {out}; exit 0" USR1; touch {out}.ready
              while :; do sleep 0.1; done'
echo over >> {out}
"""
# $EPOCHSECONDS, not date: the signals end the children too. It is bash's, and --wrap gives a script to sh.
GRACED = """
exec bash << 'END'
trap 'echo batch TERM $EPOCHSECONDS >> {out}; exit 0' TERM
srun bash -c 'for s in CONT TERM; do trap "echo step $s \\$EPOCHSECONDS >> {out}" $s; done
              echo ready >> {out}; while :; do sleep 0.1; done' &
while :; do sleep 0.1; done
END
"""


@dataclass(frozen=True)
class Early:
    """Jobs by name, and what each has written so far."""

    alice: Person
    folder: str
    jobs: dict[str, str]

    def lines(self, name: str) -> list[str]:
        """What a job has noted."""
        return self.alice.login.read(f"{self.folder}/{name}").splitlines()


@pytest.fixture(scope="package")
def more(cluster: Cluster) -> Iterator[Lab]:
    """More QOS and accounts than the lab has, until the last of these tests."""
    with more_accounting(cluster) as lab:
        yield lab


@pytest.fixture(scope="package", autouse=True)
def early(cluster: Cluster, more: Lab) -> Iterator[Early]:  # noqa: ARG001 - its QOS are used
    """Jobs that wait for a signal, on c4; the tests that look at them come last."""
    alice = Person(cluster, "alice")
    folder = alice.sh("mktemp -d /scratch/early-XXXXXX").strip()
    scripts = {"deferred": DEFERS, "step": STEP, "batch": WAITS, "graced": GRACED}
    options = {
        "deferred": "-w c4 --signal=B:USR1@60",  # first, so that its signal is not the last
        "batch": "-w c4 --signal=B:USR1@60",
        "step": "-w c4 --signal=USR1@60",
        "graced": "-w c4 --qos=graced --gres=gpu:8",
    }
    try:
        jobs = alice.batch({
            name: (asked, scripts[name].format(out=f"{folder}/{name}", seen=f"{folder}/batch"))
            for name, asked in options.items()
        })  # fmt: skip
        found = Early(alice, folder, jobs)
        wait_for("the step of the job with grace", lambda: found.lines("graced"), timeout_s=40)
        warned = ("deferred", "batch", "step")
        marks = " ".join(f"{folder}/{name}.ready" for name in warned)
        wait_for("traps", lambda: alice.sh(f"ls {marks} 2>/dev/null | wc -l").strip(), str(len(warned)).__eq__,
                 timeout_s=40)  # fmt: skip
        alice.sh("\n".join(f"scontrol update JobId={jobs[name]} TimeLimit=1" for name in warned))
        jobs |= alice.batch({"urgent": "-w c4 --qos=urgent --gres=gpu:8"})
        yield found
    finally:
        alice.leave()
        alice.sh(f"rm -rf {folder}")
