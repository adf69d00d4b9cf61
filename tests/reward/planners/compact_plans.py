"""Plans in one line, to compare and to read: `color_alter {red} cup @left <on table> = blue`."""

from editcritic.reward.edit_plan import EditPlan, PlannedOperation, Target


def compact(plan: EditPlan | None) -> str | None:
    """Operations, then what is kept; None for no plan."""
    if plan is None:
        return None
    text = "; ".join(map(operation_text, plan.operations))
    kept = ", ".join(
        item.aspect if item.target is None else f"{item.aspect} {target_text(item.target)}" for item in plan.keep
    )
    return f"{text} | keep {kept}" if kept else text


def operation_text(operation: PlannedOperation) -> str:
    """Type, target, `+ new`, `= value`, `"text"`, `x count`, `-> position reference`."""
    parts: list[str] = [operation.type]
    parts += [target_text(operation.target)] if operation.target is not None else []
    parts += ["+ " + target_text(operation.new)] if operation.new is not None else []
    parts += ["= " + operation.value] if operation.value else []
    parts += [f'"{operation.old_text}" to "{operation.text}"'] if operation.old_text and operation.text else []
    parts += [f'"{operation.text or operation.old_text}"'] if bool(operation.text) != bool(operation.old_text) else []
    parts += [f"x {operation.count}"] if operation.count is not None else []
    if operation.reference is not None:
        parts.append(f"-> {operation.position} {target_text(operation.reference)}")
    return " ".join(parts)


def target_text(target: Target) -> str:
    """Quantity, size, order, {attributes}, noun, @place, <relation>."""
    parts = [] if target.quantity == 1 else [str(target.quantity)]
    parts += [target.size] if target.size is not None else []
    parts += [f"#{target.order} from {target.order_from}"] if target.order is not None else []
    parts += ["{" + ", ".join(target.attributes) + "}"] if target.attributes else []
    parts.append(target.noun)
    parts += [f"@{target.place}"] if target.place is not None else []
    parts += [f"<{target.relation.kind} {target_text(target.relation.of)}>"] if target.relation is not None else []
    return " ".join(parts)
