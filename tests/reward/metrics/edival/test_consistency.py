"""ContentConsistency: what it compares, what it leaves out, and when it has no value."""

from __future__ import annotations

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
from editcritic.reward.queries import (
    Abstention,
    Detect,
    Detections,
    Embed,
    Embeddings,
    Failure,
    Measure,
    ReadText,
    RecognizedText,
)
from editcritic.reward.queries.kinds import TextLine

# Boxes end where patches of 32 pixels do. Patches beside a spoiled box still see its edge: 0.95 is next to untouched.
PHOTO = cv2.resize(skimage.data.coffee(), (448, 448), interpolation=cv2.INTER_AREA)
SIZE = (448, 448)
CUP = Box.from_corners(128, 64, 351, 255, SIZE, score=0.9)
SPOON = Box.from_corners(0, 0, 95, 159, SIZE, score=0.6)
LAMP = Box.from_corners(384, 288, 447, 415, SIZE, score=0.5)
KNOWN = {"cup": (CUP,), "spoon": (SPOON,), "lamp": (LAMP,)}


class Finds(Expert):
    """Knows where things are, in every image or (`only`) in some; abstains on what is `unknown`."""

    kinds = (Detect,)

    def __init__(self, known=None, unknown=(), only=None):
        self.id = "fake detector"
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


class Broken(Expert):
    """Cannot answer."""

    id = "broken"
    kinds = (Embed, Measure)

    def __call__(self, queries):
        return [Failure("out of order")] * len(queries)


class Opposite(Expert):
    """Vectors that point one way for one image, and the other way for all others."""

    id = "opposite"
    kinds = (Embed,)

    def __init__(self, image):
        self.size = image.size
        self.image = image

    def __call__(self, queries):
        return [
            Embeddings(
                np.full((len(query.regions), 3), 1.0 if query.image == self.image else -1.0, np.float32),
                np.ones(len(query.regions), np.int64),
            )
            for query in queries
        ]


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


def values(score):
    return {name: part.value for name, part in score.parts.items()}


def test_a_copy_is_fully_consistent():
    score = run(ContentConsistency(), sample(PHOTO))
    assert score.value == pytest.approx(1.0, abs=1e-6)
    assert values(score) == pytest.approx(
        {"objects": 1.0, "background": 1.0, "objects_l1": 1.0, "background_l1": 1.0}, abs=1e-6
    )
    assert score.metric == "edival-cc@3/fixed"


def test_where_no_object_is_listed_the_released_code_compares_no_background():
    score = run(ContentConsistency("official"), sample(spoiled(CUP), Pools()))
    assert score.status == score.parts["background"].status == score.parts["background_l1"].status == "not_applicable"
    assert "no object is listed" in score.parts["background"].reason
    assert run(ContentConsistency(), sample(spoiled(CUP), Pools())).value < 1


def test_parts_of_objects_are_in_the_detectors_order():
    class Mixed(Expert):
        id, kinds = "a detector", (Detect,)

        def __call__(self, queries):
            boxes = [
                replace(CUP, score=0.5, label="cup"),
                replace(SPOON, score=0.6, label="spoon"),
                replace(CUP, score=0.9, label="cup"),
            ]
            return [Detections(tuple(box for box in boxes if box.label in query.phrases)) for query in queries]

    score = run(ObjectConsistency("official"), sample(PHOTO), detector=Mixed())
    assert list(score.parts) == ["cup", "spoon", "cup (2)"]
    assert [box.score for box in score.evidence[0].boxes] == [0.5, 0.6, 0.9]
    by_score = run(ObjectConsistency(), sample(PHOTO), detector=Mixed())
    assert [box.score for box in by_score.evidence[0].boxes] == [0.9, 0.5, 0.6]


def test_a_spoiled_object_costs_objects_only():
    score = run(ContentConsistency(), sample(spoiled(CUP)))
    objects = score.parts["objects"]
    assert objects.parts["cup"].value < 0.6
    assert objects.parts["spoon"].value == pytest.approx(1.0, abs=1e-6)
    assert objects.reason == "least alike: cup"
    assert objects.value == pytest.approx((objects.parts["cup"].value + 1) / 2)
    assert score.parts["background"].value > 0.95
    assert score.parts["background_l1"].value == 1.0


def test_a_spoiled_background_costs_background_only():
    score = run(ContentConsistency(), sample(spoiled(Box.from_corners(0, 288, 191, 447, SIZE))))
    assert score.parts["objects"].value == pytest.approx(1.0, abs=1e-6)
    assert score.parts["background"].value < 0.9
    assert score.parts["background_l1"].value < 0.95


def test_the_value_is_the_mean_of_both_halves():
    score = run(ContentConsistency(), sample(np.clip(PHOTO * [1.1, 1.0, 0.9], 0, 255).astype(np.uint8)))
    assert score.value == pytest.approx((score.parts["objects"].value + score.parts["background"].value) / 2)
    assert 0.5 < score.value < 0.95


@pytest.mark.parametrize("similarity", ["features", "l1"])
@pytest.mark.parametrize("protocol", ["fixed", "official"])
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
    second = EditSample(
        "2", "Remove lamp", (drifted,), drifted, history=(first,), pools=Pools(all=("cup",), unchanged=("cup",))
    )
    assert run(ObjectConsistency(), second).value < 0.6


def test_objects_are_looked_for_where_they_are_in_the_base():
    edited = Image.of(spoiled(SPOON))
    detector = Finds(only={edited: {"cup": (LAMP,)}})
    score = run(ObjectConsistency(), sample(edited), detector)
    assert score.parts["cup"].value == pytest.approx(1.0, abs=1e-6)
    assert score.parts["spoon"].value < 0.6
    assert {query.image for query in detector.queries} == {Image.of(PHOTO)}


def test_the_background_leaves_out_boxes_of_both_pictures():
    edited = Image.of(spoiled(CUP))
    before, after = {"cup": (CUP,)}, {"cup": (LAMP,)}
    pools = Pools(all=("cup",))
    nothing_known = run(BackgroundConsistency(), sample(edited, pools), Finds(known={}))
    base_known = run(BackgroundConsistency(), sample(edited, pools), Finds(known=before, only={edited: {}}))
    edited_known = run(BackgroundConsistency(), sample(edited, pools), Finds(known={}, only={edited: before}))
    both = run(BackgroundConsistency(similarity="l1"), sample(edited, pools), Finds(known=before, only={edited: after}))
    assert nothing_known.value < 0.9
    assert base_known.value == edited_known.value > 0.95
    covered = 224 * 192 + 64 * 128  # corners included
    assert both.evidence[-1].numbers["share"] == pytest.approx(1 - covered / 448**2)


# -- halves that are missing -------------------------------------------------------------------------------------------


def test_without_unchanged_objects_the_background_counts_alone():
    score = run(ContentConsistency(), sample(spoiled(CUP), Pools(all=("lamp",))))
    assert score.parts["objects"].status == "not_applicable"
    assert score.value == score.parts["background"].value < 0.9


def test_after_a_background_change_objects_count_alone():
    darker = (PHOTO * 0.8).astype(np.uint8)
    score = run(ContentConsistency(), sample(darker, Pools(("cup",), (), ("cup",), background=False)))
    assert score.parts["background"].status == "not_applicable"
    assert 0 < score.value == score.parts["objects"].value < 0.9


@pytest.mark.parametrize("protocol", ["fixed", "official"])
def test_with_nothing_to_compare_it_is_not_applicable(protocol):
    score = run(ContentConsistency(protocol), sample(PHOTO, Pools(("cup",), background=False)))
    assert score.status == "not_applicable"
    assert score.reason == "neither an unchanged object nor an unchanged background to compare"
    assert score.parts["objects"].status == score.parts["background"].status == "not_applicable"


def test_without_pools_it_abstains_and_says_what_to_give():
    nothing = EditSample("s", "Make it nice", (Image.of(PHOTO),), Image.of(PHOTO))
    score = run(ContentConsistency(), nothing)
    assert score.status == "abstained"
    assert "give `pools`" in score.reason


def test_pools_follow_from_boxes_and_instruction():
    derived = EditSample("s", "Remove lamp", (Image.of(PHOTO),), Image.of(spoiled(LAMP)), boxes=KNOWN)
    score = run(ContentConsistency(), derived)
    assert list(score.parts["objects"].parts) == ["cup", "spoon"]
    assert score.value > 0.995


def test_an_abstaining_half_is_never_left_out():
    score = run(ContentConsistency(), sample(PHOTO), Finds(known={"cup": (CUP,)}))
    assert score.status == "abstained"
    assert score.reason == "objects: not found in the base picture: spoon"
    assert score.parts["background"].value == pytest.approx(1.0, abs=1e-6)


def test_a_failing_expert_fails_the_whole():
    score = run(ContentConsistency(), sample(PHOTO), features=Broken())
    assert score.status == "failed"
    assert "out of order" in score.reason
    assert score.parts["objects_l1"].value == 1.0


def test_what_stands_beside_the_value_does_not_take_it_away():
    score = run(ContentConsistency(), sample(PHOTO), pixels=Broken())
    assert score.value == pytest.approx(1.0, abs=1e-6)
    assert score.parts["objects_l1"].status == score.parts["background_l1"].status == "failed"


def test_l1_needs_no_features():
    score = run(ContentConsistency(similarity="l1"), sample(spoiled(CUP)), features=Broken())
    x0, y0, x1, y1 = CUP.corners(SIZE)
    crops = [pixels[y0:y1, x0:x1].astype(float) for pixels in (PHOTO, spoiled(CUP))]
    by_hand = 1 - np.abs(crops[0] - crops[1]).mean() / 255
    assert score.parts["objects"].parts["cup"].value == pytest.approx(by_hand)
    assert score.value == pytest.approx((by_hand + 1) / 2 / 2 + 0.5)
    assert set(score.parts) == {"objects", "background"}
    assert score.metric == "edival-cc@3/fixed/l1"


def test_opposite_features_are_worth_nothing_not_less():
    base = Image.of(PHOTO)
    pools = Pools(all=("cup",), unchanged=("cup",), background=True)
    score = run(ContentConsistency(), sample(spoiled(CUP), pools), features=Opposite(base))
    assert score.parts["background"].value == -1.0
    assert score.value == 0.0


# -- where the protocols differ ----------------------------------------------------------------------------------------


def test_fixed_asks_name_by_name_and_official_all_at_once():
    by_protocol = {}
    for protocol in ("fixed", "official"):
        detector = Finds()
        run(ContentConsistency(protocol), sample(spoiled(CUP)), detector)
        by_protocol[protocol] = {query.phrases for query in detector.queries}
    assert by_protocol["fixed"] == {("cup",), ("spoon",), ("lamp",)}
    assert by_protocol["official"] == {("cup", "spoon"), ("cup", "spoon", "lamp")}


def test_fixed_takes_the_mean_over_objects_and_official_over_boxes():
    twice = Finds(known={**KNOWN, "cup": (CUP, LAMP)})
    edited = sample(spoiled(SPOON))
    fixed = run(ObjectConsistency(), edited, twice)
    spoon = fixed.parts["spoon"].value
    assert list(fixed.parts) == ["cup", "cup (2)", "spoon"]
    assert fixed.value == pytest.approx((1 + spoon) / 2)
    official = run(ObjectConsistency("official"), edited, twice)
    assert official.value == pytest.approx((2 + official.parts["spoon"].value) / 3)


def test_boxes_at_the_threshold_are_not_found():
    at = Box(CUP.cx, CUP.cy, CUP.w, CUP.h, 0.35)
    score = run(ObjectConsistency(), sample(PHOTO), Finds(known={"cup": (at,), "spoon": (SPOON,)}))
    assert score.reason == "not found in the base picture: cup"


def test_listed_objects_that_are_not_found():
    some, none = Finds(known={"cup": (CUP,)}), Finds(known={})
    assert run(ObjectConsistency(), sample(PHOTO), some).status == "abstained"
    assert run(ObjectConsistency("official"), sample(PHOTO), some).value == pytest.approx(1.0, abs=1e-6)
    assert run(ObjectConsistency(), sample(PHOTO), none).status == "abstained"
    assert run(ObjectConsistency("official"), sample(PHOTO), none).value == 0.0
    assert run(ObjectConsistency("official", "l1"), sample(PHOTO), none).value == 0.0


def test_a_box_outside_of_the_picture_is_not_found():
    outside = Finds(known={"cup": (Box(1.5, 0.5, 0.2, 0.2),), "spoon": (SPOON,)})
    assert run(ObjectConsistency(), sample(PHOTO), outside).reason == "not found in the base picture: cup"


def test_boxes_over_everything_leave_no_background():
    everything = Finds(known={name: (Box(0.5, 0.5, 1, 1),) for name in KNOWN})
    assert run(BackgroundConsistency(), sample(PHOTO), everything).status == "abstained"
    assert run(BackgroundConsistency("official"), sample(PHOTO), everything).value == 0.0
    for protocol in ("fixed", "official"):
        assert run(BackgroundConsistency(protocol, "l1"), sample(PHOTO), everything).status == "abstained"


@pytest.mark.parametrize(("protocol", "similarity"), [("fixed", "features"), ("fixed", "l1"), ("official", "l1")])
def test_what_an_edit_covers_entirely_is_its_own_doing(protocol, similarity):
    whole = {name: (Box(0.5, 0.5, 1, 1),) for name in KNOWN}
    darker = sample((PHOTO * 0.5).astype(np.uint8))
    base_too = run(BackgroundConsistency(protocol, similarity), darker, Finds(known=whole))
    size = darker.source.size if protocol == "fixed" else (512, 512)
    edited_only = Finds(only={darker.edited.resized(*size): whole})
    by_edit = run(BackgroundConsistency(protocol, similarity), darker, edited_only)
    assert (base_too.status, base_too.cause) == ("abstained", "")
    assert (by_edit.status, by_edit.cause) == ("abstained", "edit")


@pytest.mark.parametrize(("protocol", "size"), [("fixed", SIZE), ("official", (512, 512))])
def test_another_size_is_brought_to_one_and_said(protocol, size):
    edited = Image.of(PHOTO).resized(900, 600)
    detector = Finds()
    score = run(ContentConsistency(protocol), sample(edited), detector)
    assert score.value > 0.97
    assert {query.image.size for query in detector.queries} == {size}
    texts = {item.what: item.text for item in score.parts["objects"].evidence if item.text}
    assert texts["current picture resized"] == f"from 900 x 600 to {size[0]} x {size[1]}"
    assert ("base picture resized" in texts) == (protocol == "official")


# -- detectors that know only what was there at first ------------------------------------------------------------------


def test_a_new_name_of_a_known_object_may_be_unknown_to_the_detector():
    pools = Pools(all=("cup", "blue cup", "spoon"), unchanged=("spoon",))
    recoloured = sample(spoiled(CUP), pools, "x", task=Task("color_alter", object="cup", value="blue"))
    score = run(BackgroundConsistency(), recoloured, Finds(unknown=("blue cup",)))
    assert score.value > 0.95
    knows_it = run(BackgroundConsistency(), recoloured, Finds(known={**KNOWN, "blue cup": (LAMP,)}))
    assert [box.label for box in knows_it.evidence[1].boxes] == ["cup", "blue cup", "spoon"]


def test_a_new_object_may_not():
    pools = Pools(all=("cup", "spoon", "hat"), unchanged=("cup", "spoon"))
    added = sample(PHOTO, pools, "x", task=Task("subject_add", new="hat"))
    score = run(ContentConsistency(), added, Finds(unknown=("hat",)))
    assert score.status == "abstained"
    assert score.reason == "background: no box of hat is known"


@pytest.mark.parametrize("metric", [ContentConsistency, ObjectConsistency, BackgroundConsistency])
def test_an_unknown_option_is_refused_with_those_there_are(metric):
    with pytest.raises(ValueError, match="there are fixed, official"):
        metric(protocol="paper")
    with pytest.raises(ValueError, match="there are features, l1"):
        metric(similarity="ssim")


class Reads(Expert):
    """Reads the same lines in every image."""

    id = "reads"
    kinds = (ReadText,)

    def __init__(self, **lines):
        self.lines = tuple(TextLine(text, box) for text, box in lines.items())

    def __call__(self, queries):
        return [RecognizedText(self.lines) for _ in queries]


WRITTEN = Box.from_corners(0, 288, 191, 447, SIZE)


@pytest.mark.parametrize(("read", "costs"), [("OPEM", False), ("SALE", True), ("", True)])
def test_an_added_text_is_left_out_of_the_background_where_the_reader_reads_it(read, costs):
    pools = Pools(all=("cup", "spoon", "text"), unchanged=("cup", "spoon"))
    edit = sample(spoiled(WRITTEN), pools, "Add text 'OPEN' on the image")
    score = run(
        BackgroundConsistency(), edit, Finds(unknown=("text",)), reader=Reads(**({read: WRITTEN} if read else {}))
    )
    assert (score.value < 0.9) is costs


def test_official_asks_the_detector_for_an_added_text():
    pools = Pools(all=("cup", "text"), unchanged=("cup",))
    detector = Finds()
    run(BackgroundConsistency("official"), sample(PHOTO, pools, "Add text 'OPEN' on the image"), detector)
    assert {query.phrases for query in detector.queries} == {("cup", "text")}


SOURCE, EDITED = Image.from_digest("a" * 64, (512, 512)), Image.from_digest("b" * 64, (512, 512))


def at(score):
    return ((0.5, 0.5, 0.2, 0.2, score),)


def judged(scene, before, after, unchanged):
    sample = EditSample("s", "Remove dog", (SOURCE,), EDITED, pools=Pools(("dog", *unchanged), unchanged, unchanged))
    experts = scene(
        source={name: at(score) for name, score in before.items()},
        edited={name: at(score) for name, score in after.items()},
    )
    with Engine() as engine:
        return engine.submit(ObjectsPreserved()(sample), {"detector": experts}, sample).result(20)


@pytest.mark.parametrize(
    ("after", "value"),
    [
        ({"cup": 0.9, "hat": 0.9}, 1.0),
        ({"cup": 0.9}, 1.0),
        ({"cup": 0.21, "hat": 0.19}, 1.0),  # a trace is enough
        ({"cup": 0.2, "hat": 0.2}, 0.0),
        ({}, 0.0),
    ],
)
def test_more_than_half_lost_is_too_much(scene, after, value):
    score = judged(scene, {"cup": 0.9, "hat": 0.4}, after, ("cup", "hat"))
    assert score.value == value
    assert ("no trace is left of" in score.reason) == (len(after) < 2 or after["hat"] <= 0.2)


def test_what_the_base_picture_does_not_show_does_not_count(scene):
    assert judged(scene, {"cup": 0.9, "hat": 0.35}, {"cup": 0.9}, ("cup", "hat")).value == 1.0
    assert judged(scene, {"cup": 0.9, "hat": 0.35}, {"hat": 0.9}, ("cup", "hat")).value == 0.0


def test_without_objects_to_stay_it_does_not_apply(scene):
    assert judged(scene, {}, {}, ()).status == "not_applicable"
    assert judged(scene, {"cup": 0.3}, {}, ("cup",)).status == "not_applicable"


def test_a_detector_that_cannot_know_leaves_it_open(scene):
    sample = EditSample("s", "Remove dog", (SOURCE,), EDITED, pools=Pools(("dog", "cup"), ("cup",), ("cup",)))
    with Engine() as engine:
        program = ObjectsPreserved()(sample)
        assert engine.submit(program, {"detector": scene(unknown=("cup",))}, sample).result(20).status == "abstained"
