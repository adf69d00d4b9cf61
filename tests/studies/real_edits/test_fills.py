"""Fills: what they change, what they leave, and that they destroy the place."""

import numpy as np
import pytest

from studies.real_edits.fills import KINDS, FillKind, kinds_of
from studies.real_edits.place import Place
from studies.real_edits.real_edit import OPERATIONS, operation_of
from tests.studies.real_edits.edits_by_hand import edit_by_hand, edits_by_hand
from tests.studies.real_edits.later_fills import KINDS as LATER_KINDS


def _place(name: str) -> Place:
    place = Place.of(edit_by_hand(name))
    assert place is not None
    return place


def _kind(name: str) -> FillKind:
    return next(kind for kind in KINDS if kind.name == name)


def test_there_are_fills_for_every_operation_of_a_place_and_names_are_unique():
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert {
        operation: len(kinds_of(operation)) >= 3 for operation in OPERATIONS if operation != "other"
    } == dict.fromkeys([operation for operation in OPERATIONS if operation != "other"], True)
    assert kinds_of("other") == []


def test_every_fill_leaves_what_is_far_from_the_place_and_spoils_the_place():
    for edit in edits_by_hand():
        place = Place.of(edit)
        assert place is not None
        assert place.honest is not None
        near = np.zeros(place.source.shape[:2], bool)
        for x0, y0, x1, y1 in place.boxes:
            by = round(0.25 * min(x1 - x0, y1 - y0)) + 1
            near[max(0, y0 - by) : y1 + by, max(0, x0 - by) : x1 + by] = True
        later = [kind for kind in LATER_KINDS if edit.operation in kind.operations]
        for kind in (*kinds_of(edit.operation), *later):
            made = kind.fill(place).pixels.astype(np.float32)
            under = place.honest if kind.over_honest else place.source
            assert (made.shape, edit.operation, kind.name) == (place.source.shape, edit.operation, kind.name)
            assert np.abs(made - under)[~near].max(initial=0) <= 0.5, kind.name
            spoilt = np.abs(made - place.honest)[place.object > 0.5].mean()
            assert spoilt > 4, (edit.operation, kind.name, spoilt)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "removal" in kind.operations], ids=lambda kind: kind.name)
def test_a_fill_is_the_same_for_the_same_seed_and_takes_all_its_ranges(kind):
    place = _place("rocket-gone")
    assert kind.fill(place, seed=3) == kind.fill(place, seed=3)
    lows, highs = ({one.name: getattr(one, end) for one in kind.parameters} for end in ("low", "high"))
    assert kind.fill(place, lows).size == kind.fill(place, highs).size == (512, 342)
    assert kind.fill(place, lows) != kind.fill(place, highs)


def test_a_place_at_the_border_and_over_the_whole_picture_is_filled():
    source = np.asarray(edit_by_hand("rocket-gone").source.pixels, np.float32)
    height, width = source.shape[:2]
    for box in ((0, 0, 40, 60), (width - 2, height - 2, width, height), (0, 0, width, height)):
        place = Place(source, source, [box])
        for kind in KINDS:
            assert kind.fill(place).size == (width, height), (kind.name, box)


def test_parameters_are_checked_and_an_honest_edit_is_asked_for():
    place = _place("rocket-gone")
    with pytest.raises(ValueError, match="level"):
        _kind("flat grey").fill(place, {"level": 300})
    with pytest.raises(ValueError, match="no parameter tone"):
        _kind("flat grey").fill(place, {"tone": 1})
    with pytest.raises(ValueError, match="honest"):
        _kind("ghost").fill(Place(place.source, None, place.boxes))


def test_a_remnant_is_a_third_of_the_object_and_the_rest_is_honest():
    place = _place("rocket-gone")
    assert place.honest is not None
    made = _kind("remnant").fill(place).pixels.astype(np.float32)
    ((x0, y0, x1, y1),) = place.boxes
    third = x0 + round(0.34 * (x1 - x0))
    assert (made[y0:y1, x0 : third - 1] == place.source[y0:y1, x0 : third - 1])[1:-1, 1:].all()
    assert np.abs(made - place.honest)[y0:y1, third + 1 :].max() <= 0.5


def test_the_place_of_an_addition_is_where_the_edit_differs():
    (box,) = _place("coin-on-table").boxes
    assert np.abs(np.array(box) - (430, 180, 493, 239)).max() <= 12


def test_a_recolour_paints_the_object_in_the_new_colour_and_leaves_what_is_beside_it():
    place = _place("blue-tank")
    red, _, blue = place.new_colour
    assert blue > red + 30
    made = _kind("object painted flat").fill(place).pixels
    assert np.ptp(made[place.object > 0.99].astype(int), axis=0).max() <= 3
    assert (made[place.object == 0] == place.source[place.object == 0]).all()


def test_a_text_fill_writes_the_text_of_the_instruction():
    assert _place("full-moon").text == "FULL MOON"


@pytest.mark.parametrize(
    ("sentence", "operation"),
    [
        ("Remove the lamp", "removal"),
        ("Make the lamp green", "recolour"),
        ("Replace the lamp with a candle", "replacement"),
        ("Add a candle to the table", "addition"),
        ("Remove the lamp and make the table green", "other"),
        ("A lamp on a table", "other"),
    ],
)
def test_the_operation_of_a_sentence_is_the_one_that_the_rules_plan(sentence, operation):
    assert operation_of(sentence) == operation
