"""GotOcr: the text of transformers' plain call, line by line; text without an end is a failure."""

import math
from typing import Any

import pytest
import torch
import transformers

from editcritic.reward import Box, Engine, Image, Score, ask
from editcritic.reward.experts.got_ocr import GotOcr, is_repeating
from editcritic.reward.queries import Abstention, ExpertDown, Failure, ReadText, RecognizedText

from ..fakes import picture
from . import tiny_got_ocr as tiny

SIGN = ["SALE", " 50", "%", "\nONLY", " TODAY", "<|im_end|>"]
TALL, WIDE = picture(1, 30, 90), picture(2, 120, 40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Its text depends on the image and does not end."""
    return str(tiny.save(tmp_path_factory.mktemp("random")))


@pytest.fixture(scope="module")
def sign(tmp_path_factory):
    """Reads the same text in every image."""
    return str(tiny.save(tmp_path_factory.mktemp("sign"), SIGN))


def read(expert: Any, *images: Image) -> list[Any]:
    return list(expert([ReadText(image) for image in images]))


def library(folder, image, tokens, **options):
    """The authors' example, with the scores of each token."""
    processor = transformers.AutoProcessor.from_pretrained(folder)
    model, info = transformers.GotOcr2ForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    inputs = processor(image.pil(), return_tensors="pt", num_image_tokens=16, **options)
    generated = model.generate(
        **inputs,
        do_sample=False,
        tokenizer=processor.tokenizer,
        stop_strings="<|im_end|>",
        max_new_tokens=tokens,
        pad_token_id=processor.tokenizer.pad_token_id,
        return_dict_in_generate=True,
        output_logits=True,
    )
    text = processor.decode(generated.sequences[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return text, [row[0].log_softmax(-1).max().item() for row in generated.logits]


# -- the published format ----------------------------------------------------------------------------------------------


def test_the_real_model_has_the_published_names_and_shapes():
    with torch.device("meta"):
        model = transformers.GotOcr2ForConditionalGeneration(transformers.GotOcr2Config())
    own = {name: tuple(value.shape) for name, value in model.state_dict().items() if name != "lm_head.weight"}
    published = {
        f"model.{name}".replace(".language_model.model.", ".language_model."): shape
        for name, shape in tiny.FORMAT.shapes().items()
    }
    assert published == own
    assert 2 * sum(map(math.prod, own.values())) + 57_208 == 1_121_114_488  # bytes of the published file


@pytest.mark.parametrize(
    "options", [{}, {"markdown_output": True}, {"crop_to_patches": True, "max_patches": 3}], ids=str
)
def test_it_writes_what_the_library_writes(folder, options):
    expert = GotOcr(folder, device="cpu", max_tokens=7, **options)
    answers = read(expert, TALL, WIDE)
    theirs = {"format" if name == "markdown_output" else name: value for name, value in options.items()}
    expected = [library(folder, image, 7, **theirs)[0] for image in (TALL, WIDE)]
    assert all(isinstance(answer, Failure) for answer in answers)
    assert [answer.raw for answer in answers] == expected
    assert expected[0] != expected[1]
    assert expert.usage()["image_passes"] == (8 if "max_patches" in options else 2)


def test_the_prompt_and_the_crops_make_a_difference(folder):
    ways: list[dict[str, Any]] = [{}, {"markdown_output": True}, {"crop_to_patches": True}]
    raws = {read(GotOcr(folder, device="cpu", max_tokens=7, **way), TALL)[0].raw for way in ways}
    assert len(raws) == 3


def test_the_batch_makes_no_difference(folder):
    queries = [ReadText(picture(seed, 40 + 30 * seed, 60)) for seed in range(4)]
    together = GotOcr(folder, device="cpu", max_tokens=5, crop_to_patches=True, max_patches=4)
    alone = GotOcr(folder, device="cpu", max_tokens=5, crop_to_patches=True, max_patches=4, batch=1)
    assert together(queries) == [alone([query])[0] for query in queries]


# -- outputs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["pil", "torchvision"])
def test_lines_are_read_with_how_sure_it_was(sign, backend):
    (reading,) = GotOcr(sign, device="cpu", backend=backend)([ReadText(TALL)])
    text, sure = library(sign, TALL, 6)
    assert isinstance(reading, RecognizedText)
    assert [line.text for line in reading.lines] == ["SALE 50%", "ONLY TODAY"] == text.split("\n")
    first, second = math.exp(sum(sure[:3]) / 3), math.exp(sum(sure[3:5]) / 2)
    assert [line.box.score for line in reading.lines] == pytest.approx([first, second], abs=1e-5)
    assert 0 < first < 1
    assert reading.lines[0].box == Box(0.5, 0.5, 1.0, 1.0, reading.lines[0].box.score)


def test_nothing_written_is_an_empty_reading(tmp_path):
    assert GotOcr(str(tiny.save(tmp_path, ["\n\n", "<|im_end|>"])), device="cpu")([ReadText(TALL)]) == [
        RecognizedText(())
    ]


def test_an_engine_takes_what_it_says(sign):
    def program():
        reading = yield from ask(ReadText(TALL))
        return Score.of(len(reading.lines))

    with Engine() as engine:
        assert engine.submit(program(), {"reader": GotOcr(sign, device="cpu")}).result(60).value == 2


def test_a_text_may_end_just_at_the_limit_and_not_beyond(sign):
    whole, cut = (GotOcr(sign, device="cpu", max_tokens=max_tokens)([ReadText(TALL)])[0] for max_tokens in (5, 4))
    assert isinstance(whole, RecognizedText)
    assert isinstance(cut, Failure)
    assert "did not finish within max_tokens=4" in cut.reason
    assert cut.raw == "SALE 50%\nONLY"


def test_going_in_circles_is_noticed_before_the_limit(tmp_path):
    says = ["SALE", "HA", " 50", "HA"]  # HA follows 50, and 50 follows HA
    expert = GotOcr(str(tiny.save(tmp_path, says)), device="cpu", max_tokens=4000)
    (answer,) = expert([ReadText(TALL)])
    assert isinstance(answer, Failure)
    assert "repeated itself for 144 tokens" in answer.reason
    assert answer.raw.startswith("SALEHA 50HA 50HA")
    assert expert.usage()["generated_tokens"] < 150


def test_long_texts_and_rows_of_dots_are_no_circles():
    assert not is_repeating(list(range(500)))
    assert not is_repeating([*range(300), *[7] * 100])
    assert is_repeating([*range(300), *[7] * 128])
    assert is_repeating([*range(300), *list(range(40)) * 8])
    assert not is_repeating([*range(300), *list(range(41)) * 20])


# -- failures ----------------------------------------------------------------------------------------------------------


def test_a_tokenizer_that_cannot_end_a_text_is_refused(tmp_path):
    special = ["<|endoftext|>", "<|im_start|>", "<img>", "</img>", "<imgpad>"]
    folder = tiny.save(tmp_path, words=tiny.tokenizer(special))
    with pytest.raises(ExpertDown, match=r"has no <\|im_end\|>: give GOT-OCR 2.0 in transformers' format"):
        GotOcr(str(folder), device="cpu").load()


def test_options_that_change_the_text_are_in_the_id(folder):
    options: list[dict[str, Any]] = [{}, {"markdown_output": True}, {"crop_to_patches": True}, {"max_tokens": 5}]
    options += [{"crop_to_patches": True, "max_patches": 5}]
    assert len({GotOcr(folder, device="cpu", **selected).id for selected in options}) == len(options)
    assert GotOcr(folder, device="cpu", batch=3).id == GotOcr(folder, device="cpu").id
    with pytest.raises(ValueError, match="max_tokens and max_patches are 1 or more, got 0 and 12"):
        GotOcr(folder, max_tokens=0)


def test_it_is_asked_for_texts_in_latin_and_chinese_letters_only():
    expert = GotOcr()
    for wanted in ("OPEN 24 h", "Źródło", "营业中"):
        assert expert.rewrite_query(ReadText(TALL, wanted), None) == ReadText(TALL)
    for wanted in ("Скидка", "OPEN סגור", "パン"):
        assert isinstance(expert.rewrite_query(ReadText(TALL, wanted), None), Abstention)
