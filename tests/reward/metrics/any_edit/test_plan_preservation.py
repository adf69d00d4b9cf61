"""What a plan does not change is compared where it was; what it names as staying is compared by itself."""

import cv2
import numpy as np
import pytest
import skimage.data

from editcritic.reward import Box, Image, Reward, default_experts
from editcritic.reward.edit_plan import EditPlan, Kept, PlannedOperation, Target
from editcritic.reward.metrics.any_edit.plan_preservation import PlanPreservation

from .conftest import PHOTO, PIXELS, Witness, painted

CUP, SPOON = (0.48, 0.4, 0.3, 0.5), (0.15, 0.75, 0.2, 0.2)
AT_CUP, AT_SPOON = Box(*CUP), Box(*SPOON)
BLUE_CUP = painted(AT_CUP)
BOTH_BLUE = painted(AT_SPOON, pixels=BLUE_CUP.pixels)
RECOLOUR = PlannedOperation("color_alter", "make the cup blue", Target("cup"), value="blue")
SNOW = PlannedOperation("background_change", "put it into the snow", value="snow")
SKETCH = PlannedOperation("style", "make it a sketch", value="a sketch")
SEEN = {"cup": [(*CUP, 0.9)], "spoon": [(*SPOON, 0.9)]}


def plan(*operations, keep=()):
    return EditPlan(operations, tuple(keep))


def test_what_changes_at_the_target_is_free_and_elsewhere_it_costs(scored) -> None:
    witness = Witness(source=SEEN, edited=SEEN)
    clean = scored(PlanPreservation(), plan(RECOLOUR), BLUE_CUP, witness)
    damaged = scored(PlanPreservation(), plan(RECOLOUR), BOTH_BLUE, witness)
    assert (clean.value or 0.0) > 0.9
    assert (damaged.value or 0.0) <= 0.55
    (evidence,) = damaged.evidence
    assert {box.label for box in evidence.boxes} == {"may change", "most changed"}
    worst = next(box for box in evidence.boxes if box.label == "most changed")
    assert AT_SPOON.x0 - 0.05 <= worst.cx <= AT_SPOON.x1 + 0.05


def test_an_edit_cannot_exempt_itself_by_a_larger_object(scored) -> None:
    larger = {"cup": [(0.5, 0.5, 0.9, 0.9, 0.99)], "spoon": SEEN["spoon"]}
    a, b = (
        scored(PlanPreservation(), plan(RECOLOUR), BOTH_BLUE, Witness(source=SEEN, edited=edited))
        for edited in (SEEN, larger)
    )
    assert a.value == b.value


def test_a_kept_object_before_another_background_keeps_its_colours(scored, everywhere) -> None:
    keep = [Kept("object", Target("cup"))]
    kept_pixels = np.array(everywhere.pixels)
    x0, y0, x1, y1 = AT_CUP.corners(PHOTO.size)
    kept_pixels[y0:y1, x0:x1] = PIXELS[y0:y1, x0:x1]
    kept = scored(PlanPreservation(), plan(SNOW, keep=keep), Image.of(kept_pixels), Witness(source=SEEN, edited=SEEN))
    recoloured = scored(PlanPreservation(), plan(SNOW, keep=keep), everywhere, Witness(source=SEEN, edited=SEEN))
    gone = scored(PlanPreservation(), plan(SNOW, keep=keep), Image.of(kept_pixels), Witness(source=SEEN))
    assert kept.value == pytest.approx(1.0)
    assert (recoloured.value or 0.0) < 0.5
    assert gone.value == 0.0


def test_boxes_outside_of_the_picture_are_left_out(scored, everywhere) -> None:
    keep = [Kept("object", Target("cup"))]
    outside = (1.6, 0.4, 0.3, 0.5, 0.9)
    for seen in ([outside], [(*CUP, 0.9), outside]):
        witness = Witness(source={"cup": seen}, edited={"cup": seen})
        score = scored(PlanPreservation(), plan(SNOW, keep=keep), everywhere, witness)
        assert score.status == "scored"
        assert ((score.value or 0.0) < 0.5) is (len(seen) == 2), score.reason


def test_another_style_keeps_the_layout_and_the_objects(scored, everywhere) -> None:
    keep = [Kept("object", Target("cup")), Kept("object", Target("spoon"))]
    witness = Witness(source=SEEN, edited=SEEN)
    same = scored(PlanPreservation(), plan(SKETCH, keep=keep), everywhere, witness)
    mirrored = scored(
        PlanPreservation(), plan(SKETCH, keep=keep), Image.of(np.ascontiguousarray(PIXELS[:, ::-1])), witness
    )
    lost = scored(
        PlanPreservation(), plan(SKETCH, keep=keep), everywhere, Witness(source=SEEN, edited={"cup": SEEN["cup"]})
    )
    assert (same.value or 0.0) > 0.9
    assert (mirrored.value or 0.0) < 0.5
    assert lost.value == pytest.approx(same.value / 2)


def test_kept_text_must_still_be_read(scored) -> None:
    plans = plan(RECOLOUR, keep=[Kept("text", words="keep the text")])
    kept = scored(PlanPreservation(), plans, BLUE_CUP, Witness(source=SEEN, text=("OPEN DAILY", "OPEN DAILY")))
    half = scored(PlanPreservation(), plans, BLUE_CUP, Witness(source=SEEN, text=("OPEN DAILY", "OPEN DAMN")))
    assert half.value == pytest.approx(kept.value / 2)


def test_an_individual_is_compared_by_a_judge_on_crops(scored) -> None:
    plans = plan(RECOLOUR, keep=[Kept("identity", Target("spoon"))])
    same = Witness(source=SEEN, edited=SEEN, answers={"spoon": (1.0, 0.9)})
    other = Witness(source=SEEN, edited=SEEN, answers={"spoon": (1.0, 0.1)})
    a, b = (scored(PlanPreservation(), plans, BLUE_CUP, witness) for witness in (same, other))
    assert a.value > 8 * b.value
    assert same.topics() == ["any-edit/identity"]


def test_something_added_may_not_cover_an_annotated_object(scored) -> None:
    operation = PlannedOperation("subject_add", "add a dog", new=Target("dog"))
    witness = Witness(edited={"dog": [(*CUP, 0.9)]})
    free = scored(PlanPreservation(), plan(operation), BLUE_CUP, witness)
    covered = scored(PlanPreservation(), plan(operation), BLUE_CUP, witness, boxes={"cup": (AT_CUP,)})
    assert (free.value or 0.0) > 0.9
    assert covered.value == 0.0
    assert "something added covers cup" in covered.parts["not covered"].reason


def test_where_everything_may_change_and_nothing_is_named_there_is_nothing_to_compare(scored) -> None:
    camera = PlannedOperation("camera", "look at it from above")
    assert scored(PlanPreservation(), plan(camera), BLUE_CUP, Witness()).status == "not_applicable"


def test_an_unknown_way_to_compare_faces_is_refused() -> None:
    with pytest.raises(ValueError, match="faces is one of judge, embedder"):
        PlanPreservation(faces="eyes")  # type: ignore[arg-type]


def test_a_kept_object_behind_the_target_is_compared_beside_it(scored) -> None:
    table = {"cup": [(*CUP, 0.9)], "table": [(0.5, 0.5, 0.9, 0.9, 0.9)]}
    plans = plan(RECOLOUR, keep=[Kept("object", Target("table"))])
    witness = Witness(source=table, edited=table)
    assert (scored(PlanPreservation(), plans, BLUE_CUP, witness).value or 0.0) > 0.9
    assert (scored(PlanPreservation(), plans, BOTH_BLUE, witness).value or 0.0) < 0.5


def test_what_no_detector_knows_is_not_compared(scored) -> None:
    plans = plan(RECOLOUR, keep=[Kept("object", Target("gizmo"))])
    witness = Witness(source=SEEN, edited=SEEN, unknown=("gizmo",))
    score = scored(PlanPreservation(), plans, BLUE_CUP, witness)
    assert (score.value or 0.0) > 0.9
    assert score.parts["kept 1: gizmo"].status == "not_applicable"


def test_a_word_counts_as_often_as_it_is_read(scored) -> None:
    plans = plan(RECOLOUR, keep=[Kept("text", words="keep the text")])
    texts = [("TEN TEN TEN", "TEN TEN TEN"), ("TEN TEN TEN", "TEN")]
    whole, third = (scored(PlanPreservation(), plans, BLUE_CUP, Witness(source=SEEN, text=text)) for text in texts)
    assert third.value == pytest.approx(whole.value / 3)


def test_a_face_embedder_is_needed_only_where_it_compares_faces(scored) -> None:
    judged, embedded = PlanPreservation(), PlanPreservation(faces="embedder")
    assert embedded.card.roles == (*judged.card.roles, "features.face")
    assert not any(role.startswith("features") for role in judged.card.roles)
    experts = default_experts()
    Reward(judged, {role: experts[role.partition(".")[0]] for role in judged.card.roles})
    del experts["features"]
    with pytest.raises(ValueError, match=r"needs experts for features\.face"):
        Reward(embedded, experts)


def test_another_picture_is_no_other_style(scored) -> None:
    gray = cv2.cvtColor(PIXELS, cv2.COLOR_RGB2GRAY)
    dodged = cv2.divide(gray, 255 - cv2.GaussianBlur(255 - gray, (21, 21), 0), scale=256)
    sketch = Image.of(np.repeat(dodged[..., None], 3, axis=2))
    others = [
        cv2.resize(photo, (300, 200), interpolation=cv2.INTER_AREA)
        for photo in (skimage.data.astronaut(), skimage.data.chelsea(), skimage.data.rocket())
    ]
    preserved = scored(PlanPreservation(), plan(SKETCH), sketch, Witness()).value or 0.0
    assert preserved > 0.7
    for other in others:
        assert (scored(PlanPreservation(), plan(SKETCH), Image.of(other), Witness()).value or 0.0) < 0.3
