"""Where a plan lets an image change, and how little of it the edited image decides."""

from typing import Any

import pytest

from editcritic.reward import Box, EditSample, Engine, Image, Program, Score, ask
from editcritic.reward.edit_plan import PlannedOperation, Target
from editcritic.reward.experts.pixel_changes import PixelChanges
from editcritic.reward.metrics.any_edit.regions import MAX_NEW_SHARE, EditRegion, edit_region
from editcritic.reward.queries.kinds import MapChanges
from editcritic.reward.score import Evidence

from .conftest import PHOTO, Witness, painted

CHANGES = PixelChanges()
CUP = (0.5, 0.5, 0.2, 0.2)
EDITED = painted(Box(0.2, 0.2, 0.1, 0.1))


def region(
    operation: PlannedOperation, witness: Witness, edited: Image = EDITED, also: PlannedOperation | None = None
) -> EditRegion:
    """The region of one operation, or two."""
    regions: list[EditRegion] = []

    def program(sample: EditSample) -> Program[Score]:
        changes = yield from ask(MapChanges(sample.source, sample.edited))
        regions.append((yield from edit_region(sample, [operation, *([also] if also else [])], changes)))
        return Score.of(1.0, evidence=[Evidence("region")])

    sample = EditSample("s", "see the plan", (PHOTO,), edited)
    experts: dict[str, Any] = {**dict.fromkeys(("detector", "reader"), witness), "changes": CHANGES}
    with Engine() as engine:
        engine.submit(program(sample), experts, sample).result(timeout=60)
    return regions[0]


def covered(allowed: EditRegion) -> float:
    return sum(box.area for box in allowed.boxes)


def test_a_target_may_change_where_it_is_in_the_source() -> None:
    witness = Witness(source={"cup": [(*CUP, 0.9)]}, edited={"cup": [(0.5, 0.5, 0.9, 0.9, 0.9)]})
    allowed = region(PlannedOperation("color_alter", "", Target("cup"), value="blue"), witness)
    ((x, w),) = [(box.cx, box.w) for box in allowed.boxes]
    assert (x, w) == pytest.approx((0.5, 1.1 * 0.2))  # what the edited image shows does not count


@pytest.mark.parametrize("size", [0.3, 0.6, 0.95])
def test_something_added_may_cover_a_bounded_share(size) -> None:
    witness = Witness(edited={"dog": [(0.5, 0.5, size, size, 0.9)]})
    allowed = region(PlannedOperation("subject_add", "", new=Target("dog")), witness)
    loose = (1.1 * size) ** 2
    assert covered(allowed) == pytest.approx(min(loose, MAX_NEW_SHARE))
    assert bool(allowed.notes) == (loose > MAX_NEW_SHARE)


def test_what_the_source_has_already_is_not_the_new_one() -> None:
    witness = Witness(source={"dog": [(*CUP, 0.9)]}, edited={"dog": [(*CUP, 0.9), (0.1, 0.1, 0.1, 0.1, 0.5)]})
    allowed = region(PlannedOperation("subject_add", "", new=Target("dog")), witness)
    assert [box.cx for box in allowed.boxes] == [0.1]


@pytest.mark.parametrize(("x", "count"), [(0.3, 1), (0.7, 0)])
def test_something_new_may_only_stand_on_its_side(x, count) -> None:
    witness = Witness(source={"cup": [(*CUP, 0.9)]}, edited={"dog": [(x, 0.5, 0.4, 0.4, 0.9)]})
    left = PlannedOperation("subject_add", "", new=Target("dog"), position="left", reference=Target("cup"))
    assert len(region(left, witness).boxes) == count


def test_a_replacement_stands_where_the_old_object_stood() -> None:
    witness = Witness(source={"cup": [(*CUP, 0.9)]}, edited={"dog": [(0.5, 0.5, 0.9, 0.9, 0.9)]})
    allowed = region(PlannedOperation("subject_replace", "", Target("cup"), Target("dog")), witness)
    assert max(box.w for box in allowed.boxes) == pytest.approx(1.5 * 0.2)


@pytest.mark.parametrize("at", [CUP, (1.6, 0.4, 0.3, 0.5)], ids=["inside", "outside of the picture"])
def test_a_replacement_that_no_detector_knows_is_what_changed_around_the_old_object(at) -> None:
    witness = Witness(source={"cup": [(*at, 0.9)]}, unknown=("dog",))
    replacement = PlannedOperation("subject_replace", "", Target("cup"), Target("dog"))
    allowed = region(replacement, witness, painted(Box(0.5, 0.5, 1, 1)))
    assert max(box.w for box in allowed.boxes) <= 1.5 * at[2] + 2 / 32  # in patches


def test_a_moved_object_is_no_larger_than_it_was() -> None:
    witness = Witness(source={"cup": [(*CUP, 0.9)]}, edited={"cup": [(0.15, 0.15, 0.29, 0.29, 0.9)]})
    operation = PlannedOperation("position_change", "", Target("cup"), position="left", reference=Target("cup"))
    old, new = region(operation, witness).boxes
    assert (old.w, new.w) == pytest.approx((0.22, 0.29))
    small = Witness(source={"cup": [(0.5, 0.5, 0.1, 0.1, 0.9)]}, edited={"cup": [(0.15, 0.15, 0.29, 0.29, 0.9)]})
    assert region(operation, small).boxes[1].w == pytest.approx(1.5 * 0.1)


def test_as_many_copies_may_appear_as_were_asked_for() -> None:
    places = [(x, 0.9, 0.1, 0.1, 0.9) for x in (0.1, 0.3, 0.7, 0.9)]
    witness = Witness(source={"cup": [(*CUP, 0.9)]}, edited={"cup": [(*CUP, 0.9), *places]})
    allowed = region(PlannedOperation("count_change", "", Target("cup"), count=3), witness)
    assert len(allowed.boxes) == 1 + 2  # the one that is there, and two more


def test_another_background_or_style_may_change_everything() -> None:
    assert region(PlannedOperation("background_change", "", value="snow"), Witness()).whole
    assert region(PlannedOperation("style", "", value="a sketch"), Witness()).whole
    assert not region(PlannedOperation("light", "", Target("cup"), value="brighter"), Witness()).whole


def test_a_text_may_stand_where_it_is_read() -> None:
    witness = Witness(text=("", "SALE"))
    allowed = region(PlannedOperation("text_change", "", text="SALE"), witness)
    assert covered(allowed) == pytest.approx(MAX_NEW_SHARE)  # this reader does not say where
    other = region(PlannedOperation("text_change", "", text="SALE"), Witness(text=("", "nothing like it")))
    assert other.boxes == ()


@pytest.mark.parametrize("witness", [Witness(unknown=("cup",)), Witness()], ids=["no detector", "not found"])
def test_where_nothing_finds_the_target_the_edit_is_the_largest_change(witness) -> None:
    edited = painted(Box(0.8, 0.8, 0.05, 0.05), pixels=EDITED.pixels)
    (box,) = region(PlannedOperation("color_alter", "", Target("cup"), value="blue"), witness, edited).boxes
    assert box.iou(Box(0.2, 0.2, 0.1, 0.1)) > 0.15
    assert box.x1 < 0.5
    everything = painted(Box(0.5, 0.5, 1, 1))
    recolour = PlannedOperation("color_alter", "", Target("cup"), value="blue")
    assert covered(region(recolour, witness, everything)) <= 0.31


def test_a_duplicate_is_one_more_however_many_are_found() -> None:
    places = [(x, 0.9, 0.1, 0.1, 0.9) for x in (0.1, 0.3, 0.7, 0.9)]
    witness = Witness(source={"cup": [(*CUP, 0.9)]}, edited={"cup": [(*CUP, 0.9), *places]})
    assert len(region(PlannedOperation("duplicate", "", Target("cup")), witness).boxes) == 1 + 1


def test_a_small_move_has_a_region_too() -> None:
    witness = Witness(source={"cup": [(*CUP, 0.9)]}, edited={"cup": [(0.4, 0.5, 0.2, 0.2, 0.9)]})
    old, new = region(PlannedOperation("position_change", "", Target("cup")), witness).boxes
    assert (old.cx, new.cx) == (0.5, 0.4)


@pytest.mark.parametrize("kind", ["zoom", "crop", "reframe", "camera", "extraction"])
def test_a_new_frame_changes_everything_although_it_has_a_target(kind) -> None:
    witness = Witness(source={"cup": [(*CUP, 0.9)]})
    assert region(PlannedOperation(kind, "", Target("cup")), witness).whole


def test_two_operations_that_are_not_located_are_the_two_largest_changes() -> None:
    edited = painted(Box(0.8, 0.8, 0.1, 0.1), pixels=EDITED.pixels)
    twice = [PlannedOperation("other", words) for words in ("do this", "do that")]
    assert len(region(twice[0], Witness(), edited, also=twice[1]).boxes) == 2
