"""Prompts: text files in a metric's package, replaceable by a folder with the same file names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from string import Formatter

from ..regular_files import read_regular

MAX_PROMPTS = 1_000
MAX_PROMPT_BYTES = 2**20
"""Files of a pack, and bytes of each. Our own packages have about ten, of a few thousand bytes."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of one package, e.g. `Prompts("editcritic.reward.metrics.edival")`, with an optional prompt pack.

    overrides: folder of a prompt pack; its `<name>.txt` replaces our file of that name. Slots are written `{object}`.
    The pack is read here, once: what is asked and the digest stay those of this moment, also if its files change.
    Raises ValueError for a pack of more than `MAX_PROMPTS` files, and for one that is no text, or lies elsewhere.
    """

    package: str
    overrides: str | None = None
    contents: Mapping[str, bytes] = field(init=False, repr=False, compare=False)
    """The pack's files, by name without suffix."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "contents", {} if self.overrides is None else _read_pack(self.overrides))

    def render(self, name: str, **slots: str) -> str:
        """The prompt with its slots filled. Raises ValueError for a file with an unknown slot."""
        content = self.contents.get(name)
        text = _read_own(self.package, name) if content is None else _decoded(content)
        try:
            template_slots = _slots_of(text)
            if template_slots <= slots.keys():
                return text.format(**slots)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"prompt {name!r} is no template ({error}): write {{object}} for a slot, {{{{ and }}}} for braces"
            ) from None
        raise ValueError(
            f"prompt {name!r} uses {sorted(template_slots - slots.keys())}, but only {sorted(slots)} are filled here"
        )

    def pack_says(self, name: str, words: str) -> bool:
        """Whether the pack replaces this prompt by one with these words, such as a key of the reply it asks for."""
        return words in _decoded(self.contents.get(name, b""))

    @property
    def digest(self) -> str:
        """Digest of the prompt pack, for results; empty for our own prompts, which the metric's version identifies."""
        if self.overrides is None:
            return ""
        state = hashlib.sha256()
        for name, content in self.contents.items():
            state.update(f"{name}.txt".encode() + b"\0" + content + b"\0")
        return state.hexdigest()[:12]

    @property
    def options(self) -> tuple[str, ...]:
        """Options in a metric's signature: the digest of a prompt pack; none for our own prompts."""
        return (f"prompts={self.digest}",) if self.overrides is not None else ()


def _read_pack(pack: str) -> dict[str, bytes]:
    folder = Path(pack)
    if not folder.is_dir():
        raise ValueError(f"prompt pack {pack!r} is not a folder: give a folder of <name>.txt files")
    paths = sorted(islice(folder.glob("*.txt"), MAX_PROMPTS + 1))
    if len(paths) > MAX_PROMPTS:
        raise ValueError(f"prompt pack {pack!r} has more than {MAX_PROMPTS:,} files")
    contents = {}
    for path in paths:
        try:
            contents[path.stem] = read_regular(path, MAX_PROMPT_BYTES, inside=folder)
            _decoded(contents[path.stem])
        except (OSError, UnicodeDecodeError) as error:
            problem = getattr(error, "strerror", None) or error
            raise ValueError(f"prompt pack {pack!r} cannot be read: {path.name!r:.200}: {problem}") from None
    return contents


def _decoded(content: bytes) -> str:
    return content.decode("utf-8").replace("\r\n", "\n").strip()


@lru_cache(maxsize=MAX_PROMPTS)
def _slots_of(template: str) -> frozenset[str]:
    """The slots of a template. Raises ValueError for a text that is none, and for slots with a format."""
    fields = [field for field in Formatter().parse(template) if field[1] is not None]
    if any(spec or conversion for _, _, spec, conversion in fields):
        raise ValueError("a slot has a format")  # a width of 10**9 is a gigabyte
    return frozenset(slot for _, slot, _, _ in fields if slot is not None)


@cache
def _read_own(package: str, name: str) -> str:
    return _decoded((files(package) / "prompts" / f"{name}.txt").read_bytes())
