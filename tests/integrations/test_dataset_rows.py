"""Columns of a dataset as edits."""

from __future__ import annotations

import math
from io import BytesIO
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest
import torch

from editcritic.integrations.dataset_rows import (
    UnusableRow,
    build_samples,
    completion_text,
    images_from_batch,
    sample_from_row,
    split_instructions,
)
from editcritic.integrations.trainers.trainer_reward import (
    resolve_scorer,
    score_samples,
    scorer_name,
)
from editcritic.reward import Box, EditSample, Reward, Score, SpecError
from editcritic.reward.image import PixelFormatError
from tests.reward.fakes import picture, sample
from tests.verifiers.numpy_editor import scenes

PANDAS_NONE = (float("nan"), np.float32("nan"), pandas.NA, pandas.NaT)


CALL = {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "zoom", "arguments": "{}"}}]}


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("make it red", "make it red"),
        ([{"content": "make it red"}], "make it red"),
        ([{"role": "tool", "content": "no"}, {"content": [{"type": "text", "text": "make it red"}]}], "make it red"),
        ([{"content": [{"type": "text", "text": None}, "make it red", {"type": "image"}]}], "make it red"),
        ([{"content": [{"type": "output_text", "text": "make it red"}]}], "make it red"),
        ([{"content": {"type": "text", "text": "make it red"}}], "make it red"),
        ([{"content": "make it red"}, {"role": "tool", "content": "cut off after its call"}], "make it red"),
        ([{**CALL, "content": None}], ""),
        ([CALL], ""),
        ([{**CALL, "content": [{"type": "text", "text": None}]}], ""),
    ],
)
def test_the_last_message_of_a_conversation_counts_and_one_that_calls_tools_only_has_no_text(completion, text):
    if isinstance(completion, list):
        completion = [{"role": "assistant", **message} for message in completion]
    assert completion_text(completion) == text


def test_marks_of_lists_are_no_part_of_an_instruction_and_numbers_are():
    assert split_instructions("1. Add a dog\n2) Add 2. to it\n3 cats in, please\n* 2.5 times larger\n...") == [
        "Add a dog",
        "Add 2. to it",
        "3 cats in, please",
        "2.5 times larger",
    ]


@pytest.mark.parametrize("column", ["source", "sources", "image", "images"])
def test_pictures_come_as_datasets_keeps_them(column):
    picture = scenes(1)[0].source
    buffer = BytesIO()
    picture.pil().save(buffer, "PNG")
    raw = {"bytes": buffer.getvalue(), "path": None}
    values = [[raw, picture.pil()]] if column.endswith("s") else [raw]
    sample = sample_from_row({"instruction": "x", column: values[0]})
    assert set(sample.sources) == {picture}
    assert len(sample.sources) == (2 if column.endswith("s") else 1)


def test_columns_say_what_is_known_of_an_edit():
    from datasets import Dataset

    picture = scenes(1)[0].source
    row = {
        "id": 7, "instruction": "x and y", "source": picture.pil(), "operations": ["x", "y"], "hint": None,
        "boxes": {"cup": [[0, 0, 4, 4]], "dog": None}, "mask": picture.pil(),
        "pools": {"all": ["cup"], "available": None, "unchanged": ["cup"], "background": False},
    }  # fmt: skip
    (row,) = Dataset.from_list([row])
    sample = sample_from_row(row)
    assert dict(sample.boxes) == {"cup": (Box.from_corners(0, 0, 4, 4, (8, 8)).with_label("cup"),)}
    assert sample.pools is not None
    assert (sample.pools.all, sample.pools.available, sample.pools.background) == (("cup",), (), False)
    assert [one.instruction for one in sample.operations] == ["x", "y"]
    assert (sample.id, sample.hint, sample.mask) == ("7", "", picture)


@pytest.mark.parametrize(
    "columns",
    [
        *({"instruction": nothing} for nothing in ("", " \n", None, *PANDAS_NONE)),
        *({"source": missing} for missing in (None, *PANDAS_NONE)),
        {"source": []},
        {"source": None, "images": []},
        {"source": None, "images": np.array([], object)},
    ],
)
def test_a_row_that_lacks_what_its_columns_should_hold_is_unusable_by_itself(columns):
    row = {"instruction": "x", "source": scenes(1)[0].source.pil()} | columns
    with pytest.raises(UnusableRow, match="an edit needs `instruction` and an image"):
        sample_from_row(row)
    with pytest.raises(ValueError, match="an edit needs `instruction` and an image") as caught:  # of all rows
        sample_from_row({"source": scenes(1)[0].source.pil()})
    assert not isinstance(caught.value, UnusableRow)


@pytest.mark.parametrize("nothing", [None, *PANDAS_NONE])
def test_what_pandas_has_for_none_is_absent(nothing):
    picture = scenes(1)[0].source.pil()
    row = {"instruction": "x", "image": picture} | dict.fromkeys(("id", "group", "mask", "reference", "hint"), nothing)
    sample = sample_from_row({**row, "source": nothing})
    assert sample == sample_from_row({"instruction": "x", "image": picture})
    assert (sample.mask, sample.id, sample.hint) == (None, "edit", "")


def test_a_table_of_pandas_has_lists_as_arrays(tmp_path):
    picture = tmp_path / "a.png"
    scenes(1)[0].source.pil().save(picture)
    pandas.DataFrame({"instruction": ["x", None], "images": [[str(picture)], []]}).to_parquet(tmp_path / "t.parquet")
    first, second = pandas.read_parquet(tmp_path / "t.parquet").to_dict("records")
    assert sample_from_row(first).sources == (scenes(1)[0].source,)
    with pytest.raises(UnusableRow):
        sample_from_row(second)


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        ('{"operations": [', "Expecting value"),
        ("[" * 100_000, "nested deeper than 64 levels"),
        ('{"operations": [{"type": "paint"}]}', r"operations\.0\.type"),
        ({"operations": [{"type": "other", "target": None, "word": "x"}]}, r"operations\.0\.word"),
    ],
)
def test_a_column_that_holds_no_plan_is_named_with_its_row_and_what_it_should_hold(plan, problem):
    row = {"id": "seven", "instruction": "x", "source": scenes(1)[0].source.pil(), "plan": plan}
    with pytest.raises(ValueError, match=rf"the row 'seven': `plan`.*{problem}") as caught:
        sample_from_row(row)
    assert "deeper" in problem or any(words in str(caught.value) for words in ("plan_to_json", "should be a table"))
    with pytest.raises(ValueError, match="the row 'twirl it': `plan`"):
        sample_from_row({**row, "id": None, "instruction": "twirl it"})


A, B = picture(1), picture(2)


def test_pictures_are_the_same_however_a_trainer_has_them():
    pixels = np.stack([A.pixels, B.pixels])
    floats = torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255
    beyond = torch.where(floats == 1, 1.01, torch.where(floats == 0, -0.01, floats)).requires_grad_()
    for batch in (
        pixels,
        pixels / 255,
        floats,
        beyond,
        [A.pil(), B.pil()],
        torch.from_numpy(pixels).permute(0, 3, 1, 2),
    ):
        assert images_from_batch(batch) == [A, B]


def test_lists_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="2 prompts, 1 images, 1 sources"):
        build_samples(["x", "y"], [A], [[B]])


@pytest.mark.parametrize(
    "convert", [lambda batch: 2 * batch - 1, lambda batch: 255 * batch, lambda batch: batch[:, :2]]
)
def test_pixels_of_another_scale_or_shape_are_refused_and_not_clipped(convert):
    floats = torch.from_numpy(np.stack([A.pixels, B.pixels])).permute(0, 3, 1, 2) / 255
    for batch in (convert(floats), convert(floats).bfloat16(), list(convert(floats).numpy().transpose(0, 2, 3, 1))):
        with pytest.raises(PixelFormatError, match=r"float pixels must lie in \[0, 1\], got|expected an array of"):
            images_from_batch(batch)


def test_a_row_that_is_no_edit_is_a_failed_score_and_the_others_are_scored():
    floats = torch.from_numpy(np.stack([A.pixels] * 6)).permute(0, 3, 1, 2) / 255
    floats[1, 0, 0, 0] = math.nan
    floats[2, 0, 0, 0] = math.inf
    sources: list[list[Any]] = [[B], [B], [B], [], [B], images_from_batch([B.pil(), b"no picture"])]
    rows = build_samples(["x", "x", "x", "x", " ", "x"], images_from_batch(floats), sources)
    seen: list[EditSample] = []

    def scorer(samples: Any) -> list[Score]:
        seen.extend(samples)
        return [Score.of(0.5) for _ in samples]

    scores = score_samples(scorer, rows)
    assert [score.status for score in scores] == ["scored"] + ["failed"] * 5
    assert [one.id for one in seen] == ["edit-0"]
    reasons = ["NaN or infinite", "NaN or infinite", "no source image", "must not be empty", "encoded image is not an"]
    for score, reason in zip(scores[1:], reasons, strict=True):
        assert reason in score.reason


def test_a_batch_without_any_edit_asks_no_scorer_and_too_few_scores_are_none():
    rows = build_samples(["", ""], [A, A], [[B], [B]])
    scores = score_samples(lambda samples: pytest.fail("it has nothing to score"), rows)
    assert [score.status for score in scores] == ["failed", "failed"]
    with pytest.raises(ValueError, match="returned 0 scores for 1 edits"):
        score_samples(lambda samples: [], [sample("a")])


def test_a_reward_is_anything_that_scores_or_says_what_does(tmp_path):
    reward = Reward.of("edit-balanced")
    assert resolve_scorer(reward) is reward
    path = tmp_path / "reward.toml"
    path.write_text('reward = "edit-balanced"\n', encoding="utf-8")
    for spec in ("edit-balanced", {"use": "edit-balanced"}, str(path)):
        assert scorer_name(resolve_scorer(spec)) == scorer_name(reward)
    with pytest.raises(ValueError, match="no reward"):
        resolve_scorer("")
    with pytest.raises(SpecError):
        resolve_scorer("no-such-reward")
