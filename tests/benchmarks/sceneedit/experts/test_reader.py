"""The reader gives lines with boxes in fractions of the image, whatever its size."""

import pytest

from editcritic.benchmarks.sceneedit.experts.perception_experts import SceneReader
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject, text_extent
from editcritic.reward import Box
from editcritic.reward.queries import ReadText

WIDTH, HEIGHT = text_extent("OPEN", 1 / 64)
SIGN = SceneObject(
    1, "sign", "yellow", 24 / 64 - 1 / 128, 41 / 64 - 1 / 128, WIDTH + 4 / 64, HEIGHT + 4 / 64, text="OPEN"
)
SCENE = Scene((SIGN,), Backdrop("water", 3))


@pytest.mark.parametrize("side", [64, 128, 512])
def test_a_line_stands_where_its_ink_is(side):
    picture = render(SCENE).resized(side, side)
    ((line,),) = (reading.lines for reading in SceneReader()([ReadText(picture)]))
    assert line.text == "OPEN"
    assert 0.9 < line.box.score < 1
    assert line.box.iou(Box(SIGN.x, SIGN.y, WIDTH, HEIGHT)) > 0.85
    assert SIGN.box.contains(line.box)


def test_pictures_are_read_one_by_one():
    plain = Scene((), Backdrop("night", 3))
    readings = SceneReader()([ReadText(render(scene)) for scene in (plain, SCENE)])
    assert [reading.text for reading in readings] == ["", "OPEN"]
