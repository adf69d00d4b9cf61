"""What every adapter promises its trainer, whichever it is."""

import math
from typing import Any

import numpy as np
import pytest

from editcritic.integrations import diffusion_rl, trainers
from editcritic.integrations.trainers.trainer_reward import UnscoredError
from editcritic.reward.image import PixelFormatError

from .entries import ENTRIES, TAKES_NONE, Row, Seen, rows_of
from .trainer_cases import Judge, batch, served, values

EDITS = batch()

each_entry = pytest.mark.parametrize("name", ENTRIES)


@pytest.mark.parametrize("package", [trainers, diffusion_rl])
def test_a_name_that_a_package_does_not_have_is_an_attribute_error(package: Any) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


@each_entry
def test_64_edits_are_few_batches_of_the_judge_with_values_in_order(name: str) -> None:
    edits, judge, remote = batch(groups=16), Judge(), Judge()
    with served(remote.reward()) as url:
        for asked, reward in ((judge, judge.reward()), (remote, url)):
            assert ENTRIES[name](reward)(rows_of(edits)) == pytest.approx(values(edits))
            assert sum(asked.batches) == 64
            assert len(asked.batches) <= 3


@each_entry
def test_an_edit_that_fails_has_no_value_and_one_that_nobody_can_judge_the_lowest(name: str) -> None:
    judge = Judge(failing=Judge.always(EDITS.edited[5]), abstaining={EDITS.edited[10].digest})
    reward = judge.reward(on_failures="none")
    found = ENTRIES[name](reward, missing="nan", outage_timeout_s=0)(rows_of(EDITS))
    assert found[5] is None if name in TAKES_NONE else math.isnan(found[5] or 0)
    expected = [0.0 if row == 10 else value for row, value in enumerate(values(EDITS))]
    assert [*found[:5], *found[6:]] == pytest.approx([*expected[:5], *expected[6:]])
    if name not in TAKES_NONE:
        with pytest.raises(UnscoredError, match="the judge did not answer"):
            ENTRIES[name](reward, outage_timeout_s=0)(rows_of(EDITS))


@pytest.mark.parametrize("field", ["edited", "source"])
@pytest.mark.parametrize("convert", [lambda unit: 2 * unit - 1, lambda unit: 255 * unit], ids=["[-1, 1]", "0..255"])
@each_entry
def test_pixels_of_another_scale_are_refused_before_anything_is_scored(name: str, convert: Any, field: str) -> None:
    judge = Judge()
    wrong = [
        Row(
            row.prompt, **{"source": row.source, "edited": row.edited, field: convert(getattr(row, field).pixels / 255)}
        )
        for row in rows_of(EDITS)
    ]
    with pytest.raises(PixelFormatError, match=r"float pixels must lie in \[0, 1\]"):
        ENTRIES[name](judge.reward())(wrong)
    assert judge.batches == []


@each_entry
def test_what_is_no_picture_fails_its_row_alone(name: str) -> None:
    rows = rows_of(EDITS)
    broken = np.full((8, 8, 3), np.nan)
    rows[1] = Row(rows[1].prompt, rows[1].source, broken)
    rows[2] = Row(rows[2].prompt, broken, rows[2].edited)
    rows[3] = Row(" ", rows[3].source, rows[3].edited)
    found = ENTRIES[name](Judge().reward(), missing="nan")(rows)
    assert [value is None or math.isnan(value) for value in found[:5]] == [False, True, True, True, False]
    assert [found[0], *found[4:]] == pytest.approx(
        [value for row, value in enumerate(values(EDITS)) if row not in (1, 2, 3)]
    )


@pytest.mark.parametrize("name", [name for name in ENTRIES if name != "trl"])  # which takes rewards only
def test_edits_are_grouped_by_prompt_and_source_and_metadata_reaches_the_reward(name: str) -> None:
    seen, rows = Seen(), rows_of(EDITS)
    rows[3] = Row(rows[3].prompt, rows[3].source, rows[3].edited, {"editcritic": {"target_text": "CAFE"}})
    ENTRIES[name](seen)(rows)
    assert [one.instruction for one in seen.samples] == EDITS.prompts
    assert [one.sources for one in seen.samples] == [(source,) for source in EDITS.sources]
    assert [one.edited for one in seen.samples] == EDITS.edited
    assert [one.target_text for one in seen.samples] == ["", "", "", "CAFE", *[""] * 12]
    assert [one.group for one in seen.samples] == [seen.samples[row // 4 * 4].group for row in range(16)]
    assert len({one.group for one in seen.samples}) == 4
