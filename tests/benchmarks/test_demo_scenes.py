"""The pictures of the demo: annotations that lie in them, edits that do what their names say, the same every time."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from editcritic.benchmarks.demo import retouch
from editcritic.benchmarks.demo.candidate_edits import CANDIDATES, DemoScene, candidates, demo_tasks, perturb
from editcritic.benchmarks.demo.photographs import MAX_SIDE, PHOTOS
from editcritic.benchmarks.demo.retouch_operations import (
    DuplicateObject,
    MoveObject,
    RecolourObject,
    RemoveObject,
    ReplaceText,
)
from editcritic.reward.installation import install_command
from editcritic.reward.metrics.edival.task_parser import parse_task


def rows(*operations):
    """The test once a row, or once a row with one of these operations."""
    wanted = [scene for scene in demo_tasks() if not operations or isinstance(scene.operation, operations)]
    return pytest.mark.parametrize("scene", wanted, ids=lambda scene: scene.name)


ROWS = rows()

TYPES = {"subject_remove", "count_change", "color_alter", "text_change", "position_change"}
"""What can be judged without downloading a model."""


@pytest.fixture(scope="module")
def edits():
    return {scene.name: candidates(scene) for scene in demo_tasks()}


def difference(one, other):
    """Largest over the channels, H x W."""
    return np.abs(one.astype(int) - other.astype(int)).max(axis=2)


# -- annotations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PHOTOS)
def test_boxes_lie_in_the_photograph_and_hold_something(name):
    photo = PHOTOS[name]
    height, width = photo.pixels.shape[:2]
    assert max(height, width) <= MAX_SIDE
    for corners in photo.boxes.values():
        for x0, y0, x1, y1 in corners:
            assert 0 <= x0 < x1 <= width
            assert 0 <= y0 < y1 <= height
            assert (x1 - x0) * (y1 - y0) >= 300
            gray = photo.pixels[y0:y1, x0:x1].mean(axis=2)
            assert gray.std() > 8, "nothing to find it again by"


@pytest.mark.parametrize("name", PHOTOS)
def test_an_object_is_outlined_within_its_boxes(name):
    photo = PHOTOS[name]
    size = (photo.pixels.shape[1], photo.pixels.shape[0])
    for outlined in photo.boxes.keys() & photo.outlines.keys():
        boxes = np.maximum.reduce([retouch.rectangle_mask(box, size, margin=4) for box in photo.boxes[outlined]])
        inside = retouch.polygon_mask(photo.outlines[outlined], size)
        assert inside[boxes == 0].max() == 0, outlined
        for box in photo.boxes[outlined]:
            assert inside[retouch.rectangle_mask(box, size) > 0].mean() > 0.2, outlined


@ROWS
def test_eight_candidates_of_one_size_are_as_their_names_say_and_the_same_every_time(scene: DemoScene, edits):
    made = edits[scene.name]
    assert tuple(made) == CANDIDATES
    assert all(pixels.shape == scene.pixels.shape and pixels.dtype == np.uint8 for pixels in made.values())
    assert len({pixels.tobytes() for pixels in made.values()}) == len(CANDIDATES)
    assert np.array_equal(made["unchanged"], scene.pixels)
    assert len(np.unique(made["blank"].reshape(-1, 3), axis=0)) == 1
    good = difference(made["good"], scene.pixels)
    for name in ("sloppy", "damaged_background", "over_sharpened"):
        assert difference(made[name], scene.pixels).mean() > good.mean() + 1, name
    assert all(np.array_equal(again, made[name]) for name, again in candidates(scene).items())


def test_enough_rows_of_enough_types_whose_photographs_cannot_be_painted_on():
    assert len(demo_tasks()) >= 8
    assert {scene.task_type for scene in demo_tasks()} == TYPES
    assert len({scene.name for scene in demo_tasks()}) == len(demo_tasks())
    with pytest.raises(ValueError, match="read-only"):
        demo_tasks()[0].pixels[0, 0] = 0


def test_a_missing_scikit_image_names_the_extra():
    program = (
        "import runpy, sys\nsys.modules['skimage'] = None\nsys.argv = ['demo', '--rows', '1']\n"
        "runpy.run_module('editcritic.benchmarks.demo', run_name='__main__')\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 2
    assert install_command("bench") in answer.stderr
    assert "Traceback" not in answer.stderr


# -- instructions ------------------------------------------------------------------------------------------------------


@ROWS
def test_instructions_are_of_their_type_and_name_annotated_objects(scene: DemoScene):
    task = parse_task(scene.instruction)
    assert task is not None
    assert task.type == scene.task_type
    for named in (task.object, task.reference):
        assert named is None or named in scene.boxes


@rows(RemoveObject, RecolourObject, MoveObject, DuplicateObject)
def test_operations_are_about_the_object_of_the_instruction_and_another(scene: DemoScene):
    task, operation = parse_task(scene.instruction), scene.operation
    assert task is not None
    assert isinstance(operation, RemoveObject | RecolourObject | MoveObject | DuplicateObject)
    assert operation.object == task.object
    assert operation.other_object in scene.boxes
    assert operation.other_object != task.object


# -- candidates --------------------------------------------------------------------------------------------------------


@ROWS
def test_the_good_edit_leaves_the_rest_alone_to_the_bit(scene: DemoScene, edits):
    changed = difference(edits[scene.name]["good"], scene.pixels) > 0
    near = retouch.dilate(scene.operation.affected_box(scene.source), 2) > 0
    assert changed.any()
    assert not changed[~near].any()
    assert near.mean() < 0.25


@rows(RemoveObject, RecolourObject, ReplaceText)
def test_an_edit_in_place_stays_near_its_object(scene: DemoScene, edits):
    changed = difference(edits[scene.name]["good"], scene.pixels) > 0
    size = (scene.pixels.shape[1], scene.pixels.shape[0])
    assert isinstance(scene.operation, RemoveObject | RecolourObject | ReplaceText)
    boxes = [retouch.rectangle_mask(box, size, margin=8) for box in scene.boxes[scene.operation.object]]
    assert not changed[np.maximum.reduce(boxes) == 0].any()


@ROWS
def test_a_damaged_background_is_damaged_far_from_the_target_only(scene: DemoScene, edits):
    candidates_ = edits[scene.name]
    changed = difference(candidates_["damaged_background"], candidates_["good"])
    near = retouch.dilate(scene.operation.affected_box(scene.source), 12) > 0
    assert changed[near].max() == 0
    assert (changed > 20).mean() > 0.05


@rows(RemoveObject, RecolourObject)
def test_wrong_objects_leave_the_target_as_it_was(scene: DemoScene, edits):
    assert isinstance(scene.operation, RemoveObject | RecolourObject)
    changed = difference(edits[scene.name]["wrong_object"], scene.pixels)
    size = (scene.pixels.shape[1], scene.pixels.shape[0])
    target = retouch.polygon_mask(scene.source.outlines[scene.operation.object], size)
    assert changed.max() > 0
    assert changed[target == 1].max() == 0


# -- small damage ------------------------------------------------------------------------------------------------------


def test_small_damage_is_small_and_drawn_from_its_seed():
    pixels = PHOTOS["cat"].pixels
    digests = set()
    for seed in range(20):
        once = perturb(pixels, seed)
        assert once.shape == pixels.shape
        assert once.dtype == np.uint8
        assert np.array_equal(once, perturb(pixels, seed))
        assert 0.5 < np.abs(once.astype(int) - pixels).mean() < 12
        assert 0.95 < once.mean() / pixels.mean() < 1.05
        digests.add(hashlib.sha256(once.tobytes()).hexdigest())
    assert len(digests) == 20
