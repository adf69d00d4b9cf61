"""`bench prepare edival --check-csv`: counts of an instruction file, and agreement of our chain rules with it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import Result

from editcritic.benchmarks.suites.edival import published_counts
from editcritic.benchmarks.suites.edival.construction import ChainState
from editcritic.benchmarks.suites.edival.construction_tasks import ListedObject, instruction_of
from editcritic.benchmarks.suites.edival.published_counts import counts, expected
from editcritic.benchmarks.suites.edival.reader import read_instruction_file
from editcritic.reward.metrics.edival.task_parser import parse_task

from ....edival_chains import CHAINS, Row, write_chains

Command = Callable[..., Result]

COUNTED = {
    "rows": 15,
    "chains": 5,
    "problems": 0,
    "highest image_index": 5,
    **dict.fromkeys((name for name in expected() if ", turn " in name), 0),
    **dict.fromkeys((f"{rows[turn - 1].type}, turn {turn}" for rows in CHAINS.values() for turn in (1, 2, 3)), 1),
    "position_change, turn 3": 2,
    "text_change, turn 2": 2,
    "count_change in literal quotes": 1,
    "position_change in literal quotes": 1,
    "turns without a background to keep": 4,
    "turns without an object to keep": 4,
    "turns without either": 1,
    "instructions parsed as their type only, with the slots in brackets": 15,
    "instructions worded as by our construction": 15,
    "first turns whose pools follow from the image's objects": 5,
    "later turns": 10,
    "later turns whose pools follow from the previous turn": 9,
    "background changes whose pools lack objects of later turns": 1,
    "later turns whose pools follow with the first image's foreground": 10,
}


@pytest.fixture
def file(tmp_path):
    return write_chains(tmp_path / "chains.csv")


def test_what_a_file_holds_is_counted(file):
    assert counts(read_instruction_file(file)) == COUNTED
    assert COUNTED.keys() == expected().keys()


def changed(file: Path, index: int, turn: int, **fields: object) -> dict[str, int]:
    """What differs from `COUNTED` when one row is another."""
    rows = list(CHAINS[index])
    rows[turn - 1] = replace(rows[turn - 1], **fields)  # type: ignore[arg-type]
    first, second, third = rows
    counted = counts(read_instruction_file(write_chains(file, {**CHAINS, index: (first, second, third)})))
    return {name: count - COUNTED[name] for name, count in counted.items() if count != COUNTED[name]}


def test_pools_that_do_not_follow_are_not_counted_as_following(file):
    previous = "later turns whose pools follow from the previous turn"
    backgrounds = "background changes whose pools lack objects of later turns"
    first_turns = "first turns whose pools follow from the image's objects"
    first_image = "later turns whose pools follow with the first image's foreground"
    for (index, turn), fields, names in (
        ((1, 3), {"available": ("dog", "ball")}, [previous, first_image]),
        ((0, 3), {"unchanged": ("lamp", "table")}, [backgrounds, first_image]),
        ((5, 1), {"unchanged": ("hat", "scarf")}, [first_turns, previous, first_image]),
    ):
        assert changed(file, index, turn, **fields) == dict.fromkeys(names, -1)


def test_slots_and_wording_are_compared_with_the_brackets(file):
    slots, worded = (
        "instructions parsed as their type only, with the slots in brackets",
        "instructions worded as by our construction",
    )

    class Otherwise(Row):
        instruction = "Remove the ball, please"

    rows = (Otherwise("subject_remove", "Remove [ball]", ("dog",), ("dog",), ("dog", "ball")), *CHAINS[1][1:])
    counted = counts(read_instruction_file(write_chains(file, {**CHAINS, 1: rows})))
    assert (counted[slots], counted[worded]) == (14, 14)
    assert changed(file, 1, 1, format="Remove [the] ball")[slots] == -1


def test_each_count_is_shown_beside_the_published_one(editcritic, file):
    ran = editcritic("bench", "prepare", "edival", "--check-csv", file)
    assert ran.exit_code == 1
    assert "DIFFERS  chains: 5, expected 572" in ran.stdout
    assert "DIFFERS  later turns whose pools follow from the previous turn: 9, expected 1069" in ran.stdout
    assert "agrees   problems: 0\n" in ran.stdout
    agree = sum(COUNTED[name] == number for name, number in expected().items())
    assert f"{agree} of {len(COUNTED)} counts of {file} equal those of the published file" in ran.stdout
    document = json.loads(editcritic("bench", "prepare", "edival", "--check-csv", file, "--json").stdout)
    assert document["exit_code"] == 1
    assert {"name": "rows", "expected": 1716, "counted": 15, "agrees": False} in document["checks"]


def test_a_file_with_every_expected_count_is_said_to_be_the_published_one(editcritic, file, monkeypatch):
    types = [count for name, count in expected().items() if ", turn " in name]
    assert (len(types), sum(types), expected()["rows"]) == (27, 1716, 1716), "table 2"
    monkeypatch.setattr(published_counts, "expected", lambda: COUNTED)
    ran = editcritic("bench", "prepare", "edival", "--check-csv", file)
    assert ran.exit_code == 0
    assert "DIFFERS" not in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dlebench", "--check-csv", "chains.csv"], "--check-csv compares an instruction file of edival"),
        (["edival", "--check-csv", "chains.csv", "--download"], "give no other option"),
        (["edival", "--check-csv", "chains.csv", "--stats"], "give no other option"),
        (["edival", "--check-csv", "none.csv"], "cannot read none.csv: No such file"),
    ],
)
def test_what_cannot_be_compared_is_refused(editcritic, arguments, message):
    ran = editcritic("bench", "prepare", *arguments)
    assert ran.exit_code == 2
    assert message in ran.stderr


def test_chains_are_worded_and_carry_pools_on_as_published_but_for_backgrounds_after_which_objects_are_forgotten(file):
    differing = []
    for turns in read_instruction_file(file).turns.values():
        tasks = [task for turn in turns if (task := parse_task(turn.instructions[-1])) is not None]
        for task, turn in zip(tasks, turns, strict=True):
            assert instruction_of(task, turn.formats[-1]) == turn.instructions[-1]
        for before, turn, task in zip(turns, turns[1:], tasks[1:], strict=False):
            objects = {name: ListedObject(name, name) for name in before.pools.available}
            ours = ChainState(before.pools, objects).apply(task).pools
            if ours != turn.pools:
                differing.append((turn.index, turn.number))
                # The released code keeps what was in the foreground of the original picture, and so drops what an
                # earlier turn has added or renamed, although its own instruction says that it is to stay. The paper
                # keeps the foreground objects of the pool (section 2.3), and so do we.
                assert ours == replace(turn.pools, available=("lamp", "spoon", "blue cup"))
    assert differing == [(0, 3)]
