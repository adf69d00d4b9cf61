"""Prompts: text files in a metric's package, replaceable at run time by a folder with the same file names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Formatter


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of one package, e.g. `Prompts("editcritic.reward.metrics.edival")`, with an optional prompt pack.

    overrides: folder of a prompt pack; its `<name>.txt` replaces our file of that name. Slots are written `{object}`.
    """

    package: str
    overrides: str | None = None

    def render(self, name: str, **slots: str) -> str:
        """The prompt with its slots filled. Raises ValueError for a file with an unknown slot."""
        text = _read_prompt(self.package, self.overrides, name)
        try:
            template_slots = {slot for _, slot, _, _ in Formatter().parse(text) if slot is not None}
            if template_slots <= slots.keys():
                return text.format(**slots)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"prompt {name!r} is no template ({error}): write {{object}} for a slot, {{{{ and }}}} for braces"
            ) from None
        raise ValueError(
            f"prompt {name!r} uses {sorted(template_slots - slots.keys())}, but only {sorted(slots)} are filled here"
        )

    @property
    def digest(self) -> str:
        """Digest of the prompt pack, for results; empty for our own prompts, which the metric's version identifies."""
        if self.overrides is None:
            return ""
        state = hashlib.sha256()
        for path in sorted(Path(self.overrides).glob("*.txt")):
            state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return state.hexdigest()[:12]

    @property
    def options(self) -> tuple[str, ...]:
        """Options in a metric's signature: the digest of a prompt pack; none for our own prompts."""
        return (f"prompts={self.digest}",) if self.overrides is not None else ()

    def __post_init__(self) -> None:
        if self.overrides is not None and not Path(self.overrides).is_dir():
            raise ValueError(f"prompt pack {self.overrides!r} is not a folder: give a folder of <name>.txt files")


@cache
def _read_prompt(package: str, pack: str | None, name: str) -> str:
    if pack is not None and (Path(pack) / f"{name}.txt").is_file():
        return (Path(pack) / f"{name}.txt").read_text(encoding="utf-8").strip()
    return (files(package) / "prompts" / f"{name}.txt").read_text(encoding="utf-8").strip()
