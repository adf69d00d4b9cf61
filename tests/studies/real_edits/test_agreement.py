"""Agreement with readers: separations, their intervals and baselines."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Image, Score
from studies.real_edits.agreement import (
    Scored,
    agreement,
    baselines,
    part_quartiles,
    reader_agreement,
    separation,
    surprises,
)
from studies.real_edits.real_edit import Followed, RealEdit
from tests.studies.real_edits.edits_by_hand import edit_by_hand


def _edit(name: str, base: str, good: bool | None, group: str = "g") -> RealEdit:
    told: Followed = "yes" if good else "partly" if good is None else "no"
    return replace(edit_by_hand("rocket-gone"), id=name, base=base, group=group, followed=told)


def test_good_is_followed_with_the_rest_and_the_place_intact():
    edit = edit_by_hand("rocket-gone")
    assert edit.is_good is True
    assert replace(edit, preserved="minor drift", place="traces").is_good is True
    assert replace(edit, place="broken").is_good is False
    assert replace(edit, preserved="damaged").is_good is False
    assert replace(edit, followed="partly").is_good is None
    assert replace(edit, followed="partly", place="broken").is_good is False
    assert replace(edit, followed=None).is_good is None


def test_a_separation_counts_pairs_over_all_and_within_a_group():
    edits = [
        _edit("a", "p", True, "one"),
        _edit("b", "p", False, "one"),
        _edit("c", "q", True, "two"),
        _edit("d", "q", False, "two"),
        _edit("e", "r", None, "three"),
    ]
    one = separation(edits, [0.9, 0.2, 0.5, 0.5, 0.1])
    assert (one.good, one.bad, one.bases) == (2, 2, 2)
    assert one.auc == (1 + 1 + 1 + 0.5) / 4
    assert (one.right, one.pairs) == (1.5, 2)


def test_what_has_no_value_is_left_out_and_one_class_alone_has_no_auc():
    edits = [_edit("a", "p", True), _edit("b", "q", False)]
    assert separation(edits, [0.9, None]).auc is None
    assert separation(edits, [0.9, None]).good == 1
    assert separation(edits, [0.9, 0.0]).auc == 1.0


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("pqrst"), st.integers(0, 4)), min_size=2, max_size=25))
def test_the_auc_is_that_of_all_pairs_and_lies_in_its_interval(rows):
    edits = [_edit(str(n), base, good) for n, (good, base, _) in enumerate(rows)]
    values = [value / 4 for _, _, value in rows]
    one = separation(edits, values)
    pairs = [
        (v > w) + 0.5 * (v == w)
        for v, (good, _, _) in zip(values, rows, strict=True)
        if good
        for w, (also, _, _) in zip(values, rows, strict=True)
        if not also
    ]
    assert one.auc == (pytest.approx(np.mean(pairs)) if pairs else None)
    assert one.low is None or (one.high is not None and 0 <= one.low <= one.high <= 1)


def test_the_interval_is_wider_where_edits_share_their_photographs():
    rng = np.random.default_rng(1)
    photographs = [(bool(n % 2), 0.4 * (n % 2) + rng.uniform()) for n in range(12)]
    rows = [(good, value + 0.01 * rng.uniform(), n) for n, (good, value) in enumerate(photographs) for _ in range(5)]
    values = [value for _, value, _ in rows]
    many = separation([_edit(str(n), str(n), good) for n, (good, _, _) in enumerate(rows)], values)
    few = separation([_edit(str(n), str(base), good) for n, (good, _, base) in enumerate(rows)], values)
    assert many.auc == few.auc
    assert many.low is not None and many.high is not None  # noqa: PT018
    assert few.low is not None and few.high is not None  # noqa: PT018
    assert few.high - few.low > 1.3 * (many.high - many.low)


def test_baselines_see_damage_outside_of_the_target_and_nothing_inside():
    edit = edit_by_hand("rocket-gone")
    for value in baselines(replace(edit, edited=edit.source)).values():
        assert value == pytest.approx(1.0 if value > 0.5 else 0.0)
    pixels = np.array(edit.source.pixels)
    pixels[150:200, 240:260] = 0
    inside = baselines(replace(edit, edited=Image.of(pixels)))
    assert inside["-L1 outside of the target"] == 0
    pixels[:60, :90] = 255
    outside = baselines(replace(edit, edited=Image.of(pixels)))
    assert outside["-L1 outside of the target"] < -0.01
    assert outside["SSIM outside of the target"] < inside["SSIM outside of the target"] - 0.01


def _scored(name: str, good: bool, value: float | None, **parts: float) -> Scored:
    inner = Score.of(1.0, parts={key: Score.of(number) for key, number in parts.items()})
    score = Score.abstained("unknown") if value is None else Score.of(value, parts={"edit": inner})
    return Scored(_edit(name, name, good), score)


def test_parts_are_found_at_any_depth_and_reported_by_what_the_reader_says():
    rows = [_scored("a", True, 0.9, following=0.9, region=0.7), _scored("b", False, 0.2, following=0.1, region=0.2)]
    lines = {line.name: line for line in part_quartiles(rows)}
    assert lines["following, honest edits (below 0.75)"].count == 1
    assert lines["following, honest edits (below 0.75)"].low == 0
    assert lines["region, honest edits (below 0.8)"].low == 1
    tables = agreement([*rows, _scored("c", True, None)])
    assert tables["reward, all"].auc == 1.0
    assert tables["reward, all, missing as 0"].auc == 0.5
    assert tables["following, followed : not"].auc == 1.0


def test_two_readers_are_compared_label_by_label():
    first: list[Followed] = ["yes", "yes", "no", "partly"]
    said: list[Followed] = ["yes", "no", "no", "partly"]
    edits = [
        replace(_edit(str(n), "p", True), followed=one, second=(other, "yes", "clean"))
        for n, (one, other) in enumerate(zip(first, said, strict=True))
    ]
    followed, preserved, place, good = reader_agreement([*edits, _edit("unread", "p", True)])
    assert (followed.count, followed.equal) == (4, 3)
    # Orders 0, 0, 2, 1 and 0, 2, 2, 1: squared distances sum to 4; over all 16 pairs to 26.
    assert followed.kappa == pytest.approx(1 - (4 / 4) / (26 / 16))
    assert (preserved.equal, preserved.kappa, place.kappa) == (4, None, None)
    assert good.equal == 3
    assert reader_agreement([_edit("unread", "p", True)]) == []


def test_surprises_are_the_edits_furthest_from_their_label():
    rows = [_scored("a", True, 0.9), _scored("b", True, None), _scored("c", False, 0.7), _scored("d", False, 0.1)]
    assert [row.edit.id for row in surprises(rows, 2)] == ["b", "c"]
