"""What SceneJudge says to I2I-Bench's questions: levels, yes or no, questions of its own, commands to a segmenter."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....reward import Image, Judge, Reply
from ....reward.forms import Levels
from ..words import TEXT
from . import questions
from .deeds import best, exactly, firm
from .pairs import Pair, Pairs, name_of, said
from .phrases import Name
from .replies import level, written, yes_no
from .sights import Looker
from .wishes import Unknown, wishes

_WRITERS: Mapping[str, Callable[[Pair], list[str]]] = {
    "questions_physical": questions.about_physics,
    "questions_composition": questions.about_composition,
    "questions_physical_multi": questions.about_physics,
    "questions_composition_multi": questions.about_composition,
    "questions_transfer_multi": questions.about_transfer,
    "questions_consistency_multi": questions.about_consistency,
}
_DIMENSIONS: Mapping[str, Callable[[Pair], float]] = {
    "quality": lambda pair: pair.edited.looks,
    "blending": lambda pair: pair.natural,
    "artifacts": lambda pair: pair.natural * (1 + pair.kept) / 2,
    "plausibility": lambda pair: pair.natural,
    "composition": lambda pair: pair.natural * (1 + pair.degree) / 2,
    "inter-subject": lambda pair: pair.natural,
    "extraction": lambda pair: pair.degree * pair.kept,
    "fidelity": lambda pair: pair.kept,
    "subject consistency": lambda pair: pair.kept,
    "accuracy": lambda pair: pair.degree,
    "following": lambda pair: pair.degree,
    "knowledge": lambda pair: pair.degree,
    "attribute": lambda pair: pair.degree,
}
"""Word of a dimension's title -> what a level of it goes by; the first that stands in it, extraction before others."""
_FIRST = ("extraction", "inter-subject")

_STYLE = 4
"""Steps of a grade of style above the lowest."""


class DimensionJudge:
    """Answers the topics of `i2i/`.

    Levels and yes or no go by how surely the wishes are carried out, by how much of the rest is as it was, and by how
    clean and solid the edited picture is beside its source. `knowledge` goes by the hint alone. The questions that it
    writes are of a small language (`questions`), in which `answer` reads them back. Commands to a segmenter name what
    it sees: what the instruction made or changed, what it leaves alone, or what it takes from another source.
    """

    topics = (
        "blending",
        "artifacts",
        "following",
        "success",
        "knowledge",
        *_WRITERS,
        "answer",
        "segment_edited",
        "segment_unchanged",
        "segment_preserved_multi",
        "segment_details_multi",
        "text_style",
        "count",
        "level",
    )

    def __init__(self, looker: Looker, pairs: Pairs) -> None:
        self._looker, self._pairs = looker, pairs

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `Unknown`."""
        instruction = slots.get("instruction", "")
        if topic in _WRITERS:
            if not query.images:
                raise Unknown(f"what to ask by {topic} without a picture")
            source = query.images[0]
            return written({"questions": _WRITERS[topic](self._pairs.of(query.images, source, instruction))})
        if topic == "text_style":
            return self._style(query.images[-1], instruction, slots.get("text", ""))
        if len(query.images) < 2:
            raise Unknown(f"i2i/{topic} by {len(query.images)} pictures: expected sources and an edited one")
        pair = self._pairs.of(query.images[:-1], query.images[-1], instruction)
        if topic.startswith("segment_"):
            return _commands(topic, pair)
        if isinstance(query.form, Levels):
            return level(_share(topic, slots)(pair), query.form.options)
        return yes_no(_certainty(topic, pair, slots))

    def _style(self, picture: Image, instruction: str, text: str) -> Reply:
        """Whether there are letters, whatever they say, and where they should be."""
        sight = self._looker.see(picture)
        wanted = [wish.object or wish.new for wish in wishes(instruction) if wish.object or wish.new]
        plate = next((name for name in wanted if name is not None and name.kind == "sign"), None)
        sure = max((box.score for box in sight.texts()), default=0.0)
        place = best(sight, plate) if plate is not None else None
        if plate is not None:
            on = max((firm(place.score) for box in sight.texts() if place and box.iou(place) > 0), default=0.0)
            sure *= (1 + on) / 2
        return written(
            {
                "style_requirement": f"letters that can be read, {text!r} or others",
                "position_requirement": "anywhere" if plate is None else f"on the {said(plate)}",
                "image_observation": f"{len(sight.lines)} lines of text",
                "reasoning": f"letters where they should be: {sure:.2f}",
                "score": 1 + round(_STYLE * min(1.0, firm(sure))) if sure else 1,
            }
        )


def _share(topic: str, slots: Mapping[str, str]) -> Callable[[Pair], float]:
    """What a level goes by."""
    if topic != "level":
        return _DIMENSIONS[topic]
    title = slots.get("dimension", "").casefold()
    for known in (*_FIRST, *_DIMENSIONS):
        if known in title:
            return _DIMENSIONS[known]
    raise Unknown(f"what {slots.get('dimension', '')!r} is: it knows {', '.join(_DIMENSIONS)}")


def _certainty(topic: str, pair: Pair, slots: Mapping[str, str]) -> float:
    match topic:
        case "success":
            return pair.done
        case "knowledge":
            return 0.0 if pair.same else questions.hold(slots.get("hint", ""), pair)
        case "answer":
            return questions.answer(slots.get("question", ""), pair)
        case "count":
            new = [wish.new for wish in pair.wishes if wish.new is not None]
            return min((exactly(pair.edited, name, 1) for name in new), default=0.0)
        case _:
            raise Unknown(f"i2i/{topic} in this form of an answer")


# -- commands to a segmenter ------------------------------------------------------------------------------------------


def _commands(topic: str, pair: Pair) -> Reply:
    match topic:
        case "segment_edited":
            return Reply(_command([_edited(wish.result or wish.object) for wish in pair.wishes]))
        case "segment_unchanged":
            return written([_command([said(name)]) for name in _others(pair)] or _backdrop(pair))
        case "segment_preserved_multi":
            return written([{"source_index": 0, "segmentation_prompt": _command([said(n)])} for n in _others(pair)])
        case _:
            taken = [wish for wish in pair.wishes if wish.new is not None and 0 < wish.source < len(pair.sources)]
            return written(
                [
                    {"source_index": wish.source, "segmentation_prompt": _command([said(wish.new)])}
                    for wish in taken
                    if wish.new is not None
                ]
            )


def _command(names: list[str]) -> str:
    return f"Please segment the {' and the '.join(dict.fromkeys(names))}"


def _edited(name: Name | None) -> str:
    """What a wish leaves to be seen; a backdrop where it is about no thing."""
    return "background" if name is None else TEXT if name.kind == TEXT else said(name)


def _others(pair: Pair) -> list[Name]:
    """Names of the things of the first source that no wish is about, each once."""
    return list(dict.fromkeys(name_of(one) for one, _ in pair.others))


def _backdrop(pair: Pair) -> list[str]:
    return [] if pair.backdrop is None else [_command(["background"])]
