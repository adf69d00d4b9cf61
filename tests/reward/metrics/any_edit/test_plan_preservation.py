"""What a plan does not change is compared where it was; what it names as staying is compared by itself."""

from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data

from editcritic.reward import Box, EditPlan, Image, Kept, PlannedOperation, Reward, Target
from editcritic.reward.metrics.any_edit.plan_preservation import PlanPreservation

from .conftest import PHOTO, PIXELS, Witness, edit, painted, worth

CUP, SPOON, OUTSIDE = (0.48, 0.4, 0.3, 0.5), (0.15, 0.75, 0.2, 0.2), (1.6, 0.4, 0.3, 0.5, 0.9)
AT_CUP, AT_SPOON = Box(*CUP), Box(*SPOON)
BLUE_CUP = painted(AT_CUP)
BOTH_BLUE = painted(AT_SPOON, pixels=BLUE_CUP.pixels)
EVERYWHERE = Image.of(np.ascontiguousarray(PIXELS[..., [2, 0, 1]]))
MIRRORED = Image.of(np.ascontiguousarray(PIXELS[:, ::-1]))
X0, Y0, X1, Y1 = AT_CUP.corners(PHOTO.size)
CUP_KEPT = EVERYWHERE.pixels.copy()
CUP_KEPT[Y0:Y1, X0:X1] = PIXELS[Y0:Y1, X0:X1]
CUP_STAYS = Image.of(CUP_KEPT)
SEEN = {"cup": [(*CUP, 0.9)], "spoon": [(*SPOON, 0.9)]}
BOTH: dict[str, Any] = {"source": SEEN, "edited": SEEN}
TABLE = {"cup": [(*CUP, 0.9)], "table": [(0.5, 0.5, 0.9, 0.9, 0.9)]}


def plan(kind, target=None, words="edit it", keep=(), **slots):
    return EditPlan((PlannedOperation(kind, words, target, **slots),), tuple(keep))


def kept(*nouns, kind="object"):
    return [Kept(kind, Target(noun)) for noun in nouns]


def recolour(keep=()):
    return plan("color_alter", Target("cup"), "make the cup blue", keep, value="blue")


def snow(*nouns):
    return plan("background_change", words="put it into the snow", keep=kept(*nouns), value="snow")


def sketch(*nouns):
    return plan("style", words="make it a sketch", keep=kept(*nouns), value="a sketch")


CUPS_OUTSIDE = [{"cup": [OUTSIDE]}, {"cup": [(*CUP, 0.9), OUTSIDE]}]


@pytest.mark.parametrize(
    ("planned", "edited", "witness", "low", "high"),
    [
        *((recolour(), BLUE_CUP, BOTH, 0.9, 1.0), (recolour(), BOTH_BLUE, BOTH, 0.0, 0.55)),
        *((snow("cup"), CUP_STAYS, BOTH, 0.9999, 1.0), (snow("cup"), EVERYWHERE, BOTH, 0.0, 0.5)),
        (snow("cup"), CUP_STAYS, {"source": SEEN}, 0.0, 0.0),
        (snow("cup"), EVERYWHERE, dict.fromkeys(("source", "edited"), CUPS_OUTSIDE[0]), 0.5, 1.0),  # is left out
        (snow("cup"), EVERYWHERE, dict.fromkeys(("source", "edited"), CUPS_OUTSIDE[1]), 0.0, 0.5),
        (sketch("cup", "spoon"), EVERYWHERE, BOTH, 0.9, 1.0),
        (sketch("cup", "spoon"), MIRRORED, BOTH, 0.0, 0.5),
        (sketch("cup", "spoon"), EVERYWHERE, {"source": SEEN, "edited": {"cup": SEEN["cup"]}}, 0.45, 0.5),
        (recolour(kept("table")), BLUE_CUP, {"source": TABLE, "edited": TABLE}, 0.9, 1.0),  # behind the target
        (recolour(kept("table")), BOTH_BLUE, {"source": TABLE, "edited": TABLE}, 0.0, 0.5),
    ],
)
def test_what_stays_is_compared_and_what_changes_at_the_target_is_free(scored, planned, edited, witness, low, high):
    score = scored(PlanPreservation(), planned, edited, Witness(**witness))
    assert low <= worth(score) <= high, score.reason


def test_the_evidence_shows_what_may_change_and_what_changed_most_and_an_edit_cannot_exempt_itself(scored):
    damaged = scored(PlanPreservation(), recolour(), BOTH_BLUE, Witness(**BOTH))
    (evidence,) = damaged.evidence
    assert {box.label for box in evidence.boxes} == {"may change", "most changed"}
    worst = next(box for box in evidence.boxes if box.label == "most changed")
    assert AT_SPOON.x0 - 0.05 <= worst.cx <= AT_SPOON.x1 + 0.05
    larger = {**SEEN, "cup": [(0.5, 0.5, 0.9, 0.9, 0.99)]}
    assert scored(PlanPreservation(), recolour(), BOTH_BLUE, Witness(source=SEEN, edited=larger)).value == damaged.value


@pytest.mark.parametrize(("before", "after", "share"), [("OPEN DAILY", "OPEN DAMN", 2), ("TEN TEN TEN", "TEN", 3)])
def test_kept_text_must_still_be_read_and_a_word_counts_as_often_as_it_is_read(scored, before, after, share):
    plans = recolour([Kept("text", words="keep the text")])
    whole, part = (
        scored(PlanPreservation(), plans, BLUE_CUP, Witness(source=SEEN, text=(before, text)))
        for text in (before, after)
    )
    assert part.value == pytest.approx(worth(whole) / share)


def test_an_individual_is_compared_by_a_judge_on_crops(scored):
    plans = recolour(kept("spoon", kind="identity"))
    same, other = (Witness(**BOTH, answers={"spoon": (1.0, p)}) for p in (0.9, 0.1))
    a, b = (worth(scored(PlanPreservation(), plans, BLUE_CUP, witness)) for witness in (same, other))
    assert a > 8 * b
    assert same.topics() == ["any-edit/identity"]


def test_what_was_added_covers_no_annotated_object_and_unknown_ones_are_not_compared(scored):
    add, witness = plan("subject_add", words="add a dog", new=Target("dog")), Witness(edited={"dog": [(*CUP, 0.9)]})
    assert worth(scored(PlanPreservation(), add, BLUE_CUP, witness)) > 0.9
    covered = scored(PlanPreservation(), add, BLUE_CUP, witness, boxes={"cup": (AT_CUP,)})
    assert covered.value == 0.0
    assert "something added covers cup" in covered.parts["not covered"].reason
    score = scored(PlanPreservation(), recolour(kept("gizmo")), BLUE_CUP, Witness(**BOTH, unknown=("gizmo",)))
    assert worth(score) > 0.9
    assert score.parts["kept 1: gizmo"].status == "not_applicable"
    assert scored(PlanPreservation(), plan("camera"), BLUE_CUP, Witness()).status == "not_applicable"


def test_a_face_embedder_is_needed_only_where_it_compares_faces(experts):
    judged, embedded = PlanPreservation(), PlanPreservation(faces="embedder")
    assert embedded.card.roles == (*judged.card.roles, "features.face")
    assert not any(role.startswith("features") for role in judged.card.roles)
    Reward(judged, {role: experts[role.partition(".")[0]] for role in judged.card.roles})
    with pytest.raises(ValueError, match=r"needs experts for features\.face"):
        Reward(embedded, {role: expert for role, expert in experts.items() if role != "features"})
    with pytest.raises(ValueError, match="has no faces 'eyes': there are judge, embedder"):
        PlanPreservation(faces="eyes")  # type: ignore[arg-type]


def test_another_picture_is_no_other_style(scored):
    gray = cv2.cvtColor(PIXELS, cv2.COLOR_RGB2GRAY)
    dodged = cv2.divide(gray, 255 - cv2.GaussianBlur(255 - gray, (21, 21), 0), scale=256)
    others = [skimage.data.astronaut(), skimage.data.chelsea(), skimage.data.rocket()]
    edits = [np.repeat(dodged[..., None], 3, axis=2), *(cv2.resize(photo, (300, 200)) for photo in others)]
    same, *other = (scored(PlanPreservation(), sketch(), Image.of(it), Witness()).value or 0.0 for it in edits)
    assert same > 0.7
    assert max(other) < 0.3


ASTRONAUT, HILLS = skimage.data.astronaut(), cv2.resize(skimage.data.rocket(), (512, 512))
PERSON = (30, 1, 420, 511)


@pytest.fixture(scope="module")
def outline():
    """512 x 512 x 1: what is the person in the photograph."""
    labels, (x0, y0, x1, y1) = np.zeros((512, 512), np.uint8), PERSON
    cv2.setRNGSeed(0)
    models = np.zeros((1, 65)), np.zeros((1, 65))
    cv2.grabCut(ASTRONAUT[:, :, ::-1].copy(), labels, (x0, y0, x1 - x0, y1 - y0), *models, 5, cv2.GC_INIT_WITH_RECT)
    return cv2.GaussianBlur((labels & 1).astype(np.float32), (0, 0), 1.5)[..., None]


def preserved(edited, instruction):
    reward = Reward.of("any-edit", "cpu", on_failures="none")
    (score,) = reward([edit(instruction, ASTRONAUT, edited, {"person": PERSON})])
    while "preservation" not in score.parts:
        score = next(iter(score.parts.values())) if len(score.parts) == 1 else score.parts["reward"]
    return score.parts["preservation"].value or 0.0


def blue_suit():
    hue, saturation, _ = np.moveaxis(cv2.cvtColor(ASTRONAUT, cv2.COLOR_RGB2HSV), 2, 0)
    orange = (hue < 15) & (saturation > 120) & (np.arange(512)[:, None] > 170)
    recoloured = ASTRONAUT.copy()
    recoloured[orange] = recoloured[orange][:, ::-1]
    return recoloured


def test_another_background_keeps_who_is_there_and_a_replacement_stands_in_its_place(outline):
    def before(background, person):
        return np.asarray(person * outline + background * (1 - outline), np.uint8)

    behind, honest = "Change the background to a launch site.", before(HILLS, ASTRONAUT)
    assert preserved(honest, behind) > 0.95
    assert max(preserved(it, behind) for it in (before(HILLS, blue_suit()), HILLS, np.roll(honest, 100, 1))) < 0.3
    dressed = before(ASTRONAUT, blue_suit())
    elsewhere = dressed.copy()
    elsewhere[:150, 430:] = 255 - elsewhere[:150, 430:]
    instruction = "Replace the person with a mannequin in a blue suit."
    assert preserved(elsewhere, instruction) < 0.6 < 0.95 < preserved(dressed, instruction)


def test_another_style_keeps_what_is_where():
    painting = np.ascontiguousarray(cv2.stylization(ASTRONAUT[:, :, ::-1].copy())[:, :, ::-1])
    gone, (x0, y0, x1, y1) = painting.copy(), PERSON
    gone[y0:y1, x0:x1] = painting[:, 440:].mean((0, 1))
    there, lost = (preserved(edited, "Make it a watercolor painting.") for edited in (painting, gone))
    assert lost < 0.3 < 0.9 < there
