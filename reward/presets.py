"""Presets: compositions worth using as they are. Each is a function, so that its spec is its name and options."""

from __future__ import annotations

from .compose import Gate, GeometricMean
from .edival.consistency import ContentConsistency
from .edival.following import InstructionFollowing
from .guards import all_guards


def edit_balanced(protocol: str = "paper", reader: bool = True) -> Gate:
    """Did it do what was asked, and nothing else? Dense EdiVal-IF and EdiVal-CC, geometric mean, behind all guards."""
    wanted = GeometricMean(
        {
            "following": InstructionFollowing(protocol=protocol, dense=True),
            "consistency": ContentConsistency(),
        },
        missing="whole",
        name="following-and-consistency",
    )
    return Gate(all_guards(reader=reader), wanted, name="edit-balanced")
