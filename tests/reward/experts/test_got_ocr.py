"""GotOcr: the text of transformers' plain call, line by line; text without an end is a failure."""

import math
from typing import Any

import pytest
import torch
import transformers

from editcritic.reward import Box
from editcritic.reward.experts.got_ocr import GotOcr, is_repeating
from editcritic.reward.queries import Abstention, Failure, ReadText, RecognizedText

from ..fakes import picture
from . import tiny_got_ocr as tiny
from .asking import assert_down, assert_failed

SIGN = ["SALE", " 50", "%", "\nONLY", " TODAY", "<|im_end|>"]
TALL, WIDE = picture(1, 30, 90), picture(2, 120, 40)
WAYS: list[dict[str, Any]] = [{}, {"markdown_output": True}, {"crop_to_patches": True, "max_patches": 3}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Its text depends on the image and does not end."""
    return str(tiny.save(tmp_path_factory.mktemp("random")))


@pytest.fixture(scope="module")
def sign(tmp_path_factory):
    """Reads the same text in every image."""
    return str(tiny.save(tmp_path_factory.mktemp("sign"), SIGN))


def read(folder: Any, *images: Any, **options: Any) -> list[Any]:
    return GotOcr(str(folder), device="cpu", **options)([ReadText(image) for image in images or (TALL,)])


def library(folder, image, tokens, **options):
    """The authors' example, with the scores of each token."""
    processor = transformers.AutoProcessor.from_pretrained(folder)
    model = transformers.GotOcr2ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    inputs = processor(image.pil(), return_tensors="pt", num_image_tokens=16, **options)
    ends = {"stop_strings": "<|im_end|>", "pad_token_id": processor.tokenizer.pad_token_id, "max_new_tokens": tokens}
    scored = {"return_dict_in_generate": True, "output_logits": True}
    generated = model.generate(**inputs, do_sample=False, tokenizer=processor.tokenizer, **ends, **scored)
    text = processor.decode(generated.sequences[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return text, [row[0].log_softmax(-1).max().item() for row in generated.logits]


def test_the_real_model_has_the_published_names_and_shapes():
    with torch.device("meta"):
        model = transformers.GotOcr2ForConditionalGeneration(transformers.GotOcr2Config())
    own = {name: tuple(value.shape) for name, value in model.state_dict().items() if name != "lm_head.weight"}
    named = {f"model.{name}": shape for name, shape in tiny.FORMAT.shapes().items()}
    assert own == {name.replace(".language_model.model.", ".language_model."): named[name] for name in named}
    assert 2 * sum(map(math.prod, own.values())) + 57_208 == 1_121_114_488  # bytes of the published file


def test_it_writes_what_the_library_writes_in_any_batch(folder):
    raws = []
    for way in WAYS:
        expert = GotOcr(folder, device="cpu", max_tokens=7, **way)
        answers: Any = expert([ReadText(image) for image in (TALL, WIDE)])
        theirs = {"format" if name == "markdown_output" else name: value for name, value in way.items()}
        assert [answer.raw for answer in answers] == [library(folder, one, 7, **theirs)[0] for one in (TALL, WIDE)]
        assert all(isinstance(answer, Failure) for answer in answers)
        assert expert.usage()["image_passes"] == (8 if "max_patches" in way else 2)
        assert answers == [*read(folder, TALL, max_tokens=7, batch=1, **way), *read(folder, WIDE, max_tokens=7, **way)]
        raws += [answer.raw for answer in answers]
    assert len(set(raws)) == len(raws)  # image, prompt and crops make a difference


@pytest.mark.parametrize("backend", ["pil", "torchvision"])
def test_lines_are_read_with_how_sure_it_was(sign, backend):
    (reading,) = read(sign, backend=backend)
    text, sure = library(sign, TALL, 6)
    assert isinstance(reading, RecognizedText)
    assert [line.text for line in reading.lines] == ["SALE 50%", "ONLY TODAY"] == text.split("\n")
    first, second = math.exp(sum(sure[:3]) / 3), math.exp(sum(sure[3:5]) / 2)
    assert [line.box.score for line in reading.lines] == pytest.approx([first, second], abs=1e-5)
    assert 0 < first < 1
    assert reading.lines[0].box == Box(0.5, 0.5, 1.0, 1.0, reading.lines[0].box.score)


def test_nothing_written_is_an_empty_reading_and_texts_that_do_not_end_or_cannot_are_refused(sign, tmp_path):
    assert read(tiny.save(tmp_path, ["\n\n", "<|im_end|>"])) == [RecognizedText(())]
    (whole,), (cut,) = (read(sign, max_tokens=max_tokens) for max_tokens in (5, 4))
    assert isinstance(whole, RecognizedText)
    assert_failed(cut, "did not finish within max_tokens=4")
    assert cut.raw == "SALE 50%\nONLY"
    says = ["SALE", "HA", " 50", "HA"]  # HA follows 50, and 50 follows HA
    expert = GotOcr(str(tiny.save(tmp_path, says)), device="cpu", max_tokens=4000)
    (answer,) = expert([ReadText(TALL)])
    assert_failed(answer, "repeated itself for 144 tokens")
    assert isinstance(answer, Failure)
    assert answer.raw.startswith("SALEHA 50HA 50HA")
    assert expert.usage()["generated_tokens"] < 150
    special = [token for token in tiny.SPECIAL if token != "<|im_end|>"]
    folder = tiny.save(tmp_path, words=tiny.tokenizer(special))
    assert_down(GotOcr(str(folder), device="cpu"), r"has no <\|im_end\|>: give GOT-OCR 2.0 in transformers' format")


def test_long_texts_and_rows_of_dots_are_no_circles():
    tails = [[], [7] * 100, [7] * 128, list(range(40)) * 8, list(range(41)) * 20]
    assert [is_repeating([*range(300), *tail]) for tail in tails] == [False, False, True, True, False]


def test_options_that_change_the_text_are_in_the_id(folder):
    options = [*WAYS, {"crop_to_patches": True}, {"max_tokens": 5}]
    assert len({GotOcr(folder, device="cpu", **selected).id for selected in options}) == len(options)
    assert GotOcr(folder, device="cpu", batch=3).id == GotOcr(folder, device="cpu").id
    with pytest.raises(ValueError, match="max_tokens and max_patches are 1 or more, got 0 and 12"):
        GotOcr(folder, max_tokens=0)


def test_it_is_asked_for_texts_in_latin_and_chinese_letters_only():
    for wanted in ("OPEN 24 h", "Źródło", "营业中"):
        assert GotOcr().rewrite_query(ReadText(TALL, wanted), None) == ReadText(TALL)
    for wanted in ("Скидка", "OPEN סגור", "パン"):
        assert isinstance(GotOcr().rewrite_query(ReadText(TALL, wanted), None), Abstention)
