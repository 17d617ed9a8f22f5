"""Slurm's answers as data, and waiting for a job, over a login node that plays back what Slurm printed."""

import shlex
from collections.abc import Sequence
from typing import Any

import pytest

from provisioning.cluster import Result
from provisioning.errors import LabError
from smoke import slurm
from smoke.login import NOTED
from smoke.slurm import SEPARATOR, Slurm, parse_indices, parse_job, parse_records, parse_table

RUNNING = (
    "JobId=7 JobName=two words UserId=alice(2001) GroupId=labusers(2000) JobState=RUNNING Reason=None "
    "Dependency=(null) NumNodes=3 NodeList=c[1-3] AllocTRES=cpu=12,mem=96G,node=3,billing=12,gres/gpu=5 "
    "Nodes=c[1-2] CPU_IDs=0-3 Mem=32768 GRES=gpu:a100:2(IDX:0-1) Nodes=c3 CPU_IDs=0-3 Mem=32768 "
    "GRES=gpu:a100:1(IDX:7),shard:a100:0(IDX:) StdOut=/home/alice/smoke/logs/x-7.out TresPerNode=gres/gpu:2\n"
)
PENDING = "JobId=8 JobName=x JobState=PENDING Reason={reason} NodeList= AllocTRES=(null) StdOut=/dev/null\n"


class FakeDoor:
    """Answers a command with the first answer whose key begins it; several answers are given one after the other."""

    def __init__(self, **answers: list[Result | str]) -> None:
        self.answers = answers
        self.calls: list[str] = []

    def exec(self, service: str, argv: Sequence[str], *, user: str = "root", workdir: str | None = None,
             **_: Any) -> Result:  # fmt: skip
        assert (service, user, workdir) == ("login", "alice", "/home/alice/smoke")
        assert argv[:4] == ["bash", "-lc", 'exec "$@"', "bash"]
        command = shlex.join(argv[4:])
        self.calls.append(command)
        name = next(one for one in self.answers if one in argv[4:])
        answers = self.answers[name]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return answer if isinstance(answer, Result) else Result(0, answer, "")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def table(*rows: str) -> str:
    return "\n".join(row.replace("|", SEPARATOR) for row in rows) + "\n"


def test_job_fields_and_gpu_indices_by_node() -> None:
    job = parse_job(parse_records(RUNNING)[0])
    assert (job.id, job.state, job.fields["JobName"]) == ("7", "RUNNING", "two words")
    assert job.nodes == ["c1", "c2", "c3"]
    assert job.tres == {"cpu": "12", "mem": "96G", "node": "3", "billing": "12", "gres/gpu": "5"}
    assert job.grants == {"c1": (0, 1), "c2": (0, 1), "c3": (7,)}
    assert str(job) == "RUNNING"


def test_shards_are_shares_of_gpus() -> None:
    parts = "Nodes=c[1-2] GRES=shard:3(0/4,2/4,0/4,1/4) Nodes=c3 GRES=shard:a100:1(1/4,0/4)"
    job = parse_job(parse_records(f"JobId=1 JobState=RUNNING NodeList=c[1-3] {parts}\n")[0])
    assert (job.grants, job.shares) == ({}, {"c1": (1, 3), "c2": (1, 3), "c3": (0,)})


def test_pending_job_holds_nothing() -> None:
    job = parse_job(parse_records(PENDING.format(reason="Resources"))[0])
    assert (job.nodes, job.tres, job.grants, str(job)) == ([], {}, {}, "PENDING (Resources)")


@pytest.mark.parametrize(("text", "indices"), [("", ()), ("3", (3,)), ("0-2,7", (0, 1, 2, 7)), ("0,4-5", (0, 4, 5))])
def test_indices(text: str, indices: tuple[int, ...]) -> None:
    assert parse_indices(text) == indices


def test_table_is_read_by_its_header() -> None:
    assert parse_table(table("State|JobID", "COMPLETED|7", "CANCELLED by 2001|8")) == [
        {"State": "COMPLETED", "JobID": "7"},
        {"State": "CANCELLED by 2001", "JobID": "8"},
    ]
    assert parse_table("") == []


def test_table_with_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        parse_table(table("State|JobID", "COMPLETED"))


def test_submit_returns_the_id_and_the_step_notes_the_command() -> None:
    door = FakeDoor(sbatch=["12;lab\n"])
    noted: list[str] = []
    token = NOTED.set(noted)
    try:
        assert Slurm(door).submit("train.slurm", "--epochs", "2", options=["--mem=1G"]) == "12"
    finally:
        NOTED.reset(token)
    assert noted == ["sbatch --parsable --mem=1G train.slurm --epochs 2"]


def test_a_refused_submission_says_what_slurm_said() -> None:
    refusal = "sbatch: error: Batch job submission failed: Requested node configuration is not available"
    with pytest.raises(LabError, match=r"exit status 1: .*Requested node configuration"):
        Slurm(FakeDoor(sbatch=[Result(1, "", refusal)])).submit("train.slurm")


def test_wait_state_returns_the_job() -> None:
    door = FakeDoor(scontrol=[PENDING.format(reason="None"), PENDING.format(reason="Resources"), RUNNING])
    assert Slurm(door).wait_state("7", ["RUNNING"]).state == "RUNNING"
    assert len(door.calls) == 3


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            RUNNING.replace("RUNNING", "FAILED").replace("=None", "=NonZeroExitCode"),
            "FAILED .NonZeroExitCode., it cannot",
        ),
        (PENDING.format(reason="JobHeldUser"), "PENDING .JobHeldUser., it cannot become RUNNING"),
    ],
)
def test_wait_state_gives_up_when_the_state_has_become_impossible(answer: str, message: str) -> None:
    door = FakeDoor(scontrol=[answer])
    with pytest.raises(LabError, match=message):
        Slurm(door).wait_state("7", ["RUNNING"])
    assert len(door.calls) == 1


def test_a_held_job_may_be_what_is_wanted() -> None:
    held = FakeDoor(scontrol=[PENDING.format(reason="JobHeldUser")])
    assert Slurm(held).wait_state("8", ["PENDING"]).reason == "JobHeldUser"


def test_wait_state_is_bounded_and_says_what_it_last_saw() -> None:
    door = FakeDoor(scontrol=[PENDING.format(reason="Resources")])
    with pytest.raises(LabError, match=r"job 8 RUNNING: not within 0 s; last seen: PENDING \(Resources\)"):
        Slurm(door).wait_state("8", ["RUNNING"], timeout_s=0)


def test_the_latest_accounting_record_counts() -> None:
    head = slurm.SACCT_FIELDS.replace(",", "|")
    columns = head.split("|")

    def row(state: str) -> str:
        return "|".join(state if name == "State" else "1" for name in columns)

    door = FakeDoor(sacct=[table(head), table(head, row("PREEMPTED"), row("PENDING")),
                           table(head, row("PREEMPTED"), row("CANCELLED by 2001"))])  # fmt: skip
    assert Slurm(door).wait_recorded("7")["State"] == "CANCELLED by 2001"
    assert len(door.calls) == 3
    assert "--duplicates" in door.calls[0]


def test_queue_columns_have_names() -> None:
    line = SEPARATOR.join(
        ["7", "gpu", "two words", "alice", "PENDING", "0:00", "2", "Resources", "", "normal", "9", "N/A"]
    )
    rows = Slurm(FakeDoor(squeue=[f"{line}\n"])).queue("--me")
    assert (rows[0]["name"], rows[0]["reason"], rows[0]["node_list"]) == ("two words", "Resources", "")


def test_clean_up_cancels_what_was_submitted_and_nothing_else() -> None:
    door = FakeDoor(sbatch=["1\n", "2\n"], scancel=[""])
    one = Slurm(door)
    one.clean_up()
    assert door.calls == []
    one.submit("a")
    one.submit("b")
    one.clean_up()
    assert door.calls[-1] == "scancel --quiet 1 2"
