"""Presets: compositions worth using as they are. Each is a function, so that its spec is its name and options."""

from __future__ import annotations

from .compose import Gate
from .edival.following import InstructionFollowing
from .edival.overall import EditOverall
from .edival.still_there import StillThere
from .guards import all_guards


def edit_balanced(protocol: str = "paper", reader: bool = True) -> Gate:
    """Did it do what was asked, and nothing else? EdiVal-O of one edit, with dense instruction following, guarded.

    protocol: of instruction following. reader: whether painted-in orders are looked for, which takes OCR.
    """
    wanted = EditOverall(following=InstructionFollowing(protocol=protocol, dense=True))
    guards = Gate(all_guards(reader=reader), StillThere(), name="guards")
    return Gate(guards, wanted, name="edit-balanced")
