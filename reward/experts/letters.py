"""Letters that a reader knows: it abstains where a wanted text has others."""

from __future__ import annotations

from collections.abc import Callable
from unicodedata import category, name, normalize

from ..queries.kinds import ReadText
from ..queries.outcomes import Abstention

_NAMES = {"Cjk": "Han", "Katakana-Hiragana": "Katakana", "Halfwidth": "Katakana"}


def script_of(letter: str) -> str:
    """The script of a letter, such as `Cyrillic`; empty for what is no letter. The first word of its name, which is the
    script's in all of Unicode but for a few letters of formulas and notation."""
    if not letter.isalpha():
        return ""
    script = name(letter, "unnamed").split(" ")[0].capitalize()
    return _NAMES.get(script, script)


def without_wanted(query: ReadText, knows: Callable[[str], bool]) -> ReadText | Abstention:
    """The query without its wanted text; an abstention if that has characters that a reader does not know. knows:
    whether the reader does, by character. Asked about the compatibility form (NFKC), and neither about spaces and
    punctuation, which no comparison counts, nor about marks, which belong to their letter."""
    shown = [letter for letter in normalize("NFKC", query.wanted) if category(letter)[0] in "LNS"]
    unknown = list(dict.fromkeys(letter for letter in shown if not knows(letter)))
    if not unknown:
        return ReadText(query.image) if query.wanted else query
    scripts = " and ".join(dict.fromkeys(script for letter in unknown if (script := script_of(letter))))
    what = f"{scripts} letters" if scripts else "characters"
    return Abstention(
        f"the reader does not know {what} such as {' '.join(unknown[:5])} in {query.wanted[:80]!r}: bind one that does "
        "to the role reader, such as reader=judge-reader with a vision-language model"
    )
