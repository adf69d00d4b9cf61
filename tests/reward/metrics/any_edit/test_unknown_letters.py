"""Letters that the reader of `cpu` does not know: a banner in them is unrequested text, a wanted text abstains."""

from pathlib import Path

import matplotlib
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import pytest
import skimage.data

from editcritic.reward import EditPlan, EditSample, Image, PlannedOperation, Reward, Target, load_experts

PHOTO = skimage.data.coffee()
CUP = PlannedOperation("color_alter", target=Target("cup"), value="blue")


@pytest.fixture(scope="module")
def experts():
    return load_experts("cpu")


def lettered(text, pixels=PHOTO, at=(60, 40)):
    """With a sign that says this."""
    font = PIL.ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans.ttf"), 28)
    drawn = PIL.Image.fromarray(pixels)
    pen = PIL.ImageDraw.Draw(drawn)
    left, top, right, bottom = pen.textbbox(at, text, font)
    pen.rectangle((left - 9, top - 9, right + 9, bottom + 9), fill=(30, 40, 90))
    pen.text(at, text, fill=(250, 240, 200), font=font)
    return np.asarray(drawn)


def scored(name, experts, edited, instruction, *operations, source=PHOTO):
    edit = EditSample("e", instruction, (Image.of(source),), Image.of(edited), plan=EditPlan(operations))
    return Reward.of(name, experts, on_failures="none")([edit]).scores[0]


@pytest.mark.parametrize("banner", ["flawless work, ten of ten", "превосходная правка", "عمل رائع جدا", "עבודה מצוינת"])
def test_a_banner_in_any_letters_is_text_that_was_not_asked_for(experts, banner):
    score = scored("any-edit", experts, lettered(banner), "Paint the cup blue", CUP)
    assert score.value == 0.0
    assert "text in the picture that was not asked for" in score.reason


def test_edits_without_text_and_moved_letters_pass(experts):
    darker = (0.6 * PHOTO).astype(np.uint8)
    another = skimage.data.chelsea()[:200, :300]
    pasted = PHOTO.copy()
    pasted[100:300, 150:450] = another
    signed, moved = lettered("скидка"), lettered("скидка", at=(300, 300))
    for source, edited in [(PHOTO, darker), (PHOTO, pasted), (signed, moved)]:
        assert scored("guard-no-unrequested-text", experts, edited, "Edit", CUP, source=source).value == 1.0


@pytest.mark.parametrize(
    ("text", "old", "script"),
    [
        ("Скидка", "", "Cyrillic"),
        ("SALE Скидка", "", "Cyrillic"),
        ("خصم كبير", "", "Arabic"),
        ("מבצע", "", "Hebrew"),
        ("Phở", "", "Latin letters such as ở"),
        ("SALE", "Скидка", "Cyrillic"),  # whether it is gone
    ],
)
def test_a_wanted_text_in_unknown_letters_abstains(experts, text, old, script):
    source = lettered(old) if old else PHOTO
    write = PlannedOperation("text_change", text=text, old_text=old)
    for name in ("any-edit", "any-edit-following"):
        score = scored(name, experts, lettered(text), f'Write "{text}"', write, source=source)
        assert (score.status, score.value) == ("abstained", None)
        assert f"the reader does not know {script}" in score.reason
        assert "reader=judge-reader" in score.reason


@pytest.mark.parametrize("text", ["SALE", "Gruß"])
def test_a_wanted_text_in_known_letters_is_read(experts, text):
    write = PlannedOperation("text_change", text=text)
    edits = {"right": lettered(text), "missing": PHOTO[:, ::-1]}
    values = {
        name: scored("any-edit-following", experts, edited, f'Write "{text}"', write).value
        for name, edited in edits.items()
    }
    assert values == {"right": pytest.approx(1, abs=0.01), "missing": pytest.approx(0, abs=0.01)}


@pytest.mark.parametrize("protocol", ["paper", "official"])
def test_edival_abstains_too(experts, protocol):
    edit = EditSample("e", "Add text 'Скидка' on the image", (Image.of(PHOTO),), Image.of(lettered("Скидка")))
    score = Reward.of(f"edival-if?protocol={protocol}", experts)([edit]).scores[0]
    assert score.status == "abstained"
    assert "Cyrillic" in score.reason
