"""Prompts: text files beside the metric that asks them, replaceable at run time by a folder with the same names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Formatter


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of one package, e.g. `Prompts("editcritic.reward.edival")`, optionally overlaid by a prompt pack.

    pack: a folder; `<name>.txt` in it replaces our file of that name. Slots are written `{object}`.
    """

    package: str
    pack: str | None = None

    def render(self, name: str, **slots: str) -> str:
        """The prompt with its slots filled. Raises ValueError for a pack's file that uses a slot we do not fill."""
        text = _read(self.package, self.pack, name)
        try:
            wanted = {slot for _, slot, _, _ in Formatter().parse(text) if slot is not None}
            if wanted <= slots.keys():
                return text.format(**slots)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"prompt {name!r} is no template ({error}): write {{object}} for a slot, {{{{ and }}}} for braces"
            ) from None
        raise ValueError(
            f"prompt {name!r} uses {sorted(wanted - slots.keys())}, but only {sorted(slots)} are filled here"
        )

    @property
    def digest(self) -> str:
        """What to write beside a result; empty for our own prompts, whose version is the metric's."""
        if self.pack is None:
            return ""
        state = hashlib.sha256()
        for path in sorted(Path(self.pack).glob("*.txt")):
            state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return state.hexdigest()[:12]

    @property
    def options(self) -> tuple[str, ...]:
        """What a metric's signature says of them: a pack's digest, and nothing of our own."""
        return (f"prompts={self.digest}",) if self.pack is not None else ()

    def __post_init__(self) -> None:
        if self.pack is not None and not Path(self.pack).is_dir():
            raise ValueError(f"prompt pack {self.pack!r} is not a folder: give a folder of <name>.txt files")


@cache
def _read(package: str, pack: str | None, name: str) -> str:
    if pack is not None and (Path(pack) / f"{name}.txt").is_file():
        return (Path(pack) / f"{name}.txt").read_text(encoding="utf-8").strip()
    return (files(package) / "prompts" / f"{name}.txt").read_text(encoding="utf-8").strip()
