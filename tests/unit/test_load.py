"""YAML that does not guess: texts stay texts, and everything wrong is said at once, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from provisioning import yamltext
from provisioning.lab import Lab
from provisioning.load import LabInvalid, lab_names, load_lab, load_text
from tests.unit.small_lab import SMALL, changed, said


def small(old: str = "", new: str = "") -> Lab:
    return load_text(changed(old, new) if old else SMALL, "small.yaml")


def test_the_small_lab_is_read_whole() -> None:
    lab = small()
    assert [(nodes.name, nodes.cpus, nodes.real_memory, nodes.gres) for nodes in lab.nodes] == [
        ("c[1-2]", 8, "16000", "gpu:a100:2"), ("cpu1", 4, "8000", "")]  # fmt: skip
    assert lab.partitions[0].default is True
    assert lab.qos[2].preempt == ("low",)
    assert lab.users[1].accounts == ("teamA", "research")
    assert (lab.slurm.preempt_type, lab.ray.head.cpus) == ("preempt/qos", 0)


@pytest.mark.parametrize("text", ["12:30:00", "1-00:00:00", "90", "08", "UNLIMITED"])
def test_a_time_stays_the_text_that_was_written(text: str) -> None:
    assert small("01:00:00", text).partitions[0].max_time == text


def test_words_that_yaml_takes_for_something_else() -> None:
    text = changed(
        "preempt_mode: REQUEUE", "preempt_type: preempt/none\n  preempt_mode: off\n  extra: {CpuFreqDef: 1e3}"
    )
    lab = load_text(text, "small.yaml")
    assert lab.slurm.preempt_mode == "OFF"
    assert lab.slurm.extra == {"CpuFreqDef": "1e3"}


@pytest.mark.parametrize("text", ["[normal, low]", "normal,low", "normal, low", "\n    - normal\n    - low"])
def test_a_list_may_be_a_list_or_a_text_with_commas(text: str) -> None:
    assert small("qos: [normal, low, high]", f"qos: {text}").accounts[0].qos == ("normal", "low")


@pytest.mark.parametrize("text", ["SUSPEND,GANG", "[SUSPEND, GANG]", "suspend,gang"])
def test_preempt_mode_is_one_text_as_slurm_writes_it(text: str) -> None:
    assert small("preempt_mode: REQUEUE", f"preempt_mode: {text}").slurm.preempt_mode == "SUSPEND,GANG"


@pytest.mark.parametrize(("text", "value"), [("yes", True), ("TRUE", True), ("No", False), ("false", False)])
def test_yes_and_no(text: str, value: bool) -> None:
    lab = small("preempt_mode: REQUEUE", f"priority_favor_small: {text}")
    assert lab.slurm.priority_favor_small is value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "small.yaml: the file is empty; start from provisioning/labs/default.yaml"),
        ("# nothing\n", "small.yaml: the file is empty"),
        ("- a\n", "small.yaml:1: the file is not a map"),
        ("name", "small.yaml:1: the file is not a map"),
        (SMALL + "---\nname: b\n", "small.yaml:34: the file has several documents"),
        (changed("slurm:", "slurm: &a"), "small.yaml:2: anchors and aliases"),
        (changed("slurm:", "slurm: *a\nx:"), "small.yaml:2: anchors and aliases"),
        (changed("name: small", "name: !!str small"), "small.yaml:1: tags (!name)"),
        (changed("name: small", "name: !!python/object/apply:os.system [ls]"), "small.yaml:1: tags (!name)"),
        (changed("  preempt_mode", "\tpreempt_mode"), "indent with spaces, not with tabs"),
        (changed("gres: gpu", "gres: [gpu"), "small.yaml:9: this is not YAML"),
        ("a: " + "[" * 5000, "nested more than 12 deep"),
        ("? [a]\n: b\n", "a key must be a text"),
        ("name: \0", "this is not YAML"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(text: str, message: str) -> None:
    assert len(lines := said(text)) == 1
    assert message in lines[0]


def test_without_libyaml_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        SMALL,
        changed("cpus: 8", "cpus:"),
        changed("cpus: 8", "cpus: ''"),
        "a: " + "[" * 500,
        SMALL + "---\nb: 1\n",
    ]
    with_it = [said(text) for text in texts]
    monkeypatch.setattr(yamltext, "_LOADER", yaml.SafeLoader)
    assert [said(text) for text in texts] == with_it


def test_a_repeated_key_does_not_win_silently() -> None:
    assert said(changed("    cpus: 8\n", "    cpus: 8\n    cpus: 9\n")) == [
        "small.yaml:7: the key 'cpus' is there twice, first in line 6; keep one of them"
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cpus: 8", "cpu: 8", "small.yaml:6: nodes[0].cpu: is not a key of a lab; did you mean cpus?"),
        (
            "max_time:",
            "MaxTime:",
            "small.yaml:16: partitions[0].MaxTime: is not a key of a lab; did you mean max_time?",
        ),
        ("name: small", "name: small\nzzz: 1", "zzz: is not a key of a lab; valid: accounts, description, name, nodes"),
        ("cpus: 8", "cpus: eight", "nodes[0].cpus: 'eight' is not a whole number"),
        ("cpus: 8", "cpus: 8.0", "nodes[0].cpus: '8.0' is not a whole number"),
        ("cpus: 8", "cpus: 0", "nodes[0].cpus: 0 is out of range; write 1 to 65533"),
        ("cpus: 8", "cpus:", "nodes[0].cpus: has no value"),
        ("cpus: 8", "cpus: [8]", "nodes[0].cpus: a list stands where one value belongs"),
        ("    cpus: 8\n", "", "small.yaml:5: nodes[0].cpus: is missing; write it: CPUs the node claims to have"),
        ("default: yes", "default: maybe", "partitions[0].default: 'maybe' is neither yes nor no"),
        (
            "max_time: 01:00:00",
            "max_time: 1h",
            "partitions[0].max_time: '1h' is not a Slurm time; write minutes, MM:SS",
        ),
        ("16000", "16GB", "nodes[0].real_memory: '16GB' is not a memory size; write megabytes or a suffix"),
        ("gpu:a100:2", "gpu=2", "nodes[0].gres: 'gpu=2' is not of the form name:type:count"),
        ("- name: low", "- name: lo w", "qos[1].name: 'lo w' is not a name"),
        ("- name: low", "- low", "qos[1]: a map of keys and values belongs here"),
        ("users:\n", "users: alice\nx:\n", "users: a list belongs here"),
        ("preempt: [low]", "preempt: {low: 1}", "qos[2].preempt: a map stands where a list belongs"),
        ("preempt: [low]", "preempt: [low, low]", "qos[2].preempt: the same name is there twice"),
        ("preempt_mode: REQUEUE", "preempt_mode: REQUEU", "'REQUEU' is not known here; did you mean REQUEUE?"),
        ("preempt_mode: REQUEUE", "extra: [a]", "slurm.extra: a map belongs here"),
        ("preempt_mode: REQUEUE", "extra: {JobRequeue: '1 # x'}", "slurm.extra.JobRequeue: there is a # in it"),
        ("preempt_mode: REQUEUE", 'extra: {JobRequeue: "1\\nAuthType=x"}', "there is a line break"),
        ("preempt_mode: REQUEUE", "autodetect: nvml", "slurm.autodetect: is not a key of a lab; leave it out: the lab"),
        ("name: small", 'name: small\ndescription: "two\\nlines"', "description: the text has '\\n' in it"),
        ("accounts: [research]", "accounts: []", "users[0].accounts: is empty"),
    ],
)
def test_a_slip_is_named_with_its_place_and_what_to_write(old: str, new: str, message: str) -> None:
    assert any(message in line for line in said(changed(old, new))), said(changed(old, new))


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    text = SMALL.replace("cpus: 4", "cpus: four").replace("max_time: 01:00:00", "max_time: 25h")
    text = text.replace("preempt: [low]", "preempt: [lov]").replace("uid: 2002", "uid: 2001")
    assert [line.split("; ")[0] for line in said(text)] == [
        "small.yaml:10: nodes[1].cpus: 'four' is not a whole number",
        "small.yaml:16: partitions[0].max_time: '25h' is not a Slurm time",
        "small.yaml:21: qos[2].preempt: 'lov' is not in qos",
        "small.yaml:32: users[1].uid: 2001 is the uid of alice too",
    ]


@pytest.mark.parametrize("new", ["nam: low", "name: '*'", "name:"])
def test_a_broken_entry_does_not_make_others_look_wrong(new: str) -> None:
    assert [line for line in said(changed("- name: low", f"- {new}")) if "is not in qos" in line] == []


def test_a_file_is_read_by_name_or_path(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text("\ufeff" + SMALL, encoding="utf-8")
    assert load_lab(str(path)).name == "small"
    path.rename(tmp_path / "other.yaml")
    with pytest.raises(LabInvalid, match="small is not the name of the file; write name: other"):
        load_lab(str(tmp_path / "other.yaml"))


def test_an_unknown_lab_lists_the_labs() -> None:
    with pytest.raises(
        LabInvalid, match=f"LAB=defualt: there is no such lab; write one of {', '.join(lab_names())}"
    ) as no:
        load_lab("defualt")
    assert no.value.hint == "did you mean default?"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (SMALL.encode("utf-16"), "not UTF-8"), (b"name: \xff\n", "small.yaml:1: the text is not UTF-8"),
        (b"name: x\n" + b"#" * 1_000_001, "more than 1,000,000 bytes"), (None, "No such file or directory"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes | None, message: str) -> None:
    path = tmp_path / "small.yaml"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(LabInvalid, match=message) as no:
        load_lab(str(path))
    assert len(no.value.problems) == 1


def test_many_problems_are_not_a_wall() -> None:
    text = SMALL + "".join(f"k{number}: 1\n" for number in range(200))
    assert len(lines := said(text)) == 51
    assert lines[-1] == "and 150 more"
