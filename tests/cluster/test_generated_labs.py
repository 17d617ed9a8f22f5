"""Labs that validate are labs that Slurm takes: a slurmctld of the pinned version starts with what is rendered."""

from __future__ import annotations

import base64
import io
import re
import tarfile

from hypothesis import HealthCheck, Phase, given, settings

from provisioning.cluster import Cluster, run_local
from provisioning.images import image_name
from provisioning.lab import Lab
from provisioning.render import render
from tests.properties.lab_strategy import labs

#: A controller in a container of its own, without accounting, so without QOS; its nodes' names are not looked up.
CHANGES = (
    (r"(?m)^SlurmctldHost=.*$", "SlurmctldHost=slurmctld(127.0.0.1)"),
    (r"(?m)^(AccountingStorage|JobAcctGather).*\n", ""),
    (r" (TRESBillingWeights|AllowQos|QOS|AllowAccounts|DenyAccounts)=\S*", ""),
    (r"(?m)^(NodeName=.*)$", r"\1 NodeAddr=127.0.0.1"),
)
START = """
mkdir -p /run/slurmctld /var/spool/slurmctld; cd /etc/slurm; base64 -d | tar -xz
ln -sf /usr/local/lib/lab/job_submit.lua .; head -c 1024 /dev/urandom >slurm.key; chmod 600 slurm.key
chown -R slurm: . /run/slurmctld /var/spool/slurmctld
slurmctld -D >/tmp/log 2>&1 &
for i in $(seq 300); do
    grep -q "Running as primary" /tmp/log && { echo started; break; }
    kill -0 $! 2>/dev/null || break
    sleep 0.1
done
grep -E "error:|fatal:|Running as" /tmp/log
"""


@settings(
    max_examples=8, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(generated=labs())
def test_slurmctld_starts_with_a_generated_lab(cluster: Cluster, generated: Lab) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, text in render(generated).items():
            if path.startswith("etc/slurm/") and not path.endswith("slurmdbd.conf"):
                for pattern, new in CHANGES:
                    text = re.sub(pattern, new, text)
                entry = tarfile.TarInfo(path.removeprefix("etc/slurm/"))
                entry.size = len(text.encode())
                tar.addfile(entry, io.BytesIO(text.encode()))
    image = image_name("slurm", cluster.settings.slurm)
    command = ["docker", "run", "--rm", "-i", "--hostname=slurmctld", image, "bash", "-c", START]
    said = run_local(command, stdin=base64.b64encode(packed.getvalue()).decode(), timeout_s=90).stdout
    assert said.startswith("started"), f"{said}\n{render(generated)['etc/slurm/slurm.conf']}"
    assert "fatal:" not in said
    wrong = [line for line in said.splitlines() if re.search(r"error: .*(pars|invalid|Invalid|unrecognized)", line)]
    assert not wrong, wrong
