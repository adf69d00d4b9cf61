"""Sam3 says what transformers says of one sample at a time, and encodes every picture and every phrase once."""

import gc
import itertools
import shutil
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from editcritic.reward import Asks, Box, Detect, Detections, Engine, ExpertDown, Failure, Image, Score, ask_each
from editcritic.reward.experts import sam3
from editcritic.reward.experts.sam3 import Sam3
from editcritic.reward.models.detecting import clip_tokens

from . import tiny_detectors as tiny

SCENES = [tiny.scene(n, size) for n, size in enumerate([(60, 40), (40, 60), (64, 64), (120, 50)])]
PHRASES = [("cat",), ("a red cup",), ("dog", "the blue teapot on the table", "hat"), ("round table", "cat")]
MIXED = [Detect(image, phrases) for image, phrases in itertools.product(SCENES, PHRASES)]
DISTINCT = len(set(itertools.chain(*PHRASES)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.sam3(tmp_path_factory.mktemp("detector"))


@pytest.fixture
def expert(folder):
    return Sam3(str(folder), device="cpu", floor=0.0)


@pytest.fixture(scope="module")
def library(folder):
    """The model's own answers, one picture and one phrase at a time, masks and all."""
    import torch
    import transformers

    model = transformers.Sam3Model.from_pretrained(folder).eval()
    processor = transformers.Sam3Processor.from_pretrained(folder)

    def answer(query: Detect) -> Detections:
        width, height = query.image.size
        boxes = []
        for phrase in query.phrases:
            inputs = processor(images=query.image.pil(), text=phrase, return_tensors="pt")
            with torch.no_grad():
                outputs = model(**inputs)
            (found,) = processor.post_process_instance_segmentation(
                outputs, threshold=0.0, target_sizes=[(height, width)]
            )
            for (x0, y0, x1, y1), score in zip(found["boxes"].tolist(), found["scores"].tolist(), strict=True):
                boxes.append(Box.from_corners(x0, y0, x1, y1, query.image.size, score=score, label=phrase))
        return Detections(tuple(boxes))

    return answer


@pytest.fixture(scope="module")
def expected(library):
    return [library(query) for query in MIXED]


def apart(answers, expected):
    return max(tiny.furthest(one, other) for one, other in zip(answers, expected, strict=True))


def passes(expert) -> dict[str, list[int]]:
    """How many pictures, phrases and pairs each pass has had, from now on; and how many masks were drawn."""
    seen: dict[str, list[int]] = {"pictures": [], "phrases": [], "pairs": [], "masks": []}
    with expert.checkpoint.use() as loaded:
        model = loaded.model
        model.vision_encoder.backbone.register_forward_hook(lambda m, args, out: seen["pictures"].append(len(out[0])))
        model.text_encoder.register_forward_hook(lambda m, args, out: seen["phrases"].append(len(out[0])))
        model.detr_decoder.register_forward_hook(lambda m, args, out: seen["pairs"].append(out[0].shape[1]))
        model.mask_decoder.register_forward_hook(lambda m, args, out: seen["masks"].append(1))
    return seen


# -- what it says ------------------------------------------------------------------------------------------------------


def test_pictures_and_phrases_make_a_difference(expected):
    asked = [n for n, query in enumerate(MIXED) if len(query.phrases) == 1]
    table = np.array([[box.score for box in expected[n].boxes] for n in asked]).reshape(len(SCENES), 2, -1)
    assert np.ptp(table, 0).max() > 0.1
    assert np.ptp(table, 1).max() > 0.1
    assert min(tiny.furthest(expected[n], expected[n + 4], labels=False) for n in range(4)) > 0.1


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


def test_padding_read_as_words_is_noticed(expert, expected, monkeypatch):
    def padded(*args):
        tokens = clip_tokens(*args)
        tokens["attention_mask"].fill_(1)
        return tokens

    monkeypatch.setattr(sam3, "clip_tokens", padded)
    assert apart(expert(MIXED), expected) > 0.01


def test_tokens_shifted_by_one_are_noticed(expert, expected, monkeypatch):
    def shifted(*args):
        tokens = clip_tokens(*args)
        tokens["input_ids"] = tokens["input_ids"].roll(1, 1)
        return tokens

    monkeypatch.setattr(sam3, "clip_tokens", shifted)
    assert apart(expert(MIXED), expected) > 0.01


def test_the_order_of_queries_changes_nothing(expert, expected):
    order = np.random.default_rng(0).permutation(len(MIXED))
    answers = expert([MIXED[n] for n in order])
    assert apart(answers, [expected[n] for n in order]) < 1e-4


def test_boxes_come_best_first_down_to_the_floor(folder, expected):
    every = sorted((box.score for box in expected[2].boxes), reverse=True)
    floor = (every[9] + every[10]) / 2
    expert = Sam3(str(folder), device="cpu", floor=floor)
    (answer,) = tiny.found(expert, MIXED[2])
    assert [box.score for box in answer.boxes] == pytest.approx(every[:10], abs=1e-4)
    assert answer.floor == floor
    assert expert.id != Sam3(str(folder), device="cpu", floor=0.0).id


def test_marks_of_the_tokenizer_in_a_phrase_are_words_like_others(expert):
    mark, nothing = tiny.found(expert, Detect(SCENES[0], ("<|endoftext|>",)), Detect(SCENES[0], ("<>",)))
    assert tiny.furthest(mark, nothing, labels=False) > 0.01


def test_it_runs_in_bfloat16(folder, expected):
    answers = tiny.found(Sam3(str(folder), device="cpu", dtype="bfloat16", floor=0.0), *MIXED[:4])
    scores = [answer.strongest() for answer in answers]
    assert scores == pytest.approx([answer.strongest() for answer in expected[:4]], abs=0.1)


# -- how much work it takes --------------------------------------------------------------------------------------------


def test_every_picture_and_every_phrase_is_encoded_once(expert):
    seen = passes(expert)
    expert.batch = 64
    expert(MIXED[:8])
    expert([*MIXED[4:], Detect(Image.of(SCENES[0].pixels), ("small dog",))])
    assert seen == {
        "pictures": [2, 2],
        "phrases": [DISTINCT, 1],
        "pairs": [2 * DISTINCT, 3 * DISTINCT + 1],
        "masks": [],
    }
    assert expert.meter() == {
        "image_passes": len(SCENES),
        "text_passes": DISTINCT + 1,
        "joint_passes": 5 * DISTINCT + 1,
    }
    expert.unload()
    seen = passes(expert)
    expert(MIXED[:4])
    assert (seen["pictures"], seen["phrases"]) == ([1], [DISTINCT])


def test_what_does_not_fit_is_computed_again(folder, expected):
    expert = Sam3(str(folder), device="cpu", floor=0.0, limit_bytes=1)
    assert apart(expert(MIXED[:8]) + expert(MIXED[:8]), expected[:8] * 2) < 1e-4
    assert expert.meter()["image_passes"] == 4
    assert expert.bytes["remembered"] == 0


def test_weights_and_features_are_given_back(expert):
    assert expert.bytes == {"remembered": 0}
    expert(MIXED[:4])
    with expert.checkpoint.use() as loaded:
        weights = sum(weight.nbytes for weight in loaded.model.parameters())
        alive = [weakref.ref(part) for part in (loaded.model, loaded.model.detr_decoder)]
    del loaded
    assert expert.bytes["cpu"] >= weights
    assert expert.bytes["remembered"] > 0
    expert.unload()
    gc.collect()
    assert [part() for part in alive] == [None, None]
    assert expert.bytes == {"remembered": 0}


def test_answers_eight_queries_about_two_pictures_in_an_engine(expert, expected):
    answers: list[Any] = []

    def program() -> Asks[Score]:
        answers.extend((yield from ask_each(MIXED[:8])))
        return Score.of(1.0)

    with Engine() as engine:
        assert engine.submit(program(), {"detector": expert}).result(timeout=60).value == 1
    assert apart(answers, expected[:8]) < 1e-4
    assert expert.meter() == {"image_passes": 2, "text_passes": DISTINCT, "joint_passes": 2 * DISTINCT}


# -- what it cannot do -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phrases", "reason"),
    [
        ((), "no phrase to look for: give one or more"),
        (("cat", " \n"), "is empty: say what to look for"),
        (("cat " * 31,), "takes 33 tokens, the model reads 32: use fewer words"),
    ],
)
def test_phrases_that_cannot_be_asked_fail_by_themselves(expert, expected, phrases, reason):
    first, bad, second = expert([MIXED[0], Detect(SCENES[1], phrases), MIXED[1]])
    assert apart([first, second], expected[:2]) < 1e-4
    assert isinstance(bad, Failure)
    assert reason in bad.reason


def test_the_longest_phrase_the_model_reads_is_answered(expert, library):
    query = Detect(SCENES[0], ("cat " * 30,))
    assert apart(expert([query]), [library(query)]) < 1e-4


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (1, 2), (3, 5), (1, 90)])
def test_odd_pictures_are_answered(expert, library, size):
    query = Detect(tiny.scene(0, size), ("cat",))
    assert apart(expert([query]), [library(query)]) < 1e-3 * max(size)


def test_output_that_is_no_number_is_a_failure(expert):
    import torch

    with expert.checkpoint.use() as loaded:
        torch.nn.init.constant_(loaded.model.detr_decoder.box_head.layer3.bias, float("nan"))
    (answer,) = expert([MIXED[0]])
    assert isinstance(answer, Failure)
    assert "NaN" in answer.reason


def test_another_kind_of_model_is_refused(tmp_path):
    expert = Sam3(str(tiny.owl(tmp_path)), device="cpu")
    with pytest.raises(ExpertDown, match="it is a owlvit, give a checkpoint of SAM 3"):
        expert.load()


def test_a_checkpoint_that_lacks_weights_is_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    weights = load_file(copy / "model.safetensors")
    few = {name: weight for name, weight in weights.items() if "presence" not in name}
    assert len(few) < len(weights)
    save_file(few, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(ExpertDown, match=rf"lacks {len(weights) - len(few)} of its weights \(.*presence"):
        Sam3(str(copy), device="cpu").load()


def test_a_checkpoint_that_is_not_there_says_so(tmp_path):
    with pytest.raises(ExpertDown, match="cannot be loaded with Sam3Weights"):
        Sam3(str(tmp_path), device="cpu").load()


@pytest.mark.parametrize("options", [{"floor": -0.1}, {"floor": 2}, {"batch": 0}])
def test_refuses_options_that_mean_nothing(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Sam3(**options)
