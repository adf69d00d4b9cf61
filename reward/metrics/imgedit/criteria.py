"""The nine types of edits of ImgEdit-Bench's basic suite, their criteria, and the type of a sample."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

from ...sample import EditSample
from ..edival.task_parser import task_of

EditType = Literal["add", "adjust", "extract", "replace", "remove", "background", "style", "compose", "action"]
EDIT_TYPES: tuple[EditType, ...] = get_args(EditType)
"""In the order of the published table, where `compose` is called hybrid."""

Criteria = tuple[str, str, str]

CRITERIA: Mapping[EditType, Criteria] = MappingProxyType(
    {
        "add": ("Prompt Compliance", "Visual Naturalness", "Physical & Detail Coherence"),
        "adjust": ("Prompt Compliance", "Visual Seamlessness", "Physical & Detail Fidelity"),
        "extract": ("Object Identity", "Mask Precision", "Visual Quality"),
        "replace": ("Prompt Compliance", "Visual Naturalness", "Physical & Detail Integrity"),
        "remove": ("Prompt Compliance", "Visual Naturalness", "Physical & Detail Integrity"),
        "background": ("Instruction Compliance", "Visual Seamlessness", "Physical Consistency"),
        "style": ("Style Fidelity", "Content Preservation", "Rendering Quality"),
        "compose": ("Instruction Compliance", "Visual Naturalness", "Physical Consistency & Fine Detail"),
        "action": ("Action Fidelity", "Identity Preservation", "Visual & Anatomical Coherence"),
    }
)
"""Type -> the names of its criteria in replies. The first one bounds the others."""

_TYPE_OF_TASK: Mapping[str, EditType] = {
    "subject_add": "add",
    "subject_remove": "remove",
    "subject_replace": "replace",
    "color_alter": "adjust",
    "material_alter": "adjust",
    "background_change": "background",
}
"""ImgEdit-Bench has no type for EdiVal's other tasks: positions, counts and texts."""


def edit_type_of(sample: EditSample) -> EditType | None:
    """The type of an edit: `compose` for several operations, else the name of the only one if it is a type, else that
    of the sample's task, annotated or parsed. None if all of these leave it open.
    """
    if len(sample.operations) > 1:
        return "compose"
    names = [operation.name.strip().casefold() for operation in sample.operations]
    named = next((kind for kind in EDIT_TYPES if kind in names), None)
    if named is not None:
        return named
    task = task_of(sample)
    return None if task is None else _TYPE_OF_TASK.get(task.type)
