"""Queries with equal descriptions of equal images are identical; answers survive the JSON round trip."""

import base64
import json
import math
import pickle
import tracemalloc
import zlib
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from editcritic.reward import Box, Image, queries
from editcritic.reward.queries.answers import TextLine
from editcritic.reward.queries.kinds import InvalidAnswer, Query
from editcritic.reward.queries.serialization import answer_from_json, answer_to_json

from ..fakes import picture
from ..plan_strategies import PLANS

ONE, OTHER = picture(1), picture(2)
BOX = Box(0.5, 0.5, 0.2, 0.2, 0.9, "cup")
MESSAGE = queries.Message(("Is it blue?", ONE))

# Each query, and another value for each of its fields.
QUESTIONS: dict[Query[Any], dict[str, Any]] = {
    queries.Detect(ONE, ("cup",)): {"image": OTHER, "phrases": ("cup", "saucer")},
    queries.Match(ONE, OTHER, (BOX,)): {"image": OTHER, "base": ONE, "targets": (replace(BOX, cx=0.4),)},
    queries.Differ(ONE, OTHER): {"before": OTHER, "after": ONE},
    queries.MapChanges(ONE, OTHER, ("tone",)): {"before": OTHER, "after": ONE, "beside": ("focus",), "exclude": (BOX,)},
    queries.RateRegion(ONE, OTHER, BOX, "new"): {
        "before": OTHER,
        "after": ONE,
        "box": replace(BOX, cx=0.4),
        "change": "removed",
    },
    queries.Remains(ONE, OTHER, (BOX,)): {
        "before": OTHER,
        "after": ONE,
        "boxes": (replace(BOX, cx=0.4),),
        "unchanged": True,
    },
    queries.Segment(ONE, "the cup"): {"image": OTHER, "command": "the saucer"},
    queries.Embed(ONE, (queries.Region(),)): {"image": OTHER, "regions": (queries.Region("cls"),)},
    queries.EmbedText("a cup"): {"text": "a saucer"},
    queries.Measure("l1", (ONE, OTHER)): {"quantity": "ssim", "pictures": (OTHER, ONE), "exclude": (BOX,)},
    queries.Judge((MESSAGE,), queries.YesNo()): {
        "messages": (queries.Message(("Is it red?", ONE)),),
        "form": queries.FreeText(),
        "topic": "colour",
        "slots": (("object", "cup"),),
        "draw": 1,
    },
    queries.ReadText(ONE): {"image": OTHER, "wanted": "OPEN"},
    queries.Plan((ONE,), "Remove the cup"): {"sources": (OTHER, ONE), "instruction": "Remove cup"},
    queries.Rate(ONE): {"image": OTHER, "prompt": "a cup", "quality": "beauty", "sources": (OTHER,)},
    queries.Upscale(ONE): {"image": OTHER, "factor": 2},
}
VARIANTS: list[Query[Any]] = [
    queries.Embed(ONE, (queries.Region("patches", exclude=()),)),
    queries.Embed(ONE, (queries.Region("patches", exclude=(BOX,)),)),
    queries.Embed(ONE, (queries.Region("patches", grid="guessed"),)),
    queries.Embed(ONE, (queries.Region("tokens"),)),
    queries.Embed(ONE, (queries.Region(inside=queries.Mask(np.eye(8, dtype=bool))),)),
    queries.Embed(ONE, (queries.Region(inside=queries.Mask(~np.eye(8, dtype=bool))),)),
    queries.Embed(ONE, (queries.Region(inside=queries.Mask(np.eye(4, dtype=bool))),)),
    queries.Embed(ONE, (queries.Region("patches"), queries.Region("patches"))),
    queries.Judge((MESSAGE,), queries.YesNo(17)),
    queries.Judge((MESSAGE,), queries.FreeText(16)),
    queries.Judge((MESSAGE,), queries.FreeText(16, 0.5)),
    queries.Judge((queries.Message(("Is it blue?", ONE), "system"),), queries.YesNo()),
    queries.Judge((queries.Message((ONE, "Is it blue?")),), queries.YesNo()),
    queries.Judge((queries.Message(("Is it ", "blue?", ONE)),), queries.YesNo()),
    queries.Judge((MESSAGE, MESSAGE), queries.YesNo()),
    queries.Judge((queries.Message((f'{{"image": "{ONE.digest}"}}',)),), queries.YesNo()),
    queries.Judge((queries.Message((ONE,)),), queries.YesNo()),
]
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
BOXES = st.builds(Box, FLOATS, FLOATS, FLOATS.map(abs), FLOATS.map(abs), FLOATS, st.text())
FLOATS32 = st.floats(allow_nan=False, allow_infinity=False, width=32)
ANSWERS = st.one_of(
    st.builds(queries.Detections, st.lists(BOXES, max_size=3).map(tuple), FLOATS),
    st.builds(queries.Measurement, st.none() | FLOATS, FLOATS),
    st.builds(queries.RegionRating, FLOATS, st.dictionaries(st.text(), FLOATS, max_size=3)),
    st.builds(queries.Reply, st.text(), st.dictionaries(st.text(), FLOATS, max_size=3)),
    st.builds(
        queries.RecognizedText,
        st.lists(st.builds(TextLine, st.text(), BOXES), max_size=3).map(tuple),
        st.lists(BOXES, max_size=3).map(tuple),
    ),
    st.builds(queries.Abstention, st.text()),
    PLANS,
)
MASK = np.ones((ONE.height, ONE.width), bool)
LEVELS = queries.Levels(("good", "bad"), (1.0, 0.0))


def test_every_kind_of_question_is_tried():
    assert {type(question) for question in QUESTIONS} == set(Query.__subclasses__())


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.kind)
def test_a_question_is_all_of_its_fields_about_the_same_pixels(question):
    assert {field.name for field in fields(question)} == QUESTIONS[question].keys()
    others = [replace(question, **{name: value}) for name, value in QUESTIONS[question].items()]
    assert len({other.digest for other in others} | {question.digest}) == len(others) + 1
    again = pickle.loads(pickle.dumps(question))
    assert (again, again.digest, hash(again)) == (question, question.digest, hash(question))
    json.dumps(question.describe(), allow_nan=False)
    assert set(question.images) <= {ONE, OTHER}
    assert all(image.digest in json.dumps(question.describe()) for image in question.images)


class Noted:
    """What an application mixes into its queries."""


@dataclass(frozen=True)
class RateAgain(Noted, queries.Rate):
    """A query of an application, made from one of ours."""

    reference: Image = OTHER
    kind: ClassVar[str] = "rate-again"


def test_a_query_that_is_made_from_another_has_its_fields_and_its_answers() -> None:
    query = RateAgain(ONE, reference=OTHER)
    assert query.describe() == {"image": ONE.digest, "prompt": "", "quality": "preference", "reference": OTHER.digest}
    assert query.digest != replace(query, reference=ONE).digest != queries.Rate(ONE).digest
    query.check(queries.Measurement(0.5))
    with pytest.raises(InvalidAnswer, match="rate-again expects Measurement, got Detections"):
        query.check(queries.Detections((), 0.0))


def test_small_differences_are_differences():
    digests = [question.digest for question in (*QUESTIONS, *VARIANTS)]
    assert len(set(digests)) == len(digests)
    sure, unsure = (queries.Match(ONE, OTHER, (replace(BOX, score=score),)) for score in (0.9, 0.2))
    assert sure.digest == unsure.digest
    assert (
        queries.Detect(Image.from_digest(ONE.digest, ONE.size), ("cup",)).digest == queries.Detect(ONE, ("cup",)).digest
    )


@st.composite
def vectors(draw):
    rows, columns = draw(st.integers(0, 3)), draw(st.integers(0, 4))
    values = draw(arrays.arrays(np.float32, (rows, columns), elements=FLOATS32))
    return queries.Embeddings(values, draw(arrays.arrays(np.int64, rows)))


@given(ANSWERS)
def test_an_answer_comes_back_from_json_as_it_was(answer):
    text = json.dumps(answer_to_json(answer), allow_nan=False)
    again = answer_from_json(json.loads(text))
    assert again == answer
    assert repr(again) == repr(answer)  # negative zeros too


@given(vectors())
def test_vectors_come_back_from_json_as_they_were(answer):
    again = answer_from_json(json.loads(json.dumps(answer_to_json(answer), allow_nan=False)))
    assert isinstance(again, queries.Embeddings)
    assert (again.values.dtype, again.values.shape) == (answer.values.dtype, answer.values.shape)
    assert again.values.tobytes() == answer.values.tobytes()
    assert again.patches.tolist() == answer.patches.tolist()


@given(arrays.arrays(np.bool_, arrays.array_shapes(min_dims=2, max_dims=2, max_side=40)), FLOATS)
def test_masks_come_back_from_json_as_they_were(values, score):
    again = answer_from_json(json.loads(json.dumps(answer_to_json(queries.Mask(values, score)), allow_nan=False)))
    assert isinstance(again, queries.Mask)
    assert (again.values.dtype.name, again.values.shape, repr(again.score)) == ("bool", values.shape, repr(score))
    assert np.array_equal(again.values, values)


def test_masks_regions_and_larger_pictures():
    values = np.zeros((512, 512), bool)
    values[100:200, 50:300] = True
    assert len(json.dumps(answer_to_json(queries.Mask(values)))) < 1000
    mask, same, other = (
        queries.Mask(np.eye(3, dtype=bool)),
        queries.Mask(np.eye(3, dtype=bool)),
        queries.Mask(np.ones((3, 3), bool)),
    )
    assert mask == same
    assert hash(mask) == hash(same)
    assert mask.digest == same.digest
    assert mask != other
    assert mask != queries.Mask(np.eye(3, dtype=bool), 0.5)
    assert mask.inverted().inverted() == mask
    assert queries.Mask(np.ones((2, 3), bool)).digest != queries.Mask(np.ones((3, 2), bool)).digest
    with pytest.raises(ValueError, match="subtract the boxes from the mask"):
        queries.Region(exclude=(BOX,), inside=queries.Mask(np.eye(3, dtype=bool)))
    larger = queries.UpscaledImage(ONE.resized(16, 16))
    queries.Upscale(ONE, 2).check(larger)
    with pytest.raises(InvalidAnswer, match="32, 32"):
        queries.Upscale(ONE, 4).check(larger)
    assert answer_from_json(json.loads(json.dumps(answer_to_json(larger)))) == larger


@pytest.mark.parametrize("damage", [{"mask": "AAAA"}, {"mask": "?"}, {"shape": [9, 9]}])
def test_a_damaged_mask_is_refused(damage):
    with pytest.raises(ValueError, match=r"damaged|base64"):
        answer_from_json(answer_to_json(queries.Mask(np.ones((8, 8), bool))) | damage)


@pytest.fixture(scope="module")
def bomb():
    """A few kilobytes that unpack to 64 MiB."""
    return base64.b64encode(zlib.compress(bytes(2**26), 9)).decode()


@pytest.mark.parametrize("shape", [[8, 8], [40_000, 40_000], [2**40, 2**40], [8], [2**62] * 300_000])
@pytest.mark.parametrize("kind", ["mask", "change_map"])
def test_a_record_is_unpacked_no_further_than_it_may_be(kind, shape, bomb):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="its record is damaged"):
            answer_from_json({kind: bomb, "shape": shape, "score": 1.0, "numbers": {}})
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "rating",
    [
        queries.RegionRating(1.5),
        queries.RegionRating(math.nan),
        queries.RegionRating(0.5, {"seam": -1.0}),
        queries.RegionRating(0.5, {"seam": math.inf}),
        answer_from_json({"region": "much", "faults": {}}),
        answer_from_json({"region": 0.5, "faults": [["seam", 1.0]]}),
        queries.Measurement(0.5),
    ],
)
def test_a_rating_of_a_region_that_is_none_is_no_answer(rating):
    with pytest.raises(InvalidAnswer, match=r"RegionRating|value in"):
        queries.RateRegion(ONE, OTHER, BOX, "new").check(rating)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (queries.Mask(MASK.astype(np.uint8)), r"expects an array of bool of \(8, 8\), got uint8 of \(8, 8\)"),
        (queries.Mask(MASK[:4]), r"bool of \(4, 8\)"),
        (queries.Mask(MASK[..., None]), r"bool of \(8, 8, 1\)"),
        (queries.Mask([[True] * 8] * 8), "got list"),  # type: ignore[arg-type]
        (queries.Mask(MASK, math.nan), "finite score, got nan"),
        (queries.Detections(()), "expects Mask, got Detections"),
    ],
)
def test_a_mask_that_does_not_fit_its_picture_is_no_answer(answer, problem):
    with pytest.raises(InvalidAnswer, match=problem):
        queries.Segment(ONE, "the cup").check(answer)
    queries.Segment(ONE, "the cup").check(queries.Mask(MASK, 0.5))


def test_an_answer_of_a_newer_version_is_refused():
    with pytest.raises(ValueError, match=r"unknown kind of answer with fields \['sound'\]: .* newer version"):
        answer_from_json({"sound": []})


def test_thresholds_cosines_and_lines_of_answers():
    detections = queries.Detections(
        tuple(Box(0.5, 0.5, 0.1, 0.1, score, label) for score, label in [(0.3, "a"), (0.9, "b")]), 0.1
    )
    assert [box.label for box in detections.above(0.3)] == ["b"]
    assert [box.label for box in detections.above(0.1)] == ["a", "b"]
    assert detections.above(0.1, "a") == detections.boxes[:1]
    assert (detections.max_score(), queries.Detections(()).max_score()) == (0.9, 0.0)
    with pytest.raises(ValueError, match=r"threshold 0\.05 lies below the detector's floor 0\.1"):
        detections.above(0.05)

    def embeddings(*rows):
        return queries.Embeddings(np.array(rows, np.float32), np.ones(len(rows), np.int64))

    left = embeddings((1, 0), (0, 0), (3, 4), (1e20, 1e20))
    right = embeddings((0, 2), (1, 1), (3, 4), (-1e20, -1e20))
    assert [left.cosine(right, row) for row in range(4)] == pytest.approx([0.0, 0.0, 1.0, -1.0])
    assert all(-1 <= left.cosine(right, row) <= 1 and math.isfinite(left.cosine(right, row)) for row in range(4))
    line = TextLine("OPEN", BOX)
    assert queries.RecognizedText((line, TextLine("24 h", BOX))).text == "OPEN 24 h"
    assert queries.RecognizedText.without_boxes("OPEN").text == "OPEN"
    assert queries.RecognizedText.without_boxes("") == queries.RecognizedText(())


@pytest.mark.parametrize(
    ("form", "reply", "message"),
    [
        (LEVELS, queries.Reply("rubbish"), "one of good, bad"),
        (LEVELS, queries.Reply("good or bad"), "one of good, bad"),
        (LEVELS, queries.Reply("good", {"good": 0.5, "fair": 0.5}), "probabilities of \\['fair'\\]"),
        (LEVELS, queries.Reply("good", {"good": 0.5}), "add up to 0.5"),
        (queries.Grade(), queries.Reply("11"), "an integer from 0 to 10"),
        (queries.Grade(), queries.Reply("7", {"11": 1.0}), "probabilities of \\['11'\\]"),
        (queries.YesNo(), queries.Reply("yes", {"Yes": 1.0}), "probabilities of \\['Yes'\\]"),
        (queries.Json.from_schema({"type": "object"}), queries.Reply("[]"), "is wrong"),
        (queries.Json.from_schema({"type": "object"}), queries.Reply("rubbish"), "not JSON"),
        (LEVELS, queries.Reply("good"), ""),
        (LEVELS, queries.Reply("rather good", {"good": 0.75, "bad": 0.25}), ""),
        (queries.Grade(), queries.Reply("7"), ""),
        (queries.YesNo(), queries.Reply("I would say yes"), ""),
        (queries.YesNo(), queries.Reply("yes", {"yes": 0.75}), ""),
        (queries.Json.from_schema({"type": "object"}), queries.Reply("{}"), ""),
        (queries.FreeText(), queries.Reply("rubbish"), ""),
    ],
)
def test_a_reply_in_another_form_is_no_answer(form, reply, message):
    with pytest.raises(InvalidAnswer, match=message) if message else nullcontext():
        queries.Judge((MESSAGE,), form).check(reply)
