"""Where a plan lets an image change, and whether what was redrawn belongs to its picture."""

from dataclasses import replace
from statistics import median

import cv2
import numpy as np
import pytest
from skimage import data

from editcritic.reward import Box, EditPlan, EditSample, Engine, Image, PlannedOperation, Reward, Score, Target, ask
from editcritic.reward.experts.pixel_changes import PixelChanges
from editcritic.reward.metrics.any_edit.regions import MAX_NEW_SHARE, EditRegion, PlanRegion, edit_region
from editcritic.reward.queries import Abstention, Detections, MapChanges, RateRegion, Reply

from ...fakes import Fake
from .conftest import PHOTO, Witness, painted, worth

CHANGES = PixelChanges()
CUP = (0.5, 0.5, 0.2, 0.2)
SEEN = {"cup": [(*CUP, 0.9)]}
LARGE = {"dog": [(0.5, 0.5, 0.9, 0.9, 0.9)]}
EDITED, ELSEWHERE = painted(Box(0.2, 0.2, 0.1, 0.1)), painted(Box(0.5, 0.5, 1, 1))


def op(kind, target=None, words="", **slots):
    return PlannedOperation(kind, words, target, **slots)


def region(operations, witness, edited=EDITED):
    """Where one operation, or several, may change the photograph."""
    regions: list[EditRegion] = []
    sample = EditSample("s", "see the plan", (PHOTO,), edited)

    def program():
        changes = yield from ask(MapChanges(sample.source, sample.edited))
        listed = operations if isinstance(operations, list) else [operations]
        regions.append((yield from edit_region(sample, listed, changes)))
        return Score.of(1.0)

    experts = {**dict.fromkeys(("detector", "reader"), witness), "changes": CHANGES}
    with Engine() as engine:
        engine.submit(program(), experts, sample).result(timeout=60)
    return regions[0]


def covered(allowed):
    return sum(box.area for box in allowed.boxes)


TARGET = Target("cup")
RECOLOUR = op("color_alter", TARGET, value="blue")
REPLACE = op("subject_replace", TARGET, new=Target("dog"))
ADD = op("subject_add", new=Target("dog"))
LEFT_OF = op("subject_add", new=Target("dog"), position="left", reference=TARGET)
MOVE = op("position_change", TARGET, position="left", reference=TARGET)
COPIES = {"cup": [*SEEN["cup"], *[(x, 0.9, 0.1, 0.1, 0.9) for x in (0.1, 0.3, 0.7, 0.9)]]}
MOVED = {"cup": [(0.15, 0.15, 0.29, 0.29, 0.9)]}
SMALL = {"cup": [(0.5, 0.5, 0.1, 0.1, 0.9)]}


@pytest.mark.parametrize(
    ("operation", "source", "edited", "boxes"),
    [
        (RECOLOUR, SEEN, {"cup": LARGE["dog"]}, [(0.5, 0.22)]),  # what the edited image shows does not count
        (ADD, {"dog": SEEN["cup"]}, {"dog": [*SEEN["cup"], (0.1, 0.1, 0.1, 0.1, 0.5)]}, [(0.1, 0.105)]),
        (LEFT_OF, SEEN, {"dog": [(0.3, 0.5, 0.4, 0.4, 0.9)]}, [(0.3, 0.44)]),
        (LEFT_OF, SEEN, {"dog": [(0.7, 0.5, 0.4, 0.4, 0.9)]}, []),  # on the other side
        (REPLACE, SEEN, LARGE, [(0.5, 0.22), (0.5, 0.3)]),  # where the old object stood, and a half more
        (MOVE, SEEN, MOVED, [(0.5, 0.22), (0.15, 0.29)]),
        (MOVE, SMALL, MOVED, [(0.5, 0.11), (0.15, 0.15)]),  # no larger than it was by half
        (op("position_change", TARGET), SEEN, {"cup": [(0.4, 0.5, 0.2, 0.2, 0.9)]}, [(0.5, 0.22), (0.4, 0.2)]),
        (op("count_change", TARGET, count=3), SEEN, COPIES, 1 + 2),  # the one that is there, and two more
        (op("duplicate", TARGET), SEEN, COPIES, 1 + 1),  # one more however many are found
    ],
)
def test_where_an_operation_may_change_the_picture(operation, source, edited, boxes):
    found = region(operation, Witness(source=source, edited=edited)).boxes
    if isinstance(boxes, int):
        assert len(found) == boxes
    else:
        assert [(box.cx, box.w) for box in found] == [pytest.approx(box, abs=0.011) for box in boxes]


@pytest.mark.parametrize("size", [0.3, 0.6, 0.95])
def test_something_added_may_cover_a_bounded_share(size):
    allowed = region(ADD, Witness(edited={"dog": [(0.5, 0.5, size, size, 0.9)]}))
    loose = (1.1 * size) ** 2
    assert covered(allowed) == pytest.approx(min(loose, MAX_NEW_SHARE))
    assert bool(allowed.notes) == (loose > MAX_NEW_SHARE)


@pytest.mark.parametrize("at", [CUP, (1.6, 0.4, 0.3, 0.5)], ids=["inside", "outside of the picture"])
def test_a_replacement_that_no_detector_knows_is_what_changed_around_the_old_object(at):
    allowed = region(REPLACE, Witness(source={"cup": [(*at, 0.9)]}, unknown=("dog",)), ELSEWHERE)
    assert max(box.w for box in allowed.boxes) <= 1.5 * at[2] + 2 / 32  # in patches


@pytest.mark.parametrize(
    ("operation", "whole"),
    [
        *((op(kind, TARGET), True) for kind in ("zoom", "crop", "reframe", "camera", "extraction")),
        *((op(kind, value="snow"), True) for kind in ("background_change", "style")),
        (op("light", TARGET, value="brighter"), False),
    ],
)
def test_a_new_frame_background_or_style_changes_everything(operation, whole):
    assert region(operation, Witness(source=SEEN)).whole is whole


def test_a_text_may_stand_where_it_is_read():
    write = op("text_change", text="SALE")
    assert covered(region(write, Witness(text=("", "SALE")))) == pytest.approx(MAX_NEW_SHARE)  # nobody says where
    assert region(write, Witness(text=("", "nothing like it"))).boxes == ()


@pytest.mark.parametrize("witness", [Witness(unknown=("cup",)), Witness()], ids=["no detector", "not found"])
def test_where_nothing_finds_the_target_the_edit_is_the_largest_change(witness):
    edited = painted(Box(0.8, 0.8, 0.05, 0.05), pixels=EDITED.pixels)
    (box,) = region(RECOLOUR, witness, edited).boxes
    assert box.iou(Box(0.2, 0.2, 0.1, 0.1)) > 0.15
    assert box.x1 < 0.5
    assert covered(region(RECOLOUR, witness, ELSEWHERE)) <= 0.31
    both = painted(Box(0.8, 0.8, 0.1, 0.1), pixels=EDITED.pixels)
    assert len(region([op("other", words=words) for words in ("do this", "do that")], witness, both).boxes) == 2


def with_cup(photograph, corners, *, smooth=False):
    """A cup with a part of its saucer from a photograph, cut out along an ellipse."""
    x0, y0, x1, y1 = corners
    width, height = x1 - x0, y1 - y0
    cup = cv2.resize(data.coffee()[70:330, 170:450], (width, height), interpolation=cv2.INTER_AREA)
    cup = cv2.GaussianBlur(cup, (0, 0), 2.0) if smooth else cup
    outline = np.zeros((height, width), np.float32)
    cv2.ellipse(outline, (width // 2, height // 2), (width // 2 - 2, height // 2 - 2), 0, 0, 360, 1.0, -1)
    share = np.asarray(cv2.GaussianBlur(outline, (0, 0), 0.8))[:, :, None]
    composed = photograph.copy()
    composed[y0:y1, x0:x1] = cup * share + photograph[y0:y1, x0:x1] * (1 - share)
    return composed


def encoded(pixels):
    """As an editor gives a picture back: a little smoother, through JPEG."""
    smooth = cv2.bilateralFilter(cv2.GaussianBlur(pixels, (0, 0), 0.5), 5, 15, 2)
    _, packed = cv2.imencode(".jpg", smooth[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 90])
    return np.ascontiguousarray(np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR))[:, :, ::-1])


def removal(source, edited, corners, name="s", operation=None):
    x0, y0, x1, y1 = corners
    box = Box.from_corners(x0, y0, x1, y1, source.shape[1::-1])
    plan = EditPlan((operation or op("subject_remove", Target("cup", boxes=(box,)), "remove the cup"),))
    return EditSample(name, "remove the cup", (Image.of(source),), Image.of(edited), plan=plan)


def rated(experts, *samples):
    return list(Reward(PlanRegion(), experts, on_failures="none")(list(samples)))


def noisy(pixels, deviation):
    noise = np.random.RandomState(1).normal(0, deviation, pixels.shape)
    return np.asarray(np.clip(pixels + noise, 0, 255), np.uint8)


Y, X = np.mgrid[0:400, 0:600]
BRICKS = np.where((Y % 32 < 4) | ((X + 24 * (Y // 32 % 2)) % 48 < 4), 190.0, 120.0)[:, :, None] * [1, 0.75, 0.65]
SHADE = np.array([190.0, 180, 165]) + 45 * Y[:, :, None] / 600 - 25 * X[:, :, None] / 600
DEFOCUSED = noisy(cv2.GaussianBlur(data.astronaut(), (0, 0), 5), 1.5)
FLAT = cv2.pyrMeanShiftFiltering(data.coffee(), 10, 35)
THIRDS = [(40, 60, 400, 330), (200, 40, 560, 310), (120, 90, 480, 390)]
HONEST = {
    "a wall": (noisy(SHADE, 1.2), [(200, 120, 330, 240), (60, 60, 140, 130), (400, 200, 560, 360)]),
    "the sky": (data.rocket(), [(40, 40, 150, 140), (430, 60, 560, 170), (60, 150, 120, 210)]),
    "out of focus": (DEFOCUSED, [(40, 60, 150, 170), (340, 200, 470, 330), (200, 300, 300, 400)]),
    "fur": (data.chelsea(), [(40, 160, 130, 240), (200, 180, 300, 270), (330, 40, 420, 120)]),
    "wood and plates": (data.coffee(), [(20, 20, 130, 120), (440, 250, 560, 360), (30, 260, 130, 350)]),
    "a repeating pattern": (noisy(BRICKS, 9), [(200, 120, 330, 240), (60, 60, 150, 140), (400, 200, 540, 330)]),
    "night": (
        noisy((data.rocket() / 255.0) ** 2.2 * 200, 2),
        [(40, 40, 150, 140), (430, 60, 560, 170), (300, 220, 400, 320)],
    ),
    "an illustration": (FLAT, [(20, 20, 130, 120), (440, 250, 560, 360), (30, 260, 130, 350)]),
    "at the border": (data.astronaut(), [(0, 200, 110, 320), (380, 0, 511, 100), (200, 420, 330, 511)]),
    "a third of the picture": (data.coffee(), THIRDS),
}
FILLS = {
    "grey": lambda source: np.full_like(source, 128),
    "blurred": lambda source: cv2.GaussianBlur(source, (0, 0), 14),
    "noise": lambda source: np.random.RandomState(3).randint(0, 256, source.shape, np.uint8),
    "another colour": lambda source: np.full_like(source, [230, 20, 120]),
}


def filled(source, corners, fill):
    """The box filled with what `fill` makes of the whole picture."""
    x0, y0, x1, y1 = corners
    edited = source.copy()
    edited[y0:y1, x0:x1] = FILLS[fill](source)[y0:y1, x0:x1]
    return edited


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_removal_belongs_to_its_picture_and_a_fill_does_not(kind, experts):
    photograph, places = HONEST[kind]
    sources = [(with_cup(photograph, corners), corners) for corners in places]
    honest = rated(experts, *(removal(source, encoded(photograph), corners) for source, corners in sources))
    assert median(score.value or 0.0 for score in honest) >= 0.8
    fills = [removal(source, filled(source, at, fill), at, fill) for source, at in sources for fill in FILLS]
    assert median(score.value or 0.0 for score in rated(experts, *fills)) <= 0.1


FUR = (200, 180, 300, 270)
CAT = with_cup(data.chelsea(), FUR)
HONEST_CAT = removal(CAT, encoded(data.chelsea()), FUR)


def test_a_copy_has_all_and_what_shows_through_does_not(experts):
    ghost = np.asarray(0.6 * data.chelsea() + 0.4 * CAT, np.uint8)
    copy, seen = rated(experts, removal(CAT, CAT, FUR), removal(CAT, ghost, FUR))
    assert (copy.value, copy.reason) == (1.0, "what stands in its place belongs there")
    assert worth(seen) < 0.5


@pytest.mark.parametrize("smooth", [False, True])
def test_a_new_object_may_be_sharper_or_smoother_than_what_is_around_it(smooth, experts):
    photograph, corners = data.chelsea() if smooth else DEFOCUSED, (180, 100, 310, 220)
    ball = Target("ball", boxes=(Box.from_corners(*corners, photograph.shape[1::-1]),))
    operation = op("subject_replace", ball, "replace the ball with a cup", new=TARGET)
    source = cv2.circle(photograph.copy(), (245, 160), 55, (200, 60, 40), -1)
    edits = (encoded(with_cup(photograph, corners, smooth=smooth)), filled(source, corners, "noise"))
    known = {**experts, "detector": Fake(lambda query: Detections((), 0.05))}
    good, noise = rated(known, *(removal(source, edited, corners, operation=operation) for edited in edits))
    assert worth(good) >= 0.8
    assert worth(noise) <= 0.55  # what is new may have any texture: a judge has to tell noise from it


def test_what_may_change_everywhere_or_leaves_nothing_around_it_or_is_tiny_has_no_region(experts):
    photograph, corners = data.coffee(), (100, 100, 160, 104)
    style = op("style", None, "turn it into a sketch", value="sketch")
    sketch = replace(removal(photograph, encoded(photograph), corners, operation=style), instruction=style.words)
    tiny = removal(photograph, filled(photograph, corners, "grey"), corners)
    whole, most, few = rated(experts, sketch, removal(photograph, encoded(photograph), (0, 0, 590, 390)), tiny)
    assert {score.status for score in (whole, most, few)} == {"not_applicable"}
    assert "nothing around it" in most.reason
    assert few.reason.startswith("what was to change is too ")
    query = RateRegion(tiny.source, tiny.edited, Box.from_corners(*corners, (600, 400)), "new")
    assert isinstance(experts["changes"]([query])[0], Abstention)


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        *((0.9, 0.9, 1.0), (0.9, 0.45, 0.5), (0.8, 0.0, 0.0)),
        (0.3, 0.0, 1.0),  # finds fault with the source: it cannot tell
        (None, 0.0, 1.0),
        (0.9, None, None),  # abstains on the edit alone: a failure
    ],
)
def test_a_judge_is_asked_once_and_counts_against_what_it_says_of_the_source(before, after, left, experts):
    def answer(query):
        assert query.topic == "any-edit/region"
        origin = query.images[0].origin
        yes = before if origin is not None and origin[0] == HONEST_CAT.source else after
        return Abstention("cannot tell") if yes is None else Reply("yes", {"yes": yes, "no": 1 - yes})

    judge = Fake(answer)
    (alone,), (score,) = rated(experts, HONEST_CAT), rated({**experts, "judge": judge}, HONEST_CAT)
    if left is None:
        assert (score.status, "abstains on the edit" in score.reason) == ("failed", True)
        return
    assert score.value == pytest.approx(left * worth(alone))
    assert sum(judge.seen.values()) == (2 if before is not None and before >= 0.5 else 1)
    assert ("the judge" in score.reason) == (left < 1)
