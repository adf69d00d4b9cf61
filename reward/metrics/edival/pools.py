"""Object pools: which objects have been in the scene, which can be edited, which must still look the same.

EdiVal keeps three lists over the turns (section 2.3). The rules here are those that carry every turn of the published
instruction file into the next, in the order of its lists.
"""

from __future__ import annotations

from collections.abc import Collection

from ..sample import EditSample, Pools, Task
from .instructions import task_of

_COLORS = (
    "red", "blue", "green", "yellow", "black", "white", "brown", "gray", "orange", "purple", "pink", "gold", "teal",
)  # fmt: skip
_MATERIALS = (
    "wood", "metal", "plastic", "leather", "cotton", "fabric", "paper", "glass", "ceramic", "stone", "concrete", "fur",
    "silk", "wool", "nylon", "denim", "polyester", "velvet", "rubber", "straw", "brick", "gold", "plush", "chocolate",
    "fondant", "synthetic",
)  # fmt: skip
"""What the published renamings take for a colour or a material. Beige, tan, cream or knit, skin, cord are not."""


def apply(pools: Pools, task: Task, *, foreground: Collection[str] | None = None) -> Pools:
    """The pools after one more turn.

    foreground: the objects of the original picture that stand before the background; needed by background changes only,
    which otherwise go by the objects the instruction says to keep.

    Nothing leaves `all`. What is recoloured, or made of another material, goes on under a new name.
    """
    everything, available, unchanged = pools.all, pools.available, pools.unchanged
    match task.type:
        case "subject_add":
            everything, available = _with(everything, task.new), _with(available, task.new)
        case "subject_remove":
            available, unchanged = _without(available, task.object), _without(unchanged, task.object)
        case "subject_replace":
            everything = _with(everything, task.new)
            available = _with(_without(available, task.object), task.new)
            unchanged = _without(unchanged, task.object)
        case "color_alter" | "material_alter":
            new = renamed(task)
            everything = _with(everything, new)
            available = _with(_without(available, task.object), new)
            unchanged = _without(unchanged, task.object)
        case "position_change":
            # The reference is left out too: it is often covered by what moved.
            unchanged = _without(unchanged, task.object, task.reference)
        case "count_change":
            unchanged = _without(unchanged, task.object)
        case "text_change" if task.object is None:
            everything = _with(everything, "text")
        case "text_change":
            unchanged = _without(unchanged, task.object)
        case "background_change":
            stays = {name.casefold() for name in (task.keep if foreground is None else foreground)}
            available = tuple(name for name in available if name.casefold() in stays)
            unchanged = tuple(name for name in unchanged if name.casefold() in stays)
    return Pools(everything, available, unchanged, pools.background and task.type != "background_change")


def renamed(task: Task) -> str:
    """What a recoloured object, or one of a new material, is called from now on.

    The first word with a colour (a material) in it gives way to the new one; without such a word the new one goes in
    front. In it, not equal to it: a `wooden chair` becomes a `metal chair`, and a `feathered red bird` a `blue red
    bird`, as published.
    """
    old, new = task.object or "", task.value or ""
    known = _COLORS if task.type == "color_alter" else _MATERIALS
    words = old.split(" ")
    for place, word in enumerate(words):
        if any(name in word.casefold() for name in known):
            return " ".join((*words[:place], new, *words[place + 1 :]))
    return f"{new} {old}"


def pools_of(sample: EditSample) -> Pools | None:
    """The pools after the sample's turn: its own, else the last ones known carried through the turns since.

    Where no turn knows any, all begins with the names of the sample's boxes. None if there are no boxes either, or if
    the instruction of a turn cannot be read.
    """
    turns = sample.turns
    known = max((number for number, turn in enumerate(turns) if turn.pools is not None), default=-1)
    names = tuple(sample.boxes or turns[0].boxes)
    pools = turns[known].pools if known >= 0 else Pools(names, names, names) if names else None
    for turn in turns[known + 1 :]:
        task = task_of(turn)
        if pools is None or task is None:
            return None
        pools = apply(pools, task)
    return pools


def _with(names: tuple[str, ...], new: str | None) -> tuple[str, ...]:
    if new is None or new.casefold() in {name.casefold() for name in names}:
        return names
    return (*names, new)


def _without(names: tuple[str, ...], *gone: str | None) -> tuple[str, ...]:
    left = {name.casefold() for name in gone if name is not None}
    return tuple(name for name in names if name.casefold() not in left)
