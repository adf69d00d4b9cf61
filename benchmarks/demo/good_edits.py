"""The demo's photographs with their good edits, at full size."""

from __future__ import annotations

from ...reward import Box, EditSample, Image
from .demo_scenes import demo_tasks


def good_edits() -> list[EditSample]:
    """The good edit of each row, with the boxes of its objects. Raises `InputError` without scikit-image."""
    samples = []
    for scene in demo_tasks():
        source = Image.of(scene.pixels)
        boxes = {
            name: tuple(Box.from_corners(*corners, source.size) for corners in object_boxes)
            for name, object_boxes in scene.boxes.items()
        }
        edited = Image.of(scene.operation.good(scene.source))
        samples.append(EditSample(scene.name, scene.instruction, (source,), edited, boxes=boxes))
    return samples
