"""Real edits for these tests: edits of photographs made by hand, as readers would label them."""

from __future__ import annotations

from functools import cache

from studies.real_edits.hand_edits import HAND_EDITS
from studies.real_edits.real_edit import Operation, RealEdit

_OPERATIONS: dict[str, Operation] = {
    "rocket-gone": "removal",
    "blue-tank": "recolour",
    "cup-for-box": "replacement",
    "coin-on-table": "addition",
    "full-moon": "text",
}


@cache
def edit_by_hand(name: str, **labels: str) -> RealEdit:
    """One of them, followed and clean unless labels say otherwise; its boxes are its target but for an addition."""
    made = next(edit for edit in HAND_EDITS if edit.id == name)
    sample = made.sample(boxed=True)
    operation = _OPERATIONS.get(name, "other")
    told = {"followed": "yes", "preserved": "yes", "place": "clean", **labels}
    return RealEdit(
        id=name,
        group=made.photo,
        base=made.photo,
        instruction=made.instruction,
        source=sample.source,
        edited=sample.edited,
        operation=operation,
        boxes=made.boxes,
        target=() if operation == "addition" else tuple(made.boxes),
        **told,  # type: ignore[arg-type]
    )


@cache
def edits_by_hand() -> tuple[RealEdit, ...]:
    """An honest edit of each of five operations."""
    return tuple(edit_by_hand(name) for name in _OPERATIONS)
