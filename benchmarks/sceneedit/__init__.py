"""SceneEdit: drawn images whose ground truth is known, to validate rewards. See `docs/sceneedit.md`.

`toy()` has samples, a tiny editor and experts. Importing this package loads none of its modules; using `toy` does.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .toy_data import ToyData, toy

__all__ = ["ToyData", "toy"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import toy_data

    return getattr(toy_data, name)
