"""A small valid lab as YAML text, and how tests change it and see what the loader says."""

from __future__ import annotations

from provisioning.load import LabInvalid, load_text

SMALL = """\
name: small
slurm:
  preempt_mode: REQUEUE
nodes:
  - name: c[1-2]
    cpus: 8
    real_memory: 16000
    gres: gpu:a100:2
  - name: cpu1
    cpus: 4
    real_memory: 8000
partitions:
  - name: gpu
    nodes: c[1-2]
    default: yes
    max_time: 01:00:00
qos:
  - name: normal
  - name: low
  - name: high
    preempt: [low]
accounts:
  - name: research
    qos: [normal, low, high]
  - name: teamA
    parent: research
users:
  - name: alice
    uid: 2001
    accounts: [research]
  - name: bob
    uid: 2002
    accounts: [teamA, research]
"""


def changed(old: str, new: str) -> str:
    """The small lab with one text replaced; the text must be there."""
    assert old in SMALL, old
    return SMALL.replace(old, new, 1)


def said(text: str) -> list[str]:
    """What the loader says about a text, a line a problem; nothing if it is valid."""
    try:
        load_text(text, "small.yaml")
    except LabInvalid as invalid:
        assert all(problem.remedy for problem in invalid.problems), invalid
        return str(invalid).splitlines()
    return []
