"""A lab that is up for days: what grows has a bound."""

from __future__ import annotations

import json

from provisioning.cluster import Cluster

#: A task writes so much, and all files of its worker may hold so much: three of 10 MB.
WRITTEN_MB, KEPT_MB = 60, 32

TALKS = f"""
import json, os, ray
ray.init(log_to_driver=False)

@ray.remote(num_cpus=1)
def talks():
    line = b"x" * 999 + b"\\n"
    for _ in range({WRITTEN_MB}):
        os.write(1, line * 1000)
    return os.getpid(), os.uname().nodename

print(json.dumps(ray.get(talks.remote(), timeout=90)))
"""


def test_the_log_of_a_talkative_ray_task_is_bounded(cluster: Cluster) -> None:
    said = cluster.exec("login", ["bash", "-lc", "timeout 150 python3 -"], user="alice", workdir="/home/alice",
                        stdin=TALKS, timeout_s=160).stdout  # fmt: skip
    pid, node = json.loads(said.splitlines()[-1])
    sizes = cluster.exec(
        node, ["sh", "-c", f"stat -c %s /tmp/ray/session_latest/logs/worker-*-{pid}.out*"]
    ).stdout.split()
    total = sum(map(int, sizes)) / 1e6
    assert 1 < total < KEPT_MB, f"{total:.0f} MB in {len(sizes)} files"
