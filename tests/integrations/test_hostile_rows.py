"""Rows of strangers' data sets, through each adapter: training goes on, that row has no reward, and the reason is kept.

A row that is too large, names what is no picture, or holds what is no character stands between two good ones.
"""

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.integrations.trainers.trainer_reward import UnscoredError
from editcritic.integrations.trl.editing_environment import EditingEnvironments
from editcritic.integrations.trl.reward_function import RewardFunction
from editcritic.reward import Reward
from editcritic.reward.image import PixelFormatError

from ..reward.fakes import Fake, Rated, picture
from ..verifiers.numpy_editor import Painter, graded
from .trainers.entries import ENTRIES, Row

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs or device files")

GOOD = picture(1)
OPERATION = {"type": "subject_remove", "target": {"noun": "cup"}}
PLAN = {"operations": [OPERATION] * 1_000}
THIN = np.zeros((1, 1_000_000, 3), np.uint8)

TEXTS: dict[str, tuple[dict[str, Any], str]] = {
    "long instruction": ({"instruction": "x" * 4_001}, "4,001 characters"),
    "surrogate": ({"instruction": "make it \ud800"}, "lone surrogate"),
}
"""What each trainer has a field for: the changed column, and the reason."""
FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "plan": ({"plan": PLAN}, "at most 16 items"),
    "long noun": ({"plan": {"operations": [{**OPERATION, "target": {"noun": "x" * 5_000}}]}}, "at most"),
    "plan of a surrogate": (
        {"plan": {"operations": [{**OPERATION, "target": {"noun": "\ud800"}}]}},
        "unicode|lone surrogate",
    ),
    "boxes": ({"boxes": {"cup": [[0, 0, 4, 4]] * 5_000}}, "4,096 boxes"),
    "labels": ({"boxes": {f"cup {number}": [[0, 0, 4, 4]] for number in range(5_000)}}, "256 names"),
    "long label": ({"boxes": {"x" * 5_000: [[0, 0, 4, 4]]}}, "5,000 characters"),
    "label of a surrogate": ({"boxes": {"\ud800": [[0, 0, 4, 4]]}}, "lone surrogate"),
    "long text": ({"target_text": "x" * 5_000}, "5,000 characters"),
    "text of a surrogate": ({"target_text": "\ud800"}, "lone surrogate"),
    "hint of a surrogate": ({"hint": "\ud800"}, "lone surrogate"),
    "operations": ({"operations": ["Add a cup"] * 100}, "at most 64"),
}
"""What stands in columns of a data set, or in a trainer's metadata."""
PICTURES: dict[str, tuple[Any, str]] = {
    "thin": (THIN, "1,000,000 x 1"),
    "FIFO": ("fifo", "it is a FIFO"),
    "device": ("/dev/zero", "it is a device"),
    "null character": ("a\0b", "no path"),
    "surrogate": ("\ud800.png", "cannot read image"),
}
"""Sources, as an array or by path."""


def reward() -> Reward:
    return Reward(Rated(), {"preference": Fake()})


def path_of(value: Any, folder: Path) -> Any:
    if isinstance(value, str) and value == "fifo":
        fifo = folder / "fifo"
        if not fifo.exists():
            os.mkfifo(fifo)
        return str(fifo)
    return value


def rows_with(change: dict[str, Any]) -> list[dict[str, Any]]:
    good = {"instruction": "make it blue", "source": GOOD.pil(), "edited": picture(11).pil()}
    return [good, {**good, **change}, good]


def check(values: list[float | None], reasons: list[str], reason: str) -> None:
    """Only the second row has no value, and its reason is said."""
    known = [value is not None and not math.isnan(value) for value in values]
    assert known == [True, False, True], reasons
    assert values[0] == values[2]
    assert any(re.search(reason, text) for text in reasons), reasons


TRL_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    **TEXTS,
    **FIELDS,
    "plan as text": ({"plan": json.dumps(PLAN)}, "at most 16 items"),
    "deep plan": ({"plan": "[" * 100_000}, "nested deeper"),
    "id of a surrogate": ({"id": "\ud800"}, "lone surrogate"),
    "group of a surrogate": ({"group": "\ud800"}, "lone surrogate"),
    **{f"source: {name}": ({"source": value}, reason) for name, (value, reason) in PICTURES.items()},
    **{f"mask: {name}": ({"mask": value}, reason) for name, (value, reason) in PICTURES.items()},
}


@pytest.mark.parametrize("case", TRL_ROWS)
def test_a_reward_function_of_trl_has_no_value_for_it(case: str, tmp_path: Path) -> None:
    change, reason = TRL_ROWS[case]
    rows = rows_with({name: path_of(value, tmp_path) for name, value in change.items()})
    columns: Any = {name: [row.get(name) for row in rows] for name in {name for row in rows for name in row}}
    logged: dict[str, list[str]] = {}
    metrics: dict[str, float] = {}
    values = RewardFunction(reward(), name="edits")(
        [""] * 3, [""] * 3, log_extra=logged.__setitem__, log_metric=metrics.__setitem__, **columns
    )
    check(values, logged["edits/reason"], reason)
    assert metrics["edits/unscored"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("case", TRL_ROWS)
def test_an_environment_of_trl_goes_on_without_a_picture(case: str, tmp_path: Path) -> None:
    """All its tools answer, and its reward has no value."""
    change, reason = TRL_ROWS[case]
    painter = Painter()
    world = EditingEnvironments(graded(), editor=painter, name="edits")
    environments = []
    for row in rows_with({name: path_of(value, tmp_path) for name, value in change.items()}):
        environment = world()
        prompt = environment.reset(**{name: value for name, value in row.items() if name != "edited"})
        answers = [environment.edit("paint it"), environment.look(), environment.undo()]
        environments.append(environment)
        is_bad = environment.unusable != ""
        assert ("no picture" in prompt) == is_bad
        assert [("no picture" in str(answer)) for answer in answers] == [is_bad] * 3
    assert len(painter.requests) == 1  # equal edits of the good rows
    logged: dict[str, list[str]] = {}
    metrics: dict[str, float] = {}
    values = world.reward(
        [""] * 3, [""] * 3, environments=environments, log_extra=logged.__setitem__, log_metric=metrics.__setitem__
    )
    check(values, logged["edits/reason"], reason)
    assert metrics["edits/edits"] == pytest.approx(2 / 3)


def test_the_next_row_of_an_environment_is_a_new_start() -> None:
    world = EditingEnvironments(graded(), editor=Painter())
    environment = world()
    environment.reset(instruction="x" * 4_001, source=GOOD.pil())
    assert environment.unusable
    environment.reset(instruction="make it blue", source=GOOD.pil())
    assert not environment.unusable
    assert "was edited" in environment.edit("paint it")
    assert world.reward([""], [""], environments=[environment])[0] is not None


def test_what_is_wrong_with_all_rows_still_ends_the_call() -> None:
    """A mistake of the user is told at once, and is not a run without rewards."""
    for wrong, error in (
        ({"plan": {"operations": [{"type": "dance"}]}}, ValueError),
        ({"boxes": {"cup": [[float("nan"), 0, 4, 4]]}}, ValueError),
        ({"source": GOOD.pixels.astype(np.float32) - 128}, PixelFormatError),
    ):
        row = rows_with(wrong)[1]
        columns: Any = {name: [value] for name, value in row.items()}
        with pytest.raises(error):
            RewardFunction(reward())([""], [""], **columns)
        with pytest.raises(error):
            EditingEnvironments(graded(), editor=Painter())().reset(**row)


def test_a_policy_that_makes_a_thin_picture_has_the_lowest_value() -> None:
    """It must not gain by it: the row itself is usable."""
    function = RewardFunction(reward(), decode_image=lambda completion, ids, row: THIN if completion else picture(11))
    columns: Any = {"instruction": ["make it blue"] * 2, "source": [GOOD.pil()] * 2}
    value, lowest = function([""] * 2, ["", "thin"], **columns)
    assert value is not None
    assert lowest == function.reward.card.range[0]


def metadata(row: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in row.items() if name not in ("instruction", "source", "edited")}
    if "operations" in fields:
        fields["operations"] = [{"instruction": text} for text in fields["operations"]]
    return {"editcritic": fields}


TRAINER_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    **TEXTS,
    **FIELDS,
    **{f"source: {name}": ({"source": value}, reason) for name, (value, reason) in PICTURES.items()},
    "edited: thin": ({"edited": THIN}, "1,000,000 x 1"),
}


TRIED = [
    pytest.param(trainer, case, id=f"{trainer}-{case}")
    for trainer in ("flow_grpo", "flow_factory", "verl_omni", "unirl", "omnigen2_rl")
    for case, (change, _) in TRAINER_ROWS.items()
    if trainer != "unirl" or not isinstance(change.get("source"), str)  # it passes tensors only
]


@pytest.mark.parametrize(("trainer", "case"), TRIED)
def test_a_trainer_is_told_that_it_has_no_score(trainer: str, case: str, tmp_path: Path) -> None:
    change, reason = TRAINER_ROWS[case]
    changed = rows_with({name: path_of(value, tmp_path) for name, value in change.items()})
    rows = [Row(row["instruction"], row["source"], row["edited"], metadata(row)) for row in changed]
    with pytest.raises(UnscoredError) as error:
        ENTRIES[trainer](reward(), missing="raise")(rows)
    check(list(ENTRIES[trainer](reward(), missing="nan")(rows)), [str(error.value)], reason)
