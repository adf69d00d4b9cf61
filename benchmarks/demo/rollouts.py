"""The demo's photographs with several edits of each, at full size, as a policy's rollouts."""

from __future__ import annotations

from dataclasses import replace

from ...reward import EditSample, Image
from .candidate_edits import candidates
from .demo_scenes import demo_tasks
from .good_edits import good_edits

_EXTREMES = ("unchanged", "blank")
"""Candidates that a guard rejects before most questions are asked; a policy makes few of them."""


def rollouts() -> list[EditSample]:
    """Six edits of each row, with one group a row. Raises `InputError` without scikit-image."""
    return [
        replace(sample, id=f"{scene.name}/{name}", group=scene.name, edited=Image.of(pixels))
        for sample, scene in zip(good_edits(), demo_tasks(), strict=True)
        for name, pixels in candidates(scene).items()
        if name not in _EXTREMES
    ]
