"""A trainer's own functions, where a reward has to replace them: refused if they are not those that were read."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import Any


class UnknownTrainerError(RuntimeError):
    """A trainer's code is not what an adapter was written for, so nothing of it is replaced."""


@dataclass(frozen=True, slots=True)
class TrainerCode:
    """name: of the trainer. read_at: the commits whose code was read."""

    name: str
    read_at: str

    def attribute(self, module: str, name: str) -> Any:
        """What a module of the trainer has under a name. Raises `UnknownTrainerError`."""
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise self.unknown(f"has no {module}.{name} ({error})") from None

    def check(self, owner: Any, function: str, parameters: tuple[str, ...]) -> None:
        """Raises `UnknownTrainerError` unless a class or module has this function, with these first parameters."""
        present = getattr(owner, function, None)
        names = list(inspect.signature(present).parameters) if callable(present) else []
        expected = ["self", *parameters] if inspect.isclass(owner) else list(parameters)
        if not callable(present) or names[: len(expected)] != expected:
            got = f"has {function}({', '.join(names)})" if callable(present) else f"has no {function}"
            raise self.unknown(f"{got} in {owner.__name__}, not {function}({', '.join(parameters)})")

    def unknown(self, what: str) -> UnknownTrainerError:
        return UnknownTrainerError(f"this {self.name} {what}; what was read is {self.read_at}")
