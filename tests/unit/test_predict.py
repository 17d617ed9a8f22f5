"""The calculator: its numbers, and one clear line for bad input."""

from __future__ import annotations

import pytest

from smoke import predict


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert predict.main(argv) == 0
    return capsys.readouterr().out


def test_preemption(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "preemption", "--work", "8h", "--checkpoint-every", "30m", "--checkpoint-cost", "2m",
                "--preemptions", "3", "--requeue-wait", "40m")  # fmt: skip
    for figure in ("677 min = 11 h 17 min", "1.41", "86.2 %", "25.3 min"):
        assert figure in text


def test_never_ends(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "preemption", "--work", "8h", "--checkpoint-every", "none", "--checkpoint-cost", "0m")
    assert "never ends" in text


@pytest.mark.parametrize(
    ("argv", "figures"),
    [
        (["fragmentation"], ["25.0 %", "= 8", "waits (Resources)"]),
        (["utilization"], ["+28.6 %"]),
        (
            ["backfill", "--running", "r:3:1h", "--queue", "first:4:30m", "--queue", "short:1:50m"],
            ["now, passes", "in 1 h"],
        ),
        (["fairshare"], ["0.500", "1.000"]),
        (["granularity"], ["50.0 %", "9 s"]),
        (["gang-deadlock"], ["deadlock: A, B wait for ever", "A, B end in 2 rounds"]),
        (["elastic-rlhf"], ["30 min, 50.0 %", "15 min, 100.0 %", "2.00"]),
    ],
)
def test_every_model(capsys: pytest.CaptureFixture[str], argv: list[str], figures: list[str]) -> None:
    text = said(capsys, *argv)
    for figure in figures:
        assert figure in text


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["preemption", "--work", "8"], "'8' is not a duration"),
        (["preemption", "--work", "none"], "must have an end"),
        (["preemption", "--preemptions", "-1"], "cannot be negative"),
        (["preemption", "--preemptions", "three"], "invalid int value"),
        (["fragmentation", "--taken", "5,9"], "node 2 cannot have 9 of 8"),
        (["fragmentation", "--taken", "many"], "is not a list of whole numbers"),
        (["utilization", "--before", "0"], "between 0 and 100 %"),
        (["utilization", "--before", "170%"], "is not a share"),
        (["backfill"], "--queue"),
        (["backfill", "--queue", "first"], "NAME:NODES:LIMIT"),
        (["elastic-rlhf", "--gpus", "1"], "at least 2 GPUs"),
        (["nonsense"], "nonsense"),
        ([], "predict what?"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str], argv: list[str], line: str) -> None:
    try:
        status: object = predict.main(argv)
    except SystemExit as error:
        status = error.code
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    assert line in captured.err
