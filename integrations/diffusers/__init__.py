"""Editors and verifier callbacks on diffusers pipelines.

A pipeline becomes an `Editor` of `editcritic.verifiers`; where its solver allows, one that can stop half-way and show
what it is about to make: `editor_of(pipeline)`. Importing this package loads neither torch nor diffusers; using a name
of it does.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .editor import DiffusersEditor, FunctionEditor, WholeEditor, editor_of
    from .families import FAMILIES, Family

__all__ = ["FAMILIES", "DiffusersEditor", "Family", "FunctionEditor", "WholeEditor", "editor_of"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import editor, families

    return getattr(families if name in ("FAMILIES", "Family") else editor, name)
