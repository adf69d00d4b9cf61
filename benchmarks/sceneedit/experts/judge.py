"""SceneJudge: answers the questions of all metric systems about SceneEdit images, by topic and slots.

Here are the answers of most systems: audits, EdiVal, the baselines, Complex-Edit, VIEScore and ImgEdit-Bench.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean

from ....reward.metrics.imgedit.metrics import CRITERIA, DAMAGED_MAX, EDIT_TYPES, HIGHEST, LOWEST, NON_EDITED, SCORE
from ....reward.metrics.viescore.metrics import MAX_GRADE
from ....reward.queries import Abstention, Judge, Reply
from ....reward.queries.response_formats import FreeText, Json, Levels
from ..vocabulary import BACKDROPS, COLOURS, MATERIALS
from .edit_comparison import EditComparison, EditComparisonCache
from .instruction_parser import ObjectName, UnanswerableError, canonical_term, parse_known_name
from .judge_any_edit import ANY_EDIT
from .judge_benches import DLEBENCH, I2IBENCH
from .judge_question import (
    Answers,
    Question,
    binomial_probabilities,
    changes_in_words,
    grade_reply,
    json_reply,
    level_reply,
    sample_index,
    yes_no_reply,
)
from .perception import visibility
from .perception_experts import PerceptiveExpert
from .request_outcomes import (
    attribute_change_probability,
    attribute_distribution,
    backdrop_probability,
    replacement_probability,
)

# -- audits -----------------------------------------------------------------------------------------------------------

_SAME = 0.02  # difference in value up to which neither of two edits is better


def _swapped(question: Question) -> Reply:
    question.expect(2)
    edited, source = question.images
    return yes_no_reply(question.compare([source], edited).success_probability)


def _pairwise(question: Question) -> Reply:
    """Which of two edits is better: by what was carried out, times what was preserved."""
    if len(question.images) < 3 or not isinstance(question.query.form, Levels):
        raise UnanswerableError(f"which of two edits is better by {len(question.images)} pictures: expected 3 or more")
    *sources, first, second = question.images
    values = [one.credit * one.preservation for one in (question.compare(sources, edit) for edit in (first, second))]
    difference = values[0] - values[1]
    return Reply("same" if abs(difference) <= _SAME else "first" if difference > 0 else "second")


_AUDIT: Answers = {
    "audit/negated": lambda question: yes_no_reply(1 - question.pair().success_probability),
    "audit/swapped": _swapped,
    "audit/grade": lambda question: grade_reply(question.pair().credit, question.query),
    "pairwise": _pairwise,
}

# -- EdiVal: yes or no about names and values in the slots ------------------------------------------------------------

_NO_OBJECT_PROBABILITY = 0.02  # weight of objects of another shape than the query's, relative to 1
_NO_EVIDENCE_PROBABILITY = 0.02  # probability of yes about an object where no object is visible
_OPTIONS: Mapping[str, Sequence[str]] = {"color": COLOURS, "material": MATERIALS, "background": BACKDROPS}


def _has_attribute(question: Question, attribute: str) -> float:
    """The share of an object in a crop that has a value; other shapes count only where none matches."""
    name, value = _name(question, "object"), _value(question, attribute)
    objects = question.perceive(question.images[-1]).objects
    weights = [
        float(obj.mask.mean()) * (_NO_OBJECT_PROBABILITY + obj.shapes.get(name.kind, 0.0)) * visibility(obj)
        for obj in objects
    ]
    if not any(weights):
        return _NO_EVIDENCE_PROBABILITY
    shares = [attribute_distribution(obj, attribute)[value] for obj in objects]
    return sum(weight * share for weight, share in zip(weights, shares, strict=True)) / sum(weights)


def _has_background(question: Question) -> float:
    return backdrop_probability(question.perceive(question.images[-1]), _value(question, "background"))


def _replaced(question: Question) -> float:
    source, edited = map(question.perceive, question.images)
    return replacement_probability(source, edited, _name(question, "object"), _name(question, "new"), trust=float)


def _added(question: Question) -> float:
    new = _name(question, "new")
    before, after = (
        max((box.score for box in question.perceive(image).locate(new)), default=0.0) for image in question.images
    )
    return after * (1 - before)


def _edit_success(question: Question) -> float:
    name, attribute = _name(question, "object"), question.slot("type")
    if attribute not in ("color", "material"):
        raise UnanswerableError(f"whether the {attribute or 'nothing'} has changed: expected type color or material")
    source, edited = map(question.perceive, question.images)
    return attribute_change_probability(source, edited, name, attribute, _value(question, attribute))


def _name(question: Question, slot: str) -> ObjectName:
    try:
        return parse_known_name(question.slot(slot))
    except UnanswerableError as reason:
        raise UnanswerableError(f"what {slot} means: {reason}") from None


def _value(question: Question, attribute: str) -> str:
    value, options = canonical_term(question.slot("value")), _OPTIONS[attribute]
    if value not in options:
        raise UnanswerableError(f"whether anything is {value!r}: it knows {', '.join(options)}")
    return value


def _yes_no(images: int, probability: Callable[[Question], float], question: Question) -> Reply:
    question.expect(images)
    return yes_no_reply(probability(question))


_colour, _material = partial(_has_attribute, attribute="color"), partial(_has_attribute, attribute="material")
_EDIVAL: Answers = {
    "edival/color": partial(_yes_no, 1, _colour),
    "edival/color_pair": partial(_yes_no, 2, _colour),
    "edival/material": partial(_yes_no, 1, _material),
    "edival/material_pair": partial(_yes_no, 2, _material),
    "edival/background": partial(_yes_no, 1, _has_background),
    "edival/replaced": partial(_yes_no, 2, _replaced),
    "edival/added": partial(_yes_no, 2, _added),
    "edival/edit_success": partial(_yes_no, 2, _edit_success),
    "edival/core_name": lambda question: Reply(_name(question, "object").kind),
}

# -- Complex-Edit: an unchanged copy has 0 and 10, certainly; a certain grade is the same in all draws ----------------

_HIGHEST = 10


def _complexedit(question: Question) -> Reply:
    """Following is the credit of the requests, preservation theirs, quality the cleanliness of the image."""
    query, topic = question.query, question.query.topic.partition("/")[2]
    if isinstance(query.form, FreeText):
        return Reply("I look at the pictures and then say it.")  # the reasons before a yes or no
    if topic.startswith("quality"):
        question.expect(1)
        clean = question.visual_quality
        if topic == "quality_yes_no":
            return yes_no_reply(clean)
        if not isinstance(query.form, Json):
            return grade_reply(clean, query)
        grade = sample_index(binomial_probabilities(clean, _HIGHEST), query, "quality", query.form.temperature)
        return _in_form(query.form, {"reasoning": f"{clean:.0%} of it is clean", "perceptual_quality": grade})
    question.expect(2)
    operations = "" if question.slot("operations") == "[]" else question.slot("operations")
    comparison = question.compare(question.images[:1], question.images[1], operations)
    match topic:
        case "alignment":
            return _aligned(question, comparison, has_operations=bool(operations))
        case "following_yes_no":
            return yes_no_reply(comparison.success_probability)
        case "preservation_yes_no":
            return yes_no_reply(comparison.preservation)
        case _:
            return grade_reply(comparison.credit if topic == "following" else comparison.preservation, query)


def _aligned(question: Question, comparison: EditComparison, *, has_operations: bool) -> Reply:
    """Every request graded by itself, their mean, and preservation."""
    form = question.query.form
    assert isinstance(form, Json)

    def grade(share: float, label: str) -> int:
        return sample_index(binomial_probabilities(share, _HIGHEST), question.query, label, form.temperature)

    shares = [outcome.credit for outcome in comparison.outcomes] if has_operations else [comparison.credit]
    grades = [grade(share, f"operation {index}") for index, share in enumerate(shares)]
    done = sum(outcome.success_probability >= 0.5 for outcome in comparison.outcomes)
    values = {
        "reasoning": f"{done} of {len(comparison.outcomes)} wishes are carried out; {changes_in_words(comparison)}",
        "operations": [{"operation": f"wish {index}", "score": one} for index, one in enumerate(grades, start=1)],
        "instruction_following": round(fmean(grades)),
        "identity_preservation": grade(comparison.preservation, "preservation"),
    }
    return _in_form(form, values)


def _in_form(form: Json, values: Mapping[str, object]) -> Reply:
    return json_reply({name: values[name] for name in json.loads(form.schema)["properties"]})


_COMPLEXEDIT_TOPICS = (
    *("alignment", "quality", "following_yes_no", "preservation_yes_no", "quality_yes_no", "following", "preservation"),
)
_COMPLEXEDIT: Answers = {f"complexedit/{topic}": _complexedit for topic in _COMPLEXEDIT_TOPICS}

# -- baselines, VIEScore and ImgEdit-Bench ----------------------------------------------------------------------------


def _baseline_pair(question: Question) -> EditComparison:
    question.expect(2, or_more=True)
    return question.compare(question.images[:-1], question.images[-1])


def _level(question: Question, share: float) -> Reply:
    assert isinstance(question.query.form, Levels)
    return level_reply(share, question.query.form.options)


def _edit_score(question: Question) -> Reply:
    pair = _baseline_pair(question)
    return _sampled_grades(question, changes_in_words(pair), following=pair.credit, consistency=pair.preservation)


def _edit_score_quality(question: Question) -> Reply:
    """Visual quality, twice: seams cannot be separated from noise."""
    quality = question.visual_quality
    return _sampled_grades(question, _LOOKS_ALONE, natural=quality, clean=quality)


def _sampled_grades(question: Question, reasoning: str, **shares: float) -> Reply:
    highest = int(question.slots["highest"])
    score = [
        sample_index(binomial_probabilities(share, highest), question.query, name) for name, share in shares.items()
    ]
    return json_reply({"reasoning": reasoning, "score": score})


_LOOKS_ALONE = "looks are all that is graded"
_BASELINES: Answers = {
    "baselines/yes_no": lambda question: yes_no_reply(_baseline_pair(question).success_probability),
    "baselines/quality": lambda question: grade_reply(question.visual_quality, question.query),
    # Scenes have one style: what spoils their realism are noise and seams.
    "baselines/realism": lambda question: _level(question, question.visual_quality),
    "baselines/level": lambda question: _level(question, _baseline_pair(question).credit),
    "baselines/edit_score": _edit_score,
    "baselines/edit_score_quality": _edit_score_quality,
}


def _semantic_consistency(question: Question) -> Reply:
    """Success is the credit of the requests, over-editing their preservation; an unchanged copy has 0 and 10."""
    pair = question.pair()
    score = [_grade(share, 0, MAX_GRADE) for share in (pair.credit, pair.preservation)]
    return json_reply({"score": score, "reasoning": changes_in_words(pair)})


def _perceptual_quality(question: Question) -> Reply:
    """Naturalness and artifacts are both the cleanliness of the image."""
    question.expect(1)
    return json_reply({"score": [_grade(question.visual_quality, 0, MAX_GRADE)] * 2, "reasoning": _LOOKS_ALONE})


_VIESCORE: Answers = {
    "viescore/semantic_consistency": _semantic_consistency,
    "viescore/perceptual_quality": _perceptual_quality,
}


def _imgedit(question: Question) -> Reply:
    """Grades of the credit of the requests, of cleanliness and of preservation, neither above the first.

    A hard instruction has the credit as its grade, at most 3 if anything changed that was not asked for.
    """
    topic, pair = question.query.topic.partition("/")[2], question.pair()
    first = _grade(pair.credit, LOWEST, HIGHEST)
    lines = [f"Brief reasoning: {changes_in_words(pair).replace(':', ',')}"]
    if topic == "uge":
        damaged = bool(pair.unrequested_changes)
        lines += [
            f"{NON_EDITED}: {'changed' if damaged else 'unchanged'}",
            f"{SCORE}: {min(first, DAMAGED_MAX) if damaged else first}",
        ]
    else:
        others = (_grade(share, LOWEST, HIGHEST) for share in (question.visual_quality, pair.preservation))
        grades = (first, *(min(first, grade) for grade in others))
        kind = next(kind for kind in EDIT_TYPES if kind == topic)
        lines += [f"{name}: {grade}" for name, grade in zip(CRITERIA[kind], grades, strict=True)]
    return Reply("\n".join(lines))


def _grade(share: float, lowest: int, highest: int) -> int:
    return lowest + round(min(max(share, 0.0), 1.0) * (highest - lowest))


_IMGEDIT: Answers = {f"imgedit/{topic}": _imgedit for topic in (*EDIT_TYPES, "uge")}

# -- the judge --------------------------------------------------------------------------------------------------------

_ANSWERS: Answers = {
    **_EDIVAL,
    **_COMPLEXEDIT,
    **DLEBENCH,
    **I2IBENCH,
    **_IMGEDIT,
    **_VIESCORE,
    **_BASELINES,
    **ANY_EDIT,
    **_AUDIT,
}


class SceneJudge(PerceptiveExpert):
    """Answers on the topics of EdiVal, Complex-Edit, DLEBench, I2I-Bench, ImgEdit-Bench, the baselines and `any-edit`.

    Of audits of judges it answers their questions, and of two edits it says which is better.

    It uses the images in their order and reads the slots, not the message: instructions in the nine forms of EdiVal,
    several of them in one sentence, and `Put … of the second picture into the first one, …`; of `any-edit`, everyday
    words for changes of the whole picture too. Each image and pair is analysed once. Sampled answers depend on the
    query and its draw alone. Abstains on other topics, on unknown words, and on other images than the topic has.
    """

    kinds = (Judge,)
    id = "scene-judge@3"

    def __init__(self) -> None:
        super().__init__()
        self._comparisons = EditComparisonCache(self._perception)

    def _answer(self, query: Judge) -> Reply | Abstention:
        try:
            if query.topic not in _ANSWERS:
                raise UnanswerableError(
                    f"{query.topic or 'a question without a topic'}: it knows {_known(query.topic)}"
                )
            return _ANSWERS[query.topic](Question(query, dict(query.slots), self._perception, self._comparisons))
        except UnanswerableError as reason:
            return Abstention(f"a scene judge cannot tell {reason}")


def _known(topic: str) -> str:
    system = topic.partition("/")[0]
    topics = [known for known in _ANSWERS if known.partition("/")[0] == system]
    return ", ".join(topics or dict.fromkeys(f"{known.partition('/')[0]}/…" for known in _ANSWERS))
