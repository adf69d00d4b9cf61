"""A plan in one line a reader can check: for evidence, and for a judge that is shown another reading."""

from __future__ import annotations

from ...edit_plan import EditPlan, Kept, PlannedOperation


def words_of_plan(plan: EditPlan) -> str:
    """As in `color_alter: cup at the left of the picture -> blue; keep object: table`."""
    return "; ".join((*map(_operation, plan.operations), *map(_kept, plan.keep)))


def _operation(operation: PlannedOperation) -> str:
    becomes = [operation.new.words if operation.new else "", operation.value]
    becomes += [f'"{operation.text}"' if operation.text else ""]
    becomes += ["" if operation.count is None else f"{operation.count} of them"]
    after = ", ".join(filter(None, becomes))
    target = operation.target.words if operation.target else ""
    slots = " -> ".join(filter(None, (target, after)))
    place = f" {operation.position} {operation.reference.words}" if operation.position and operation.reference else ""
    return f"{operation.type}: {slots or operation.words}{place}".strip(": ")


def _kept(kept: Kept) -> str:
    return f"keep {kept.aspect}" + (f": {kept.target.words}" if kept.target else "")
