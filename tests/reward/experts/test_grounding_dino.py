"""GroundingDino says what transformers says of one sample at a time, with one backbone pass a picture."""

import gc
import itertools
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from editcritic.reward import Asks, Box, Detect, Detections, Engine, ExpertDown, Failure, Image, Score
from editcritic.reward.asking import Ask
from editcritic.reward.experts import grounding_dino
from editcritic.reward.experts.grounding_dino import GroundingDino

from . import tiny_detectors as tiny

# 60 x 40 and 90 x 60 come out equally large, the others do not.
SCENES = [tiny.scene(n, size) for n, size in enumerate([(60, 40), (90, 60), (60, 40), (40, 60), (64, 64), (120, 50)])]
PHRASES = [("cat",), ("a red cup",), ("dog", "the blue teapot on the table", "hat"), ("round table", "cat")]
MIXED = [Detect(image, phrases) for image, phrases in itertools.product(SCENES, PHRASES)]


@pytest.fixture(scope="module", params=["GroundingDINO", "MM-GroundingDINO"])
def folder(request, tmp_path_factory):
    return tiny.grounding_dino(tmp_path_factory.mktemp("detector"), mm=request.param.startswith("MM"))


@pytest.fixture
def expert(folder):
    return GroundingDino(str(folder), device="cpu", floor=0.0, together=64)


@pytest.fixture(scope="module")
def library(folder):
    """The model's own answers, one sample at a time, with labels by the library's own reading of the caption."""
    import torch
    import transformers
    from transformers.models.grounding_dino.modeling_grounding_dino import build_label_maps

    model = transformers.AutoModelForZeroShotObjectDetection.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)

    def answer(query: Detect) -> Detections:
        inputs = processor(images=query.image.pil(), text=[list(query.phrases)], return_tensors="pt")
        with torch.no_grad():
            outputs = model(**inputs)
        width, height = query.image.size
        (found,) = processor.post_process_grounded_object_detection(
            outputs, threshold=0.0, target_sizes=[(height, width)]
        )
        (maps,) = build_label_maps(outputs.logits, inputs["input_ids"])
        fits = torch.stack([outputs.logits[0][:, tokens.bool()].max(1).values for tokens in maps], 1).argmax(1)
        made = zip(found["boxes"].tolist(), found["scores"].tolist(), fits.tolist(), strict=True)
        return Detections(
            tuple(
                Box.from_corners(x0, y0, x1, y1, query.image.size, score=score, label=query.phrases[fit])
                for (x0, y0, x1, y1), score, fit in made
            )
        )

    return answer


@pytest.fixture(scope="module")
def expected(library):
    return [library(query) for query in MIXED]


def apart(answers, expected) -> float:
    return max(tiny.furthest(one, other) for one, other in zip(answers, expected, strict=True))


def backbone_passes(expert) -> list[int]:
    """How many pictures each pass through the backbone has had, from now on."""
    seen: list[int] = []
    with expert.checkpoint.use() as loaded:
        inner = loaded.model.model.backbone.conv_encoder.model
        inner.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
    return seen


# -- what it says ------------------------------------------------------------------------------------------------------


def test_pictures_and_phrases_make_a_difference(expected):
    table = np.array([[box.score for box in sorted(one.boxes, key=lambda b: -b.score)] for one in expected])
    table = table.reshape(len(SCENES), len(PHRASES), -1)
    assert np.ptp(table, 0).max() > 0.1
    assert np.ptp(table, 1).max() > 0.1
    same_size = [tiny.furthest(expected[n], expected[8 + n], labels=False) for n in range(4)]
    assert min(same_size) > 0.1
    joint = [one for query, one in zip(MIXED, expected, strict=True) if query.phrases == PHRASES[3]]
    assert {box.label for one in joint for box in one.boxes} == set(PHRASES[3])


@pytest.mark.parametrize("batch", [1, 5, 64])
def test_a_mixed_batch_says_what_the_library_says_of_each_sample(expert, expected, batch):
    expert.batch = expert.together = batch
    assert apart(expert(MIXED), expected) < 1e-4


@pytest.mark.parametrize(("together", "passes"), [(None, [1] * 6), (6, [6]), (4, [4, 2])])
def test_on_a_cpu_pairs_are_put_through_one_by_one_unless_told_otherwise(expert, together, passes):
    expert.together, seen = together, []
    with expert.checkpoint.use() as loaded:
        loaded.model.model.encoder.register_forward_hook(
            lambda module, inputs, given, output: seen.append(len(given["vision_features"])), with_kwargs=True
        )
    expert([Detect(MIXED[0].image, (f"red {name}",)) for name in ("cat", "dog", "cup", "hat", "table", "teapot")])
    assert seen == passes


def test_a_swapped_width_is_noticed(expert, expected):
    answers = [Detections(tuple(replace(box, w=box.h, h=box.w) for box in answer.boxes)) for answer in expert(MIXED)]
    assert apart(answers, expected) > 0.01


def test_tokens_shifted_by_one_are_noticed(expert, expected, monkeypatch):
    read: Any = grounding_dino._caption

    def shifted(loaded, phrases):
        caption = read(loaded, phrases)
        return replace(caption, ids=[*caption.ids[-1:], *caption.ids[:-1]])

    monkeypatch.setattr(grounding_dino, "_caption", shifted)
    assert apart(expert(MIXED), expected) > 0.01


def test_features_of_another_picture_are_noticed(expert, expected, monkeypatch):
    make = GroundingDino._features
    monkeypatch.setattr(GroundingDino, "_features", lambda *args: make(*args)[::-1])
    queries = [query for query in MIXED if query.image.size == (60, 40)]
    wanted = [answer for query, answer in zip(MIXED, expected, strict=True) if query in queries]
    assert apart(expert(queries), wanted) > 0.01


def test_padding_read_as_words_is_noticed(expert, expected, monkeypatch):
    read: Any = grounding_dino._caption

    def padded(loaded, phrases):
        caption = read(loaded, phrases)
        return replace(caption, ids=caption.ids + [0] * 4)

    monkeypatch.setattr(grounding_dino, "_caption", padded)
    assert apart(expert(MIXED), expected) > 0.01


def test_the_order_of_queries_changes_nothing(expert, expected):
    order = np.random.default_rng(0).permutation(len(MIXED))
    answers = expert([MIXED[n] for n in order])
    assert apart(answers, [expected[n] for n in order]) < 1e-4


def test_boxes_come_best_first_down_to_the_floor(folder, expected):
    every = sorted((box.score for box in expected[2].boxes), reverse=True)
    floor = (every[9] + every[10]) / 2
    expert = GroundingDino(str(folder), device="cpu", floor=floor)
    (answer,) = tiny.found(expert, MIXED[2])
    assert [box.score for box in answer.boxes] == pytest.approx(every[:10], abs=1e-4)
    assert answer.floor == floor
    assert expert.id != GroundingDino(str(folder), device="cpu", floor=0.0).id


def test_labels_are_the_phrases_as_they_were_asked(expert):
    asked = {"round table": "  Round. TABLE.", "cat": "CAT\n..."}
    for image in SCENES:
        neat, untidy = tiny.found(expert, Detect(image, tuple(asked)), Detect(image, tuple(asked.values())))
        labelled = Detections(tuple(box.labelled(asked[box.label]) for box in neat.boxes))
        assert tiny.furthest(labelled, untidy) < 1e-4


def test_it_runs_in_bfloat16(folder, expected):
    expert = GroundingDino(str(folder), device="cpu", dtype="bfloat16", floor=0.0, together=4)
    answers = tiny.found(expert, *MIXED[:4])
    scores = [answer.strongest() for answer in answers]
    assert scores == pytest.approx([answer.strongest() for answer in expected[:4]], abs=0.1)


# -- how much work it takes --------------------------------------------------------------------------------------------


def test_a_picture_takes_one_backbone_pass_however_much_is_asked_about_it(expert):
    passes = backbone_passes(expert)
    expert([Detect(SCENES[0], phrases) for phrases in PHRASES])
    expert([Detect(SCENES[0], ("big cat",)), Detect(Image.of(SCENES[0].pixels), ("small dog",))])
    assert passes == [1]
    assert expert.meter() == {"image_passes": 1, "joint_passes": 6}
    expert.unload()
    passes = backbone_passes(expert)
    expert([Detect(SCENES[0], ("cat",))] * 2)
    assert passes == [1]
    assert expert.meter()["image_passes"] == 2


def test_pictures_share_a_backbone_pass_when_they_come_out_equally_large(expert):
    expert.batch = 64
    passes = backbone_passes(expert)
    expert(MIXED)
    assert sorted(passes) == [1, 1, 1, 3]


def test_what_does_not_fit_is_computed_again(folder, expected):
    expert = GroundingDino(str(folder), device="cpu", floor=0.0, limit_bytes=1)
    assert apart(expert(MIXED[:8]) + expert(MIXED[:8]), expected[:8] * 2) < 1e-4
    assert expert.meter()["image_passes"] == 4
    assert expert.bytes["remembered"] == 0


def test_weights_and_features_are_given_back(expert):
    assert expert.bytes == {"remembered": 0}
    expert(MIXED[:4])
    with expert.checkpoint.use() as loaded:
        weights = sum(weight.nbytes for weight in loaded.model.parameters())
        alive = weakref.ref(loaded.model)
    del loaded
    assert expert.bytes["cpu"] >= weights
    assert expert.bytes["remembered"] > 0
    expert.unload()
    gc.collect()
    assert alive() is None
    assert expert.bytes == {"remembered": 0}


def asked_in_an_engine(expert, queries):
    """The outcomes, failures among them."""
    outcomes: list[Any] = []

    def program() -> Asks[Score]:
        outcomes.extend((yield Ask(tuple(queries))))
        return Score.of(1.0)

    with Engine() as engine:
        engine.submit(program(), {"detector": expert}).result(timeout=60)
    return outcomes


def test_answers_eight_queries_about_two_pictures_in_an_engine(expert, expected):
    assert apart(asked_in_an_engine(expert, MIXED[:8]), expected[:8]) < 1e-4
    assert expert.meter() == {"image_passes": 2, "joint_passes": 8}


# -- what it cannot do -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phrases", "reason"),
    [
        ((), "no phrase to look for: give one or more"),
        (("cat", " . "), "phrase ' . ' holds no word that the model knows"),
        (("\u732b",), "holds no word that the model knows"),
        (("cat " * 300,), "take 303 tokens together, the model reads 256: ask for fewer"),
    ],
)
def test_phrases_that_cannot_be_asked_fail_by_themselves(expert, expected, phrases, reason):
    first, bad, second = expert([MIXED[0], Detect(SCENES[1], phrases), MIXED[1]])
    assert apart([first, second], expected[:2]) < 1e-4
    assert isinstance(bad, Failure)
    assert reason in bad.reason


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (1, 2), (3, 5)])
def test_tiny_pictures_are_read_the_right_way_round(expert, size):
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    (answer,) = tiny.found(expert, Detect(Image.of(pixels), ("cat",)))
    larger = Image.of(np.repeat(np.repeat(pixels, 64, 0), 64, 1))
    assert len(answer.boxes) == 30
    if size == (1, 1):  # one colour, whatever its size
        assert tiny.furthest(answer, *tiny.found(expert, Detect(larger, ("cat",)))) < 1e-4


def test_a_picture_too_narrow_for_the_model_fails(expert):
    narrow, fine = expert([Detect(tiny.scene(0, (50, 2)), ("cat",)), MIXED[0]])
    assert isinstance(narrow, Failure)
    assert "so narrow that the model sees 27 places in it, and needs 30" in narrow.reason
    assert isinstance(fine, Detections)


def test_a_picture_too_narrow_for_the_processor_fails_by_itself(expert, expected):
    line = Detect(Image.of(np.zeros((1, 5000, 3), np.uint8)), ("cat",))
    first, failed, second = asked_in_an_engine(expert, [MIXED[0], line, MIXED[1]])
    assert isinstance(failed, Failure)
    assert apart([first, second], expected[:2]) < 1e-4


def test_output_that_is_no_number_is_a_failure(expert):
    import torch

    with expert.checkpoint.use() as loaded:
        torch.nn.init.constant_(loaded.model.bbox_embed[-1].layers[-1].bias, float("nan"))
    (answer,) = expert([MIXED[0]])
    assert isinstance(answer, Failure)
    assert "NaN" in answer.reason


def test_another_kind_of_model_is_refused(tmp_path):
    expert = GroundingDino(str(tiny.owl(tmp_path)), device="cpu")
    with pytest.raises(ExpertDown, match="is a owlvit: give a checkpoint of grounding-dino or mm-grounding-dino"):
        expert.load()


@pytest.mark.parametrize("options", [{"floor": -0.1}, {"floor": 2}, {"batch": 0}])
def test_refuses_options_that_mean_nothing(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        GroundingDino(**options)
