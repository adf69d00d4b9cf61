"""What SceneJudge says to Complex-Edit's questions: integers from 0 to 10, with reasons or with probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from ....reward import Image, Judge, Reply
from .pairs import Pair, Pairs
from .replies import chosen, grade, spread, written, yes_no
from .sights import Looker
from .wishes import Unknown

_HIGHEST = 10


class ComplexEditJudge:
    """Answers the topics of `complexedit/`.

    Instruction following is how far the wishes are fulfilled, identity preservation how much of the rest is as it was,
    perceptual quality how clean the picture is. An unchanged copy has 0 and 10, certainly. What is drawn is binomial
    around that: a grade that is certain is the same in all draws.
    """

    topics = (
        "alignment",
        "quality",
        "following_yes_no",
        "preservation_yes_no",
        "quality_yes_no",
        "following",
        "preservation",
    )

    def __init__(self, looker: Looker, pairs: Pairs) -> None:
        self._looker, self._pairs = looker, pairs

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `Unknown`."""
        if topic.startswith("quality"):
            (edited,) = _shown(topic, query, 1)
            clean = self._looker.see(edited).looks
            return yes_no(clean) if topic == "quality_yes_no" else grade(clean, query)
        source, edited = _shown(topic, query, 2)
        operations = slots.get("operations", "")
        pair = self._pairs.of([source], edited, slots.get("instruction", ""), "" if operations == "[]" else operations)
        match topic:
            case "alignment":
                return _aligned(pair, query, known=operations not in ("", "[]"))
            case "following_yes_no":
                return yes_no(pair.done)
            case "preservation_yes_no":
                return yes_no(pair.kept)
            case "following":
                return grade(pair.degree, query)
            case _:
                return grade(pair.kept, query)


def _shown(topic: str, query: Judge, count: int) -> tuple[Image, ...]:
    if len(query.images) != count:
        raise Unknown(f"complexedit/{topic} by {len(query.images)} pictures: expected {count}")
    return query.images


def _aligned(pair: Pair, query: Judge, *, known: bool) -> Reply:
    """Every wish graded by itself, the mean of them, and the rest."""
    shares = [one.degree for one in pair.deeds] if known else [pair.degree]
    grades = [chosen(spread(share, _HIGHEST), query, f"operation {place}") for place, share in enumerate(shares)]
    said = [change.what for change in pair.changes] or ["all else is as it was"]
    fulfilled = sum(one.done >= 0.5 for one in pair.deeds)
    reasoning = f"{fulfilled} of {len(pair.deeds)} wishes are carried out; {'; '.join(said)}"
    return written(
        {
            "reasoning": reasoning,
            "operations": [
                {"operation": f"wish {place}", "score": score} for place, score in enumerate(grades, start=1)
            ],
            "instruction_following": round(fmean(grades)),
            "identity_preservation": chosen(spread(pair.kept, _HIGHEST), query, "preservation"),
        }
    )
