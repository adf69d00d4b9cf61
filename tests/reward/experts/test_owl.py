"""Owl says what transformers says of one sample at a time, and encodes every picture and every phrase once."""

import gc
import itertools
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from editcritic.reward import Asks, Box, Detect, Detections, Engine, ExpertDown, Failure, Image, Score, ask_each
from editcritic.reward.experts import owl
from editcritic.reward.experts.owl import Owl
from editcritic.reward.models.detecting import clip_tokens

from . import tiny_detectors as tiny

SCENES = [tiny.scene(n, size) for n, size in enumerate([(60, 40), (40, 60), (64, 64), (120, 50)])]
PHRASES = [("cat",), ("a red cup",), ("dog", "the blue teapot on the table", "hat"), ("round table", "cat")]
MIXED = [Detect(image, phrases) for image, phrases in itertools.product(SCENES, PHRASES)]
DISTINCT = len(set(itertools.chain(*PHRASES)))


@pytest.fixture(scope="module", params=["OWL-ViT", "OWLv2"])
def folder(request, tmp_path_factory):
    return tiny.owl(tmp_path_factory.mktemp("detector"), v2=request.param == "OWLv2")


@pytest.fixture
def expert(folder):
    return Owl(str(folder), device="cpu", floor=0.0)


@pytest.fixture(scope="module")
def library(folder):
    """The model's own answers, one sample at a time."""
    import torch
    import transformers

    model = transformers.AutoModelForZeroShotObjectDetection.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)

    def answer(query: Detect) -> Detections:
        inputs = processor(images=query.image.pil(), text=[list(query.phrases)], return_tensors="pt")
        with torch.no_grad():
            outputs = model(**inputs)
        width, height = query.image.size
        (found,) = processor.post_process_grounded_object_detection(
            outputs, threshold=0.0, target_sizes=[(height, width)], text_labels=[list(query.phrases)]
        )
        made = zip(found["boxes"].tolist(), found["scores"].tolist(), found["text_labels"], strict=True)
        return Detections(
            tuple(
                Box.from_corners(x0, y0, x1, y1, query.image.size, score=score, label=label)
                for (x0, y0, x1, y1), score, label in made
            )
        )

    return answer


@pytest.fixture(scope="module")
def expected(library):
    return [library(query) for query in MIXED]


def apart(answers, expected):
    return max(tiny.furthest(one, other) for one, other in zip(answers, expected, strict=True))


def passes(expert) -> tuple[list[int], list[int]]:
    """How many pictures, and how many phrases, each pass through the encoders has had, from now on."""
    pictures: list[int] = []
    phrases: list[int] = []
    with expert.checkpoint.use() as loaded:
        base = loaded.model.base_model
        base.vision_model.encoder.register_forward_hook(lambda module, args, out: pictures.append(len(out[0])))
        base.text_model.encoder.register_forward_hook(lambda module, args, out: phrases.append(len(out[0])))
    return pictures, phrases


# -- what it says ------------------------------------------------------------------------------------------------------


def test_pictures_and_phrases_make_a_difference(expected):
    table = np.array([[box.score for box in one.boxes] for one in expected]).reshape(len(SCENES), len(PHRASES), -1)
    assert np.ptp(table, 0).max() > 0.1
    assert np.ptp(table, 1).max() > 0.1
    joint = [answer for query, answer in zip(MIXED, expected, strict=True) if query.phrases == PHRASES[2]]
    assert {box.label for answer in joint for box in answer.boxes} == set(PHRASES[2])


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_a_mixed_batch_says_what_the_library_says_of_each_sample(expert, expected, batch):
    expert.batch = batch
    assert apart(expert(MIXED), expected) < 1e-4


def test_a_swapped_width_is_noticed(expert, expected):
    answers = [
        Detections(tuple(replace(box, w=box.h, h=box.w) for box in answer.boxes))
        for answer in tiny.found(expert, *MIXED)
    ]
    assert apart(answers, expected) > 0.01


def test_taking_the_other_models_square_is_noticed(expert, expected, monkeypatch):
    other = {"owlvit": "owlv2", "owlv2": "owlvit"}
    monkeypatch.setattr(Owl, "_kind", lambda self, loaded: other[loaded.model.config.model_type])
    assert apart(expert(MIXED), expected) > 0.01


def test_tokens_shifted_by_one_are_noticed(expert, expected, monkeypatch):
    def shifted(*args):
        tokens = clip_tokens(*args)
        tokens["input_ids"] = tokens["input_ids"].roll(1, 1)
        return tokens

    monkeypatch.setattr(owl, "clip_tokens", shifted)
    assert apart(expert(MIXED), expected) > 0.01


def test_the_order_of_queries_changes_nothing(expert, expected):
    order = np.random.default_rng(0).permutation(len(MIXED))
    answers = expert([MIXED[n] for n in order])
    assert apart(answers, [expected[n] for n in order]) < 1e-4


def test_boxes_come_best_first_down_to_the_floor(folder, expected):
    every = sorted((box.score for box in expected[2].boxes), reverse=True)
    floor = (every[9] + every[10]) / 2
    expert = Owl(str(folder), device="cpu", floor=floor)
    (answer,) = tiny.found(expert, MIXED[2])
    assert [box.score for box in answer.boxes] == pytest.approx(every[:10], abs=1e-4)
    assert answer.floor == floor
    assert expert.id != Owl(str(folder), device="cpu", floor=0.0).id


def test_marks_of_the_tokenizer_in_a_phrase_are_words_like_others(expert):
    mark, nothing = tiny.found(expert, Detect(SCENES[0], ("<|endoftext|>",)), Detect(SCENES[0], ("<>",)))
    assert tiny.furthest(mark, nothing, labels=False) > 0.01


def test_it_runs_in_bfloat16(folder, expected):
    answers = tiny.found(Owl(str(folder), device="cpu", dtype="bfloat16", floor=0.0), *MIXED[:4])
    scores = [answer.strongest() for answer in answers]
    assert scores == pytest.approx([answer.strongest() for answer in expected[:4]], abs=0.1)


# -- how much work it takes --------------------------------------------------------------------------------------------


def test_every_picture_and_every_phrase_is_encoded_once(expert):
    pictures, phrases = passes(expert)
    expert(MIXED[:8])
    expert([*MIXED[4:], Detect(Image.of(SCENES[0].pixels), ("small dog",))])
    assert pictures == [2, 2]
    assert phrases == [DISTINCT, 1]
    assert expert.meter() == {"image_passes": len(SCENES), "text_passes": DISTINCT + 1}
    expert.unload()
    pictures, phrases = passes(expert)
    expert(MIXED[:4])
    assert (pictures, phrases) == ([1], [DISTINCT])
    assert expert.meter() == {"image_passes": len(SCENES) + 1, "text_passes": 2 * DISTINCT + 1}


def test_what_does_not_fit_is_computed_again(folder, expected):
    expert = Owl(str(folder), device="cpu", floor=0.0, limit_bytes=1)
    assert apart(expert(MIXED[:8]) + expert(MIXED[:8]), expected[:8] * 2) < 1e-4
    assert expert.meter() == {"image_passes": 4, "text_passes": 2 * DISTINCT}
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


def test_answers_eight_queries_about_two_pictures_in_an_engine(expert, expected):
    answers: list[Any] = []

    def program() -> Asks[Score]:
        answers.extend((yield from ask_each(MIXED[:8])))
        return Score.of(1.0)

    with Engine() as engine:
        assert engine.submit(program(), {"detector": expert}).result(timeout=60).value == 1
    assert apart(answers, expected[:8]) < 1e-4
    assert expert.meter() == {"image_passes": 2, "text_passes": DISTINCT}


# -- what it cannot do -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phrases", "reason"),
    [
        ((), "no phrase to look for: give one or more"),
        (("cat", " \n"), "is empty: say what to look for"),
        (("cat " * 15,), "takes 17 tokens, the model reads 16: use fewer words"),
    ],
)
def test_phrases_that_cannot_be_asked_fail_by_themselves(expert, expected, phrases, reason):
    first, bad, second = expert([MIXED[0], Detect(SCENES[1], phrases), MIXED[1]])
    assert apart([first, second], expected[:2]) < 1e-4
    assert isinstance(bad, Failure)
    assert reason in bad.reason


def test_the_longest_phrase_the_model_reads_is_answered(expert, library):
    query = Detect(SCENES[0], ("cat " * 14,))
    assert apart(expert([query]), [library(query)]) < 1e-4


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (1, 2), (3, 5), (1, 90)])
def test_odd_pictures_are_answered(expert, library, size):
    query = Detect(tiny.scene(0, size), ("cat",))
    assert apart(expert([query]), [library(query)]) < 1e-3 * max(size)


def test_output_that_is_no_number_is_a_failure(expert):
    import torch

    with expert.checkpoint.use() as loaded:
        torch.nn.init.constant_(loaded.model.box_head.dense2.bias, float("nan"))
    (answer,) = expert([MIXED[0]])
    assert isinstance(answer, Failure)
    assert "NaN" in answer.reason


def test_another_kind_of_model_is_refused(tmp_path):
    expert = Owl(str(tiny.grounding_dino(tmp_path)), device="cpu")
    with pytest.raises(ExpertDown, match="is a grounding-dino: give a checkpoint of owlvit or owlv2"):
        expert.load()


@pytest.mark.parametrize("options", [{"floor": -0.1}, {"floor": 2}, {"batch": 0}])
def test_refuses_options_that_mean_nothing(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Owl(**options)
