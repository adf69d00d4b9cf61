"""EditPlan: what an instruction asks for, taken apart, and what must stay; and plans as JSON.

A plan depends on the source images and the instruction only, never on an edit: all edits of a group share one. It is a
field of the sample (`EditSample.plan`), or a planner's answer to the query `Plan`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, TypeAdapter, with_config

from .boxes import Box
from .sample import MAX_TEXT, STRICT, Position, TaskType, check_count, check_length, check_number

OperationType = Literal[
    TaskType,  # EdiVal's nine
    # what Complex-Edit's 24 operations have beyond them
    "resize",
    "rotate",
    "duplicate",
    "filter",
    "light",
    "text_remove",
    "text_style",
    "pose",
    "expression",
    "crop",
    "reframe",
    "zoom",
    "effect_add",
    "effect_remove",
    "particles_add",
    "particles_remove",
    # neither has these
    "style",
    "weather",
    "camera",
    "attribute",
    "extraction",
    "restoration",
    "composition",
    "reasoning",
    "other",
]
"""What an operation does. `weather`: weather, season or time of day. `pose`: pose and action. `camera`: the viewpoint.
`attribute`: any other property of an object. `composition`: of several sources. `reasoning`: what to change follows
from knowledge, as in "after a year"."""
OPERATION_TYPES: tuple[OperationType, ...] = get_args(OperationType)
COMPLEX_EDIT_TYPES: Mapping[str, OperationType] = MappingProxyType(
    {
        "Add an Object": "subject_add",
        "Remove an Object": "subject_remove",
        "Replace an Object": "subject_replace",
        "Move an Object": "position_change",
        "Resize an Object": "resize",
        "Rotate an Object": "rotate",
        "Duplicate an Object": "duplicate",
        "Change Color": "color_alter",
        "Apply Filter/Weather": "filter",
        "Change Texture": "material_alter",
        "Change Background": "background_change",
        "Adjust Lighting": "light",
        "Add Text": "text_change",
        "Remove Text": "text_remove",
        "Change Text Properties": "text_style",
        "Change Pose": "pose",
        "Change Facial Expression": "expression",
        "Crop Image": "crop",
        "Reframe Composition": "reframe",
        "Zoom In/Out": "zoom",
        "Add Special Effects": "effect_add",
        "Remove Special Effects": "effect_remove",
        "Add Particles": "particles_add",
        "Remove Particles": "particles_remove",
    }
)
"""Name of an atomic operation of Complex-Edit -> its type here."""
Scope = Literal["local", "object", "whole"]
"""What may change: a part of an object or a spot; whole objects; the whole picture (style, light, background)."""
Place = Literal["left", "right", "top", "bottom", "center", "foreground", "background"]
"""Where in the picture a target is. `foreground` and `background`: near to, and far from the viewer."""
SizeRank = Literal["largest", "smallest"]
Quantity = int | Literal["all", "both"]
RelationKind = Literal["left", "right", "above", "below", "on", "in", "beside", "behind", "in_front", "with", "part"]
"""How a target lies to another object. `with`: it has, holds or wears it. `part`: it is a part of it."""
KeptAspect = Literal["object", "identity", "text", "layout", "style", "light", "background"]
"""What must stay: an object as it is; who a person is; words; where things are; the looks of the picture."""
ExpectedAnswer = Literal["yes", "no"]
QuestionView = Literal["edited", "pair", "crop"]
"""What a question is asked about: the edited image, source and edited image, or the target cut out of the edited one.
The answer before the edit is that about the source, a pair of twice the source, or the target cut out of the source."""
MAX_OPERATIONS = 16
MAX_QUESTIONS = 12
MAX_KEPT = 32
MAX_NESTING = 3
MAX_ATTRIBUTES = 16
MAX_BOXES = 256
_Text = Annotated[str, Field(max_length=MAX_TEXT)]
_ORDINALS = MappingProxyType({2: "second", 3: "third"})
_RELATION_WORDS: Mapping[RelationKind, str] = MappingProxyType(
    {
        "left": "to the left of the",
        "right": "to the right of the",
        "above": "above the",
        "below": "below the",
        "on": "on the",
        "in": "in the",
        "beside": "next to the",
        "behind": "behind the",
        "in_front": "in front of the",
        "with": "with the",
        "part": "of the",
    }
)
_REQUIRED_SLOTS: Mapping[OperationType, tuple[str, ...]] = MappingProxyType(
    {
        "subject_add": ("new",),
        "subject_remove": ("target",),
        "subject_replace": ("target", "new"),
        "position_change": ("target",),
        "count_change": ("target", "count"),
        "color_alter": ("target", "value"),
        "material_alter": ("target", "value"),
        "text_change": ("text",),
        "background_change": ("value",),
        "resize": ("target",),
        "rotate": ("target",),
        "duplicate": ("target",),
        "extraction": ("target",),
    }
)


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class Relation:
    """How a target lies to another object, `of`: "the cup *on the table*"."""

    kind: RelationKind
    of: Target


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class Target:
    """A referring expression, taken apart: "the second red cup from the left on the table".

    Args:
        noun: Noun phrase for a detector, with neither article nor place ("cup", "traffic light"); it may keep
            attributes that belong to the name.
        attributes: Colours, materials and others ("red").
        place: In the picture, or among several of them.
        order: Its number, from 1, counted from a side.
        order_from: Its number, from 1, counted from a side.
        size: Among several.
        quantity: How many are meant; 1 for "the cup".
        relation: To another object.
        boxes: Where it is in the source, if annotated; nothing is detected then.

    Raises:
        ValueError: For an empty noun, a text that is too long, or a contradiction.
    """

    noun: _Text
    attributes: Annotated[tuple[_Text, ...], Field(max_length=MAX_ATTRIBUTES)] = ()
    place: Place | None = None
    order: int | None = None
    order_from: Literal["left", "right", "top", "bottom"] | None = None
    size: SizeRank | None = None
    quantity: Quantity = 1
    relation: Relation | None = None
    boxes: Annotated[tuple[Box, ...], Field(max_length=MAX_BOXES)] = ()

    def __post_init__(self) -> None:
        _check_lengths("a target", self.noun, *self.attributes)
        if not self.noun.strip():
            raise ValueError("a target needs a noun: the name of the object for a detector")
        check_count(f"{self.noun!r:.80}", "attributes", self.attributes, MAX_ATTRIBUTES)
        check_count(f"{self.noun!r:.80}", "boxes", self.boxes, MAX_BOXES)
        if (self.order is None) != (self.order_from is None):
            raise ValueError(f"{self.noun!r}: order and order_from go together, as in order=2, order_from='left'")
        check_number(f"{self.noun!r:.80}: order", self.order)
        check_number(f"{self.noun!r:.80}: quantity", self.quantity if isinstance(self.quantity, int) else None)
        if self.order is not None and self.order < 1:
            raise ValueError(f"{self.noun!r}: order counts from 1, got {self.order}")
        if isinstance(self.quantity, int) and self.quantity < 1:
            raise ValueError(f"{self.noun!r}: quantity must be 1 or more, 'all' or 'both', got {self.quantity}")
        if self.nesting > MAX_NESTING:
            raise ValueError(f"{self.noun!r}: relations are nested deeper than {MAX_NESTING}: leave the outer ones out")

    @property
    def nesting(self) -> int:
        """Number of targets that this one refers to, one through the other."""
        return 0 if self.relation is None else 1 + self.relation.of.nesting

    @property
    def phrase(self) -> str:
        """Attributes and noun, as in "red cup"."""
        return " ".join((*self.attributes, self.noun))

    @property
    def words(self) -> str:
        """The whole expression in plain words, for a judge."""
        place = {"foreground": " in the foreground", "background": " in the background", None: ""}.get(
            self.place, f" at the {self.place} of the picture"
        )
        order = f"{_ORDINALS.get(self.order or 0, f'{self.order}th')} " if self.order and self.order > 1 else ""
        origin = f" from the {self.order_from}" if self.order_from else ""
        if self.order == 1:
            order, origin = "first ", f" from the {self.order_from}"
        relation = f" {_RELATION_WORDS[self.relation.kind]} {self.relation.of.words}" if self.relation else ""
        number = "" if self.quantity == 1 else f"{self.quantity} "
        size = f"{self.size} " if self.size else ""
        return f"{number}{order}{size}{self.phrase}{origin}{place}{relation}"


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class Question:
    """A yes/no question that checks an operation. Its text says nothing about the answer that is expected.

    Args:
        before: The expected answers about the source and about the edit.
        after: The expected answers about the source and about the edit.
        view: See `QuestionView`.
        parent: Index, in the operation's questions, of one that must have its expected answer for this one to count.
        near_miss: It asks about the wrong object or the wrong value: yes about the edit means that another edit was
            made than requested.
        paraphrase: The same question in other words, asked where the answer about the source is not the expected one.
    """

    text: _Text
    before: ExpectedAnswer = "no"
    after: ExpectedAnswer = "yes"
    view: QuestionView = "edited"
    parent: int | None = None
    near_miss: bool = False
    paraphrase: _Text = ""

    def __post_init__(self) -> None:
        _check_lengths("a question", self.text, self.paraphrase)
        if not self.text.strip():
            raise ValueError("a question needs a text")
        if self.near_miss and self.after != "no":
            raise ValueError(f"near miss {self.text!r} must be answered no about the edit, and `after` is 'yes'")


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class PlannedOperation:
    """One operation of an instruction. Unused slots stay empty.

    Args:
        words: The words of the instruction that it accounts for, verbatim.
        target: What it is about, in the source.
        new: What is added, or takes the target's place.
        value: The new colour, material, background, style, light or other property.
        text: What is to be written, and what was there.
        old_text: What is to be written, and what was there.
        count: How many there shall be.
        position: Where something is put.
        reference: Where something is put.
        questions: How to check it, where its type has no checks of its own, or beside them; a parent stands before its
            children.

    Raises:
        ValueError: For a missing slot of its type, and for questions that refer to none.
    """

    type: OperationType
    words: _Text = ""
    target: Target | None = None
    new: Target | None = None
    value: _Text = ""
    text: _Text = ""
    old_text: _Text = ""
    count: int | None = None
    position: Position | None = None
    reference: Target | None = None
    questions: Annotated[tuple[Question, ...], Field(max_length=MAX_QUESTIONS)] = ()

    def __post_init__(self) -> None:
        if self.type not in OPERATION_TYPES:
            raise ValueError(f"unknown type of operation {self.type!r}: expected one of {', '.join(OPERATION_TYPES)}")
        _check_lengths(self.type, self.words, self.value, self.text, self.old_text)
        missing = [slot for slot in _REQUIRED_SLOTS.get(self.type, ()) if getattr(self, slot) in (None, "")]
        if missing:
            raise ValueError(f"a {self.type} operation needs {', '.join(missing)}")
        check_number(f"the count of a {self.type} operation", self.count)
        if self.count is not None and self.count < 0:
            raise ValueError(f"count must not be negative, got {self.count}")
        if (self.position is None) != (self.reference is None):
            raise ValueError(f"a {self.type} operation takes position and reference together, or neither")
        check_count("an operation", "questions", self.questions, MAX_QUESTIONS)
        for index, question in enumerate(self.questions):
            if question.parent is not None and not 0 <= question.parent < index:
                raise ValueError(
                    f"question {index} has the parent {question.parent}: a parent stands before its children"
                )

    @property
    def targets(self) -> tuple[Target, ...]:
        """Target, new object and reference, as far as there are any."""
        return tuple(target for target in (self.target, self.new, self.reference) if target is not None)


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class Kept:
    """Something that must stay.

    Args:
        target: Whose; None for the whole picture.
        words: Those of the instruction that say so; empty where it follows from the operations alone.
    """

    aspect: KeptAspect
    target: Target | None = None
    words: _Text = ""

    def __post_init__(self) -> None:
        _check_lengths("what is kept", self.words)
        if self.aspect in ("object", "identity") and self.target is None:
            raise ValueError(f"what is kept as {self.aspect} needs a target")


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class EditPlan:
    """What an instruction asks for: operations in order, and what must stay.

    Args:
        scope: What may change, see `Scope`.
        language: Of the instruction, as an IETF tag ("en", "zh").
        confidence: Of the planner, in [0, 1]; 1 for an annotation.

    Raises:
        ValueError: Without operations, with too many, or for a confidence outside of [0, 1].
    """

    operations: Annotated[tuple[PlannedOperation, ...], Field(max_length=MAX_OPERATIONS)]
    keep: Annotated[tuple[Kept, ...], Field(max_length=MAX_KEPT)] = ()
    scope: Scope = "object"
    language: _Text = "en"
    confidence: float = 1.0

    def __post_init__(self) -> None:
        if not self.operations:
            raise ValueError("a plan needs at least one operation")
        check_count("a plan", "operations", self.operations, MAX_OPERATIONS)
        check_count("a plan", "kept items", self.keep, MAX_KEPT)
        if not (math.isfinite(self.confidence) and 0.0 <= self.confidence <= 1.0):
            raise ValueError(f"confidence must lie in [0, 1], got {self.confidence}")
        object.__setattr__(self, "confidence", float(self.confidence))  # canonical
        _check_lengths("the language", self.language)


def _check_lengths(owner: str, *texts: str) -> None:
    for text in texts:
        check_length(f"a text of {owner}", text)


def plan_to_json(plan: EditPlan) -> dict[str, Any]:
    """A plan as JSON values, without the fields that have their defaults. Inverse of `plan_from_json`."""
    data: dict[str, Any] = _to_json(plan)
    return data


def plan_from_json(data: Mapping[str, Any]) -> EditPlan:
    """A plan from JSON values. Raises pydantic's ValidationError, a ValueError, with the path of each field that is
    unknown, missing, too long or of another type, and of each part that contradicts itself.
    """
    return _adapter().validate_python(data)


@cache
def plan_schema() -> dict[str, Any]:
    """The JSON schema of a plan, for the constrained output of a judge. `boxes`, which are annotations, are left out.
    What it cannot say, such as the slots that a type of operation needs, `plan_from_json` checks.
    """
    schema = _adapter().json_schema()
    definitions = schema["$defs"]
    del definitions["Box"]
    del definitions["Target"]["properties"]["boxes"]
    for definition in (schema, *definitions.values()):
        definition["additionalProperties"] = False
        definition.pop("description", None)  # docstrings, which are for readers of the code
    return schema


@cache
def _adapter() -> TypeAdapter[EditPlan]:
    return TypeAdapter(EditPlan)


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if not is_dataclass(value):
        return value
    items = {field.name: (getattr(value, field.name), field.default) for field in fields(value)}
    return {name: _to_json(item) for name, (item, default) in items.items() if default is MISSING or item != default}
