"""The demo's ranking: the good edit first, the hacks last, and an exit code that says so."""

import pytest
from typer import Typer
from typer.testing import CliRunner

from editcritic.benchmarks.demo import command
from editcritic.benchmarks.demo.candidate_edits import demo_tasks
from editcritic.reward import Score

app = Typer()
app.command()(command.main)


def demo(*options):
    return CliRunner().invoke(app, [str(option) for option in options])


def test_every_row_holds_as_made_with_one_preset():
    ran = demo()
    assert ran.exit_code == 0, ran.output
    assert len(demo_tasks()) >= 8
    assert f"last: in {len(demo_tasks())} of {len(demo_tasks())} rows" in ran.output
    assert "damaged rows" not in ran.output


def test_one_row_holds_as_made_and_damaged():
    ran = demo("--rows", 1, "--damage", "--seeds", 1)
    assert ran.exit_code == 0, ran.output
    assert "last: in 1 of 1 rows" in ran.output
    assert "Order kept in 1 of 1 damaged rows" in ran.output


def test_a_reward_that_cannot_rank_them_fails_the_demo(monkeypatch):
    monkeypatch.setattr(command, "DEFAULT_REWARD", "guard-not-a-copy")
    for options in ((), ("--damage", "--seeds", 2)):
        ran = demo("--rows", 1, *options)
        assert ran.exit_code == 1, ran.output
        assert "last: in 0 of 1 rows" in ran.output
        assert ("Order kept in 0 of 2 damaged rows" in ran.output) == bool(options)


def ranking(**values):
    scores = {name: Score.failed("no") if value is None else Score.of(value) for name, value in values.items()}
    return command.SceneRanking(demo_tasks()[0], tuple(scores.items()))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"good": 0.9, "sloppy": 0.8, "unchanged": 0.0, "blank": 0.0}, True),
        ({"good": 0.9, "sloppy": 0.9, "unchanged": 0.0, "blank": 0.0}, False),
        ({"sloppy": 0.9, "good": 0.8, "unchanged": 0.0, "blank": 0.0}, False),
        ({"good": 0.9, "unchanged": 0.5, "sloppy": 0.4, "blank": 0.0}, False),
        ({"good": 0.9, "unchanged": 0.0, "blank": 0.0, "sloppy": None}, False),
        ({"good": None, "sloppy": None, "unchanged": None, "blank": None}, False),
    ],
)
def test_which_order_is_expected(values, expected):
    assert ranking(**values).is_expected_order is expected
