"""ContentConsistency: what it compares, leaves out, and when it has no value; and the guard of unchanged objects."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
import skimage.data

from editcritic.reward import Box, EditSample, Engine, Expert, Image, Pools, Task
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.metrics.edival.consistency import (
    BackgroundConsistency,
    ContentConsistency,
    ObjectConsistency,
    ObjectsPreserved,
)
from editcritic.reward.queries import Abstention, Detect, Detections, Embeddings, Failure, RecognizedText
from editcritic.reward.queries.kinds import TextLine

from ...fakes import Fake

# Boxes end where patches of 32 pixels do. Patches beside a spoiled box still see its edge: 0.95 is next to untouched.
PHOTO = cv2.resize(skimage.data.coffee(), (448, 448), interpolation=cv2.INTER_AREA)
SIZE = (448, 448)
CUP = Box.from_corners(128, 64, 351, 255, SIZE, score=0.9)
SPOON = Box.from_corners(0, 0, 95, 159, SIZE, score=0.6)
LAMP = Box.from_corners(384, 288, 447, 415, SIZE, score=0.5)
KNOWN = {"cup": (CUP,), "spoon": (SPOON,), "lamp": (LAMP,)}
WHOLE = {name: (Box(0.5, 0.5, 1, 1),) for name in KNOWN}
BROKEN = Fake(lambda query: Failure("out of order"), name="broken")
PROTOCOLS = pytest.mark.parametrize("protocol", ["fixed", "official"])


class Finds(Expert):
    """Knows where things are, in every image or (`only`) in some; abstains on what is `unknown`."""

    id = "fake detector"
    kinds = (Detect,)

    def __init__(self, known=None, unknown=(), only=None):
        self.known = KNOWN if known is None else known
        self.unknown = unknown
        self.only = only or {}
        self.queries = []

    def __call__(self, queries):
        self.queries += queries
        return [self.answer(query) for query in queries]

    def answer(self, query):
        if strangers := [phrase for phrase in query.phrases if phrase in self.unknown]:
            return Abstention(f"no box of {strangers[0]} is known")
        known = self.only.get(query.image, self.known)
        return Detections(tuple(box.with_label(name) for name in query.phrases for box in known.get(name, ())))


def run(metric, sample, detector=None, **experts):
    pixels = PixelFeatures()
    bound = {"detector": detector or Finds(), "features": pixels, "pixels": pixels, **experts}
    with Engine() as engine:
        return engine.submit(metric(sample), bound, sample).result(timeout=60)


def sample(edited, pools=None, instruction="Remove lamp", **fields):
    pools = pools or Pools(all=("cup", "spoon", "lamp"), unchanged=("cup", "spoon"))
    return EditSample("s", instruction, (Image.of(PHOTO),), Image.of(edited), pools=pools, **fields)


def spoiled(box):
    """The photograph, half as bright and with red for blue in this box."""
    pixels = PHOTO.copy()
    x0, y0, x1, y1 = box.corners(SIZE)
    pixels[y0:y1, x0:x1] = pixels[y0:y1, x0:x1, ::-1] // 2
    return pixels


def test_a_copy_is_fully_consistent():
    score = run(ContentConsistency(), sample(PHOTO))
    assert score.value == pytest.approx(1.0, abs=1e-6)
    expected = dict.fromkeys(("objects", "background", "objects_l1", "background_l1"), 1.0)
    assert {name: part.value for name, part in score.parts.items()} == pytest.approx(expected, abs=1e-6)
    assert score.metric == "edival-cc@3/fixed"


def test_a_spoiled_object_costs_objects_and_a_spoiled_background_background_only():
    score = run(ContentConsistency(), sample(spoiled(CUP)))
    objects = score.parts["objects"]
    assert objects.parts["cup"].value < 0.6
    assert objects.parts["spoon"].value == pytest.approx(1.0, abs=1e-6)
    assert objects.reason == "least alike: cup"
    assert objects.value == pytest.approx((objects.parts["cup"].value + 1) / 2)
    assert score.parts["background"].value > 0.95
    assert score.parts["background_l1"].value == 1.0
    assert score.value == pytest.approx((objects.value + score.parts["background"].value) / 2)
    score = run(ContentConsistency(), sample(spoiled(Box.from_corners(0, 288, 191, 447, SIZE))))
    assert score.parts["objects"].value == pytest.approx(1.0, abs=1e-6)
    assert score.parts["background"].value < 0.9
    assert score.parts["background_l1"].value < 0.95


@pytest.mark.parametrize("similarity", ["features", "l1"])
@PROTOCOLS
def test_a_stronger_drift_costs_more(protocol, similarity):
    def tinted(strength):
        pixels = np.clip(PHOTO * np.array([1 + strength, 1, 1 - strength]), 0, 255).astype(np.uint8)
        return run(ContentConsistency(protocol, similarity), sample(pixels)).value

    drifts = [tinted(strength) for strength in (0.0, 0.03, 0.1, 0.3)]
    assert drifts == sorted(drifts, reverse=True)
    assert len(set(drifts)) == 4


def test_the_comparison_is_with_the_base_not_with_the_turn_before():
    base, drifted = Image.of(PHOTO), Image.of(spoiled(CUP))
    first = EditSample("1", "Remove spoon", (base,), drifted)
    pools = Pools(all=("cup",), unchanged=("cup",))
    second = EditSample("2", "Remove lamp", (drifted,), drifted, history=(first,), pools=pools)
    assert run(ObjectConsistency(), second).value < 0.6


def test_objects_are_looked_for_where_they_are_in_the_base():
    edited = Image.of(spoiled(SPOON))
    detector = Finds(only={edited: {"cup": (LAMP,)}})
    score = run(ObjectConsistency(), sample(edited), detector)
    assert score.parts["cup"].value == pytest.approx(1.0, abs=1e-6)
    assert score.parts["spoon"].value < 0.6
    assert {query.image for query in detector.queries} == {Image.of(PHOTO)}


def test_the_background_leaves_out_boxes_of_both_pictures():
    edited, before = Image.of(spoiled(CUP)), {"cup": (CUP,)}

    def value(base, current):
        detector = Finds(known=base, only={edited: current})
        return run(BackgroundConsistency(), sample(edited, Pools(all=("cup",))), detector).value

    assert value({}, {}) < 0.9
    assert value(before, {}) == value({}, before) > 0.95
    detector = Finds(known=before, only={edited: {"cup": (LAMP,)}})
    both = run(BackgroundConsistency(similarity="l1"), sample(edited, Pools(all=("cup",))), detector)
    covered = 224 * 192 + 64 * 128  # corners included
    assert both.evidence[-1].numbers["share"] == pytest.approx(1 - covered / 448**2)


# -- halves that are missing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edited", "pools", "missing", "counts"),
    [
        (spoiled(CUP), Pools(all=("lamp",)), "objects", "background"),
        ((PHOTO * 0.8).astype(np.uint8), Pools(("cup",), (), ("cup",), background=False), "background", "objects"),
    ],
)
def test_where_one_half_does_not_apply_the_other_counts_alone(edited, pools, missing, counts):
    score = run(ContentConsistency(), sample(edited, pools))
    assert score.parts[missing].status == "not_applicable"
    assert 0 < score.value == score.parts[counts].value < 0.9


@PROTOCOLS
def test_with_nothing_to_compare_it_is_not_applicable(protocol):
    score = run(ContentConsistency(protocol), sample(PHOTO, Pools(("cup",), background=False)))
    assert score.status == score.parts["objects"].status == score.parts["background"].status == "not_applicable"
    assert score.reason == "neither an unchanged object nor an unchanged background to compare"


def test_where_no_object_is_listed_the_released_code_compares_no_background():
    score = run(ContentConsistency("official"), sample(spoiled(CUP), Pools()))
    assert score.status == score.parts["background"].status == score.parts["background_l1"].status == "not_applicable"
    assert "no object is listed" in score.parts["background"].reason
    fixed = run(BackgroundConsistency(), sample(spoiled(CUP), Pools()))
    assert (fixed.value < 0.9, fixed.evidence[-1].numbers) == (True, {"patches": 196.0})


def test_pools_follow_from_boxes_and_instruction_and_without_any_it_abstains():
    derived = EditSample("s", "Remove lamp", (Image.of(PHOTO),), Image.of(spoiled(LAMP)), boxes=KNOWN)
    score = run(ContentConsistency(), derived)
    assert list(score.parts["objects"].parts) == ["cup", "spoon"]
    assert score.value > 0.995
    score = run(ContentConsistency(), EditSample("s", "Make it nice", (Image.of(PHOTO),), Image.of(PHOTO)))
    assert (score.status, "give `pools`" in score.reason) == ("abstained", True)


def test_a_half_that_abstains_or_fails_is_never_left_out_and_what_stands_beside_the_value_does_not_count():
    score = run(ContentConsistency(), sample(PHOTO), Finds(known={"cup": (CUP,)}))
    assert (score.status, score.reason) == ("abstained", "objects: not found in the base picture: spoon")
    assert score.parts["background"].value == pytest.approx(1.0, abs=1e-6)
    score = run(ContentConsistency(), sample(PHOTO), features=BROKEN)
    assert (score.status, "out of order" in score.reason) == ("failed", True)
    assert score.parts["objects_l1"].value == 1.0
    score = run(ContentConsistency(), sample(PHOTO), pixels=BROKEN)
    assert score.value == pytest.approx(1.0, abs=1e-6)
    assert score.parts["objects_l1"].status == score.parts["background_l1"].status == "failed"


def test_l1_needs_no_features():
    score = run(ContentConsistency(similarity="l1"), sample(spoiled(CUP)), features=BROKEN)
    x0, y0, x1, y1 = CUP.corners(SIZE)
    crops = [pixels[y0:y1, x0:x1].astype(float) for pixels in (PHOTO, spoiled(CUP))]
    by_hand = 1 - np.abs(crops[0] - crops[1]).mean() / 255
    assert score.parts["objects"].parts["cup"].value == pytest.approx(by_hand)
    assert score.value == pytest.approx((by_hand + 1) / 2 / 2 + 0.5)
    assert set(score.parts) == {"objects", "background"}
    assert score.metric == "edival-cc@3/fixed/l1"


def test_opposite_features_are_worth_nothing_not_less():
    def opposite(query):
        vectors = np.full((len(query.regions), 3), 1.0 if query.image == Image.of(PHOTO) else -1.0, np.float32)
        return Embeddings(vectors, np.ones(len(query.regions), np.int64))

    edit = sample(spoiled(CUP), Pools(all=("cup",), unchanged=("cup",), background=True))
    score = run(ContentConsistency(), edit, features=Fake(opposite))
    assert (score.parts["background"].value, score.value) == (-1.0, 0.0)


# -- where the protocols differ ----------------------------------------------------------------------------------------


def test_fixed_asks_name_by_name_and_official_all_at_once():
    by_protocol = {}
    for protocol in ("fixed", "official"):
        detector = Finds()
        run(ContentConsistency(protocol), sample(spoiled(CUP)), detector)
        by_protocol[protocol] = {query.phrases for query in detector.queries}
    assert by_protocol["fixed"] == {("cup",), ("spoon",), ("lamp",)}
    assert by_protocol["official"] == {("cup", "spoon"), ("cup", "spoon", "lamp")}


def test_fixed_takes_boxes_by_score_and_the_mean_over_objects_official_the_detectors_order_and_the_mean_over_boxes():
    class Mixed(Finds):
        def answer(self, query):
            boxes = [replace(CUP, score=0.5), replace(SPOON, label="spoon"), replace(LAMP, score=0.9)]
            named = [replace(box, label=box.label or "cup") for box in boxes]
            return Detections(tuple(box for box in named if box.label in query.phrases))

    official, fixed = (run(ObjectConsistency(p), sample(spoiled(SPOON)), Mixed()) for p in ("official", "fixed"))
    spoon = fixed.parts["spoon"].value
    assert list(official.parts) == ["cup", "spoon", "cup (2)"]
    assert [box.score for box in official.evidence[0].boxes] == [0.5, 0.6, 0.9]
    assert official.value == pytest.approx((2 + official.parts["spoon"].value) / 3)
    assert list(fixed.parts) == ["cup", "cup (2)", "spoon"]
    assert [box.score for box in fixed.evidence[0].boxes] == [0.9, 0.5, 0.6]
    assert fixed.value == pytest.approx((1 + spoon) / 2)


@pytest.mark.parametrize(
    ("cup", "official"),
    [((), 1.0), ((replace(CUP, score=0.35),), 1.0), ((Box(1.5, 0.5, 0.2, 0.2),), 1.0), (None, 0.0)],
)
def test_listed_objects_that_are_not_found(cup, official):
    """At the threshold, or outside of the picture; None: nothing is found."""
    some = Finds(known={} if cup is None else {"cup": cup, "spoon": (SPOON,)})
    fixed = run(ObjectConsistency(), sample(PHOTO), some)
    assert fixed.status == "abstained"
    assert fixed.reason.startswith("not found in the base picture: cup")
    for similarity in ("features", "l1"):
        assert run(ObjectConsistency("official", similarity), sample(PHOTO), some).value == pytest.approx(official)


@pytest.mark.parametrize(("protocol", "value"), [("fixed", None), ("official", 0.0)])
def test_boxes_over_everything_leave_no_background(protocol, value):
    score = run(BackgroundConsistency(protocol), sample(PHOTO), Finds(known=WHOLE))
    assert (score.value, score.status) == (value, "abstained" if value is None else "scored")


@pytest.mark.parametrize(("protocol", "similarity"), [("fixed", "features"), ("fixed", "l1"), ("official", "l1")])
def test_what_an_edit_covers_entirely_is_its_own_doing(protocol, similarity):
    darker = sample((PHOTO * 0.5).astype(np.uint8))
    base_too = run(BackgroundConsistency(protocol, similarity), darker, Finds(known=WHOLE))
    size = darker.source.size if protocol == "fixed" else (512, 512)
    edited_only = Finds(only={darker.edited.resized(*size): WHOLE})
    by_edit = run(BackgroundConsistency(protocol, similarity), darker, edited_only)
    assert (base_too.status, base_too.cause) == ("abstained", "")
    assert (by_edit.status, by_edit.cause) == ("abstained", "edit")


@pytest.mark.parametrize(("protocol", "size"), [("fixed", SIZE), ("official", (512, 512))])
def test_another_size_is_brought_to_one_and_said(protocol, size):
    detector = Finds()
    score = run(ContentConsistency(protocol), sample(Image.of(PHOTO).resized(900, 600)), detector)
    assert score.value > 0.97
    assert {query.image.size for query in detector.queries} == {size}
    texts = {item.what: item.text for item in score.parts["objects"].evidence if item.text}
    assert texts["current picture resized"] == f"from 900 x 600 to {size[0]} x {size[1]}"
    assert ("base picture resized" in texts) == (protocol == "official")


# -- detectors that know only what was there at first, and added texts -------------------------------------------------


def test_a_new_name_of_a_known_object_may_be_unknown_to_the_detector_and_a_new_object_may_not():
    pools = Pools(all=("cup", "blue cup", "spoon"), unchanged=("spoon",))
    recoloured = sample(spoiled(CUP), pools, "x", task=Task("color_alter", object="cup", value="blue"))
    assert run(BackgroundConsistency(), recoloured, Finds(unknown=("blue cup",))).value > 0.95
    knows_it = run(BackgroundConsistency(), recoloured, Finds(known={**KNOWN, "blue cup": (LAMP,)}))
    assert [box.label for box in knows_it.evidence[1].boxes] == ["cup", "blue cup", "spoon"]
    pools = Pools(all=("cup", "spoon", "hat"), unchanged=("cup", "spoon"))
    added = sample(PHOTO, pools, "x", task=Task("subject_add", new="hat"))
    score = run(ContentConsistency(), added, Finds(unknown=("hat",)))
    assert (score.status, score.reason) == ("abstained", "background: no box of hat is known")


WRITTEN = Box.from_corners(0, 288, 191, 447, SIZE)


@pytest.mark.parametrize(("read", "costs"), [("OPEM", False), ("SALE", True), ("", True)])
def test_an_added_text_is_left_out_of_the_background_where_the_reader_reads_it(read, costs):
    edit = sample(
        spoiled(WRITTEN),
        Pools(all=("cup", "spoon", "text"), unchanged=("cup", "spoon")),
        "Add text 'OPEN' on the image",
    )
    lines = (TextLine(read, WRITTEN),) if read else ()
    reader = Fake(lambda query: RecognizedText(lines))
    score = run(BackgroundConsistency(), edit, Finds(unknown=("text",)), reader=reader)
    assert (score.value < 0.9) is costs
    detector = Finds()
    run(BackgroundConsistency("official"), edit, detector)
    assert {query.phrases for query in detector.queries} == {("cup", "spoon", "text")}


def test_a_reader_that_localises_nothing_cannot_tell_where_an_added_text_is():
    edit = sample(PHOTO, Pools(all=("text",)), "Add text 'OPEN' on the image")
    score = run(BackgroundConsistency(), edit, reader=Fake(lambda query: RecognizedText.without_boxes("OPEN")))
    assert (score.status, score.cause) == ("failed", "infrastructure")
    assert "bind one that does to reader.boxes" in score.reason


@pytest.mark.parametrize("metric", [ContentConsistency, ObjectConsistency, BackgroundConsistency])
def test_an_unknown_option_is_refused_with_those_there_are(metric):
    with pytest.raises(ValueError, match="there are fixed, official"):
        metric(protocol="paper")
    with pytest.raises(ValueError, match="there are features, l1"):
        metric(similarity="ssim")


# -- the guard ---------------------------------------------------------------------------------------------------------

BEFORE, AFTER = Image.from_digest("a" * 64, (512, 512)), Image.from_digest("b" * 64, (512, 512))


def guarded(before, after, unchanged=("cup", "hat"), unknown=()):
    boxes = [{name: (Box(0.5, 0.5, 0.2, 0.2, p),) for name, p in scores.items()} for scores in (before, after)]
    pools = Pools(("dog", *unchanged), unchanged, unchanged)
    edit = EditSample("s", "Remove dog", (BEFORE,), AFTER, pools=pools)
    return run(ObjectsPreserved(), edit, Finds(known=boxes[1], unknown=unknown, only={BEFORE: boxes[0]}))


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        ({"cup": 0.9, "hat": 0.4}, {"cup": 0.9, "hat": 0.9}, 1.0),
        ({"cup": 0.9, "hat": 0.4}, {"cup": 0.9}, 1.0),
        ({"cup": 0.9, "hat": 0.4}, {"cup": 0.21, "hat": 0.19}, 1.0),  # a trace is enough
        ({"cup": 0.9, "hat": 0.4}, {"cup": 0.2, "hat": 0.2}, 0.0),
        ({"cup": 0.9, "hat": 0.4}, {}, 0.0),
        ({"cup": 0.9, "hat": 0.35}, {"cup": 0.9}, 1.0),  # what the base picture does not show does not count
        ({"cup": 0.9, "hat": 0.35}, {"hat": 0.9}, 0.0),
    ],
)
def test_more_than_half_lost_is_too_much(before, after, value):
    score = guarded(before, after)
    assert score.value == value
    lost = [name for name, p in before.items() if p > 0.35 and after.get(name, 0.0) <= 0.2]
    assert score.reason == (f"no trace is left of {', '.join(lost)}" if lost else "")


def test_without_objects_to_stay_the_guard_does_not_apply_and_what_cannot_be_known_leaves_it_open():
    assert guarded({}, {}, ()).status == "not_applicable"
    assert guarded({"cup": 0.3}, {}, ("cup",)).status == "not_applicable"
    assert guarded({}, {}, unknown=("cup",)).status == "abstained"
