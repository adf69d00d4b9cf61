"""Prompts: text files in a metric's package, replaceable by a folder with the same file names.

A prompt may have a system part: a line `=== user ===` or `=== system ===` says whose the text below it is, and the text
above the first such line is the other's. A pack's prompt is sent as its file says. Ours are one text, which is what
judges have been asked so far, and are sent in parts only where a metric follows a paper that does (`paper`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from string import Formatter

from ..image import Image
from ..regular_files import read_regular
from .response_formats import Message

MAX_PROMPTS = 1_000
MAX_PROMPT_BYTES = 2**20
"""Files of a pack, and bytes of each. Our own packages have about ten, of a few thousand bytes."""
_PART = re.compile(r"^=== (system|user) ===[ \t]*\n?", re.MULTILINE)


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

    def render(self, name: str, /, **slots: str) -> str:
        """The prompt as one text with its slots filled. Raises ValueError for a file with an unknown slot, and for a
        pack's with a system part: only what is a message of its own (`messages`) can have one.
        """
        template = self._template(name)
        if name in self.contents and _PART.search(template):
            raise ValueError(f"prompt {name!r} is a part of other messages: it can have no line === system ===")
        return _filled(name, _PART.sub("", template).strip(), slots)

    def messages(
        self, name: str, content: Sequence[str | Image], slots: Mapping[str, str], *, paper: bool = False
    ) -> tuple[Message, ...]:
        """The turns that ask a prompt: a system message where it has one, then the user's of `content` and the text.
        paper: send the system part of our own prompt as such, too. Raises ValueError as `render`, and for a prompt that
        leaves the user's message empty.
        """
        template = self._template(name)
        if _PART.search(template) is None or not (paper or name in self.contents):
            return (Message((*content, self.render(name, **slots))),)
        first, *rest = _PART.split(template)
        roles = ["user" if rest[0] == "system" else "system", *rest[::2]]
        texts = [_filled(name, text.strip(), slots).strip() for text in (first, *rest[1::2])]
        of_role = {
            wanted: "\n\n".join(text for role, text in zip(roles, texts, strict=True) if role == wanted and text)
            for wanted in ("system", "user")
        }
        asked = (*content, *filter(None, [of_role["user"]]))
        if not asked:
            raise ValueError(f"prompt {name!r} has nothing for the user's message: add it below a line === user ===")
        system = (Message((of_role["system"],), "system"),) if of_role["system"] else ()
        return (*system, Message(asked))

    def _template(self, name: str) -> str:
        content = self.contents.get(name)
        return _read_own(self.package, name) if content is None else _decoded(content)

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


def _filled(name: str, text: str, slots: Mapping[str, str]) -> str:
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
