"""Steps, lanes and the screen of the smoke run."""

import io

import pytest
from rich.console import Console

from provisioning.errors import LabError
from smoke.check import NotHere, Outcome, Step, check, run_lanes, run_step
from smoke.login import NOTED
from smoke.run import Screen, results


def raising(error: Exception):
    def run() -> str:
        raise error

    return run


def test_a_step_that_passes_keeps_its_commands() -> None:
    def run() -> str:
        noted = NOTED.get()
        assert noted is not None
        noted.append("sbatch x")
        return "job 1"

    outcome = run_step(Step("a", "a job", run), set())
    assert (outcome.verdict, outcome.seen, outcome.commands) == ("ok", "job 1", ("sbatch x",))
    assert NOTED.get() is None


@pytest.mark.parametrize(
    ("error", "verdict", "seen"),
    [
        (LabError("PENDING (Resources)", "squeue"), "FAILED", "PENDING (Resources)"),
        (NotHere("no node has two GPUs"), "left out", "no node has two GPUs"),
        (KeyError("State"), "FAILED", "KeyError: 'State'"),
    ],
)
def test_a_step_that_raises(error: Exception, verdict: str, seen: str) -> None:
    outcome = run_step(Step("a", "", raising(error)), set())
    assert outcome.verdict == verdict
    assert outcome.seen.startswith(seen)


def test_check() -> None:
    check(True, "seen")
    with pytest.raises(LabError, match="seen"):
        check(False, "seen", "squeue")


def test_lanes_go_on_after_a_failure_and_leave_out_only_what_needs_it() -> None:
    ran: list[str] = []

    def good(name: str):
        return lambda: ran.append(name) or name

    one = [Step("a", "", raising(LabError("no"))), Step("b", "", good("b"), needs=("a",)), Step("c", "", good("c"))]
    two = [Step("d", "", good("d"))]
    last = [Step("e", "", good("e"), needs=("b", "d")), Step("f", "", good("f"), needs=("c", "d"))]
    outcomes = run_lanes([one, two], last, lambda _: None, lambda _: None)
    assert [(o.step.name, o.verdict) for o in outcomes] == [
        ("a", "FAILED"), ("b", "left out"), ("c", "ok"), ("d", "ok"), ("e", "left out"), ("f", "ok")]  # fmt: skip
    assert sorted(ran) == ["c", "d", "f"]
    assert "needs: a" in outcomes[1].seen


def test_what_needs_a_step_that_the_lab_cannot_do_is_left_out_too() -> None:
    steps = [Step("a", "", raising(NotHere("no GPU"))), Step("b", "", lambda: "b", needs=("a",))]
    assert [o.verdict for o in run_lanes([steps], [], lambda _: None, lambda _: None)] == ["left out", "left out"]


def test_a_failure_names_command_expectation_sight_and_next_look() -> None:
    text = io.StringIO()
    console = Console(file=text, width=100, soft_wrap=True)
    screen = Screen(console, 1)
    step = Step("sacct", "COMPLETED 0:0", lambda: "", "S3")
    screen.begun(step)
    screen.done(Outcome(step, "FAILED", 1.0, "FAILED 1:0 [x]", "sacct -j 7", ("scontrol show job 7",)))
    screen.stop()
    lines = [line.split() for line in text.getvalue().splitlines()]
    assert lines[0][3:] == ["FAILED", "sacct", "(S3)"]
    assert lines[1:] == [
        ["$", "scontrol", "show", "job", "7"],
        ["expected", "COMPLETED", "0:0"],
        ["saw", "FAILED", "1:0", "[x]"],
        ["look", "at", "sacct", "-j", "7"],
    ]


def test_the_table_has_a_row_a_step() -> None:
    text = io.StringIO()
    outcome = Outcome(Step("sacct", "", lambda: "", "S3"), "ok", 1.25, "COMPLETED 0:0\nmore")
    Console(file=text, width=100).print(results([outcome]))
    assert text.getvalue().splitlines()[1].split() == ["sacct", "S3", "1.2", "ok", "COMPLETED", "0:0"]
