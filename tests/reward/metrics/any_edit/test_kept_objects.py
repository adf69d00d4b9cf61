"""What stands before another background, or in another style, is compared by itself: photographs, boxes, no model."""

import cv2
import numpy as np
import pytest
import skimage.data

from editcritic.reward import Box, EditSample, Image, Reward
from editcritic.reward.experts.pixel_changes import PixelChanges
from editcritic.reward.queries import Measurement, Remains

PHOTO = skimage.data.astronaut()
AT = (30, 1, 420, 511)
PERSON = {"person": (Box.from_corners(*AT, (512, 512)),)}
HILLS = cv2.resize(skimage.data.rocket(), (512, 512))
BEHIND = "Change the background to a launch site."


@pytest.fixture(scope="module")
def outline():
    """512 x 512 x 1: what is the person in the photograph."""
    labels = np.zeros((512, 512), np.uint8)
    cv2.setRNGSeed(0)
    x0, y0, x1, y1 = AT
    rectangle = (x0, y0, x1 - x0, y1 - y0)
    cv2.grabCut(
        PHOTO[:, :, ::-1].copy(), labels, rectangle, np.zeros((1, 65)), np.zeros((1, 65)), 5, cv2.GC_INIT_WITH_RECT
    )
    return cv2.GaussianBlur((labels & 1).astype(np.float32), (0, 0), 1.5)[..., None]


def kept(edited, instruction, boxes):
    reward = Reward.of("any-edit", "cpu", on_failures="none")
    (score,) = reward([EditSample("a", instruction, (Image.of(PHOTO),), Image.of(edited), boxes=boxes)])
    while "preservation" not in score.parts:
        score = next(iter(score.parts.values())) if len(score.parts) == 1 else score.parts["reward"]
    return score.parts["preservation"]


def before(background, person, outline):
    return np.asarray(person * outline + background * (1 - outline), np.uint8)


def blue_suit():
    hue, saturation, _ = np.moveaxis(cv2.cvtColor(PHOTO, cv2.COLOR_RGB2HSV), 2, 0)
    orange = (hue < 15) & (saturation > 120) & (np.arange(512)[:, None] > 170)
    recoloured = PHOTO.copy()
    recoloured[orange] = recoloured[orange][:, ::-1]
    return recoloured


def test_another_background_keeps_who_is_there_and_their_colours_and_place(outline) -> None:
    moved = np.roll(before(HILLS, PHOTO, outline), 100, 1)
    honest = kept(before(HILLS, PHOTO, outline), BEHIND, PERSON)
    assert (honest.value or 0.0) > 0.95, honest.reason
    for edited in (before(HILLS, blue_suit(), outline), HILLS, moved):
        worse = kept(edited, BEHIND, PERSON)
        assert (worse.value or 0.0) < 0.3, worse.reason


def test_a_plain_object_is_compared_by_its_colours_and_one_like_its_surroundings_not_at_all() -> None:
    def edits(colour):
        before = np.full((200, 300, 3), 120, np.uint8)
        after = np.asarray(np.random.RandomState(0).randint(0, 255, before.shape), np.uint8)
        for picture in (before, after):
            picture[60:140, 100:180] = colour
        return Image.of(before), Image.of(after)

    box = (Box.from_corners(100, 60, 180, 140, (300, 200)),)
    pairs = [edits(colour) for colour in ((200, 30, 30), (120, 120, 120))]
    answers = PixelChanges()([Remains(before, after, box, unchanged=True) for before, after in pairs])
    plain, hidden = (answer.value for answer in answers if isinstance(answer, Measurement))
    assert (plain or 0.0) > 0.9
    assert hidden is None


def test_another_style_keeps_what_is_where() -> None:
    painting = np.ascontiguousarray(cv2.stylization(PHOTO[:, :, ::-1].copy())[:, :, ::-1])
    x0, y0, x1, y1 = AT
    gone = painting.copy()
    gone[y0:y1, x0:x1] = painting[:, 440:].mean((0, 1))
    values = [kept(edited, "Make it a watercolor painting.", PERSON).value or 0.0 for edited in (painting, gone)]
    assert values[0] > 0.9
    assert values[1] < 0.3


def test_a_replacement_stands_where_the_box_of_the_old_object_is(outline) -> None:
    dressed = before(PHOTO, blue_suit(), outline)
    instruction = "Replace the person with a mannequin in a blue suit."
    assert (kept(dressed, instruction, PERSON).value or 0.0) > 0.95
    elsewhere = dressed.copy()
    elsewhere[:150, 430:] = 255 - elsewhere[:150, 430:]
    assert (kept(elsewhere, instruction, PERSON).value or 0.0) < 0.6
