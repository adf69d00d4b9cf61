"""Object pools: the objects that have been in the scene, that can be edited, and that must be unchanged.

EdiVal keeps three lists over the turns (section 2.3). The update rules reproduce every turn of the published
instruction file, in the order of its lists.
"""

from __future__ import annotations

from collections.abc import Collection

from ...sample import EditSample, Pools, Task
from .task_parser import task_of

COLORS = (
    "red", "blue", "green", "yellow", "black", "white", "brown", "gray", "orange", "purple", "pink", "gold", "teal",
)  # fmt: skip
_MATERIALS = (
    "wood", "metal", "plastic", "leather", "cotton", "fabric", "paper", "glass", "ceramic", "stone", "concrete", "fur",
    "silk", "wool", "nylon", "denim", "polyester", "velvet", "rubber", "straw", "brick", "gold", "plush", "chocolate",
    "fondant", "synthetic",
)  # fmt: skip
"""Colours and materials in the published renamings. Beige, tan, cream or knit, skin, cord are not among them."""


def update_pools(pools: Pools, task: Task, *, foreground: Collection[str] | None = None) -> Pools:
    """The pools after one more turn.

    foreground: the foreground objects of the original image, for background changes only; by default the objects that
    the instruction says to keep.

    Nothing is removed from `all`. An object with a new colour or material gets a new name.
    """
    all_names, available, unchanged = pools.all, pools.available, pools.unchanged
    match task.type:
        case "subject_add":
            all_names, available = _with(all_names, task.new), _with(available, task.new)
        case "subject_remove":
            available, unchanged = _without(available, task.object), _without(unchanged, task.object)
        case "subject_replace":
            all_names = _with(all_names, task.new)
            available = _with(_without(available, task.object), task.new)
            unchanged = _without(unchanged, task.object)
        case "color_alter" | "material_alter":
            new = renamed_object(task)
            all_names = _with(all_names, new)
            available = _with(_without(available, task.object), new)
            unchanged = _without(unchanged, task.object)
        case "position_change":
            # The reference is removed too: the moved object often covers it.
            unchanged = _without(unchanged, task.object, task.reference)
        case "count_change":
            unchanged = _without(unchanged, task.object)
        case "text_change" if task.object is None:
            all_names = _with(all_names, "text")
        case "text_change":
            unchanged = _without(unchanged, task.object)
        case "background_change":
            kept_names = {name.casefold() for name in (task.keep if foreground is None else foreground)}
            available = tuple(name for name in available if name.casefold() in kept_names)
            unchanged = tuple(name for name in unchanged if name.casefold() in kept_names)
    return Pools(all_names, available, unchanged, pools.background and task.type != "background_change")


def renamed_object(task: Task) -> str:
    """The new name of an object after a change of colour or material.

    The first word with a colour (a material) in it is replaced by the new one; without such a word the new one goes in
    front. In it, not equal to it: a `wooden chair` becomes a `metal chair`, and a `feathered red bird` a `blue red
    bird`, as published.
    """
    old, new = task.object or "", task.value or ""
    terms = COLORS if task.type == "color_alter" else _MATERIALS
    words = old.split(" ")
    for index, word in enumerate(words):
        if any(name in word.casefold() for name in terms):
            return " ".join((*words[:index], new, *words[index + 1 :]))
    return f"{new} {old}"


def pools_of(sample: EditSample) -> Pools | None:
    """The pools after the sample's turn: its own, or the last known ones updated by the turns since.

    If no turn has pools, they start from the names of the sample's boxes. None without boxes, or if the instruction of
    a turn cannot be parsed.
    """
    turns = sample.turns
    last_known = max((number for number, turn in enumerate(turns) if turn.pools is not None), default=-1)
    names = tuple(sample.boxes or turns[0].boxes)
    pools = turns[last_known].pools if last_known >= 0 else Pools(names, names, names) if names else None
    for turn in turns[last_known + 1 :]:
        task = task_of(turn)
        if pools is None or task is None:
            return None
        pools = update_pools(pools, task)
    return pools


def _with(names: tuple[str, ...], new: str | None) -> tuple[str, ...]:
    if new is None or new.casefold() in {name.casefold() for name in names}:
        return names
    return (*names, new)


def _without(names: tuple[str, ...], *names_removed: str | None) -> tuple[str, ...]:
    removed = {name.casefold() for name in names_removed if name is not None}
    return tuple(name for name in names if name.casefold() not in removed)
