"""Hpsv3: a random checkpoint in the published layout, loaded as by users, equals transformers' plain call."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize as theirs

from editcritic.reward.config import build
from editcritic.reward.experts.loading.reward_heads import current_parameter_name, expected_parameters, smart_resize
from editcritic.reward.experts.reward_head_raters import HpsHeads, Hpsv3
from editcritic.reward.queries import ExpertDown, Failure, Measurement, Rate
from editcritic.reward.queries.specs import spec_of

from . import formats
from .tiny_rewarders import Plainly, picture, put, tiny_base, tiny_weights

PICTURES = [picture(1, (448, 448)), picture(2, (300, 200)), picture(3, (610, 330))]
PROMPTS = ["a cat", "", "two red boats, and left of them a blue square with a picture of the very wide sea in it"]
QUERIES = [Rate(image, prompt) for image in PICTURES for prompt in PROMPTS]
NARROW = picture(4, (2010, 10))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hpsv3")
    base = folder / "base"
    weights = tiny_weights("hpsv3", tiny_base(base, "qwen2_vl", longest=1200))
    put(weights, folder / "HPSv3.safetensors")
    expert = Hpsv3(str(folder), base=str(base))
    outcomes = expert(QUERIES)
    return SimpleNamespace(folder=folder, base=base, weights=weights, plainly=Plainly(base, weights), outcomes=outcomes)


def loaded(checkpoint, **options):
    return Hpsv3(str(checkpoint.folder), base=str(checkpoint.base), **options)


def numbers(outcomes):
    assert all(isinstance(outcome, Measurement) for outcome in outcomes), outcomes
    return torch.tensor([[outcome.value, math.log(outcome.sigma)] for outcome in outcomes])


def plain(checkpoint, query, template=None, **options):
    text = (template or Hpsv3().text.text).replace("{prompt}", query.prompt)
    return checkpoint.plainly((query.image,), text, **options)


def test_the_value_is_the_mean_and_sigma_the_exponential_of_the_other_output(checkpoint):
    expected = torch.stack([plain(checkpoint, query) for query in QUERIES])
    assert (expected[:, 0] - expected[:, 1]).abs().min() > 0.1  # the ratings differ
    assert (expected.amax(0) - expected.amin(0)).min() > 1
    assert (numbers(checkpoint.outcomes) - expected).abs().max() < 1e-4
    for query, outcome in zip(QUERIES, checkpoint.outcomes, strict=True):
        query.check(outcome)


def test_positions_are_counted_through_as_in_the_released_code(checkpoint):
    """With the backbone's own row and column positions all scores differ."""
    expected = torch.stack([plain(checkpoint, query, plain=False) for query in QUERIES])
    assert (numbers(checkpoint.outcomes) - expected).abs().amin(1).max() > 0.1


@pytest.mark.parametrize("batch", [1, 4])
def test_others_in_the_batch_change_nothing(checkpoint, batch):
    order = [7, 2, 5, 0, 3, 8, 1, 6, 4]
    outcomes = loaded(checkpoint, batch=batch)([QUERIES[index] for index in order])
    assert (numbers(outcomes) - numbers(checkpoint.outcomes)[order]).abs().max() < 1e-4


def test_a_picture_is_encoded_once_for_all_prompts_and_a_row_is_read_once(checkpoint):
    expert = loaded(checkpoint, batch=2)
    outcomes = expert([*QUERIES[:3], *QUERIES[:3]])
    assert [expert.usage()[name] for name in ("image_passes", "forward_passes")] == [1, 2]
    assert expert([Rate(PICTURES[0], "again")]) != outcomes[:1]
    assert expert(QUERIES[:3]) == outcomes[:3]
    assert [expert.usage()[name] for name in ("image_passes", "forward_passes")] == [1, 3]
    expert.unload()
    assert expert.bytes == {"cache": 0}
    assert (numbers(expert(QUERIES[:1])) - numbers(outcomes[:1])).abs().max() < 1e-4
    assert expert.usage()["image_passes"] == 2


# -- the text ---------------------------------------------------------------------------------------------------------

THEIRS = "\n**How good?** {not a place} - {text_prompt}\n\n\nIt is: <|Reward|>\n\nEND\n"


def test_a_template_is_asked_as_it_is_written_and_is_in_the_id(checkpoint, tmp_path):
    file = tmp_path / "theirs.txt"
    file.write_text(THEIRS, encoding="utf-8")
    expert = loaded(checkpoint, template=str(file))
    expected = torch.stack([plain(checkpoint, each, THEIRS.replace("text_prompt", "prompt")) for each in QUERIES[:3]])
    outcomes = numbers(expert(QUERIES[:3]))
    assert (outcomes - expected).abs().max() < 1e-4
    assert (outcomes - numbers(checkpoint.outcomes[:3])).abs().max() > 0.1
    assert build(spec_of(expert), "editcritic.experts").id == expert.id
    ours, theirs = loaded(checkpoint).id, expert.id
    assert "template=ours:" in ours
    assert "template=given:" in theirs
    file.write_text(THEIRS + "\n", encoding="utf-8")
    assert loaded(checkpoint, template=str(file)).id not in (ours, theirs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{prompt}", r"has <\|Reward\|> 0 times, expected once"),
        ("{prompt} <|Reward|><|Reward|>", "2 times"),
        ("<|Reward|>", "0 slots for the prompt, expected one {prompt}"),
        ("{prompt} {text_prompt} <|Reward|>", "2 slots"),
    ],
)
def test_a_template_without_its_places_is_refused(text, message, tmp_path):
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        Hpsv3(template=str(tmp_path / "text.txt"))
    with pytest.raises(ValueError, match=r"is no file: give a text file"):
        Hpsv3(template=str(tmp_path))


@pytest.mark.parametrize("mark", ["<|Reward|>", "<|im_end|>", "<|image_pad|>"])
def test_control_tokens_in_a_prompt_are_only_words(checkpoint, mark):
    whole, part, none = numbers(
        loaded(checkpoint)([Rate(PICTURES[0], message) for message in (f"a {mark} cat", "a ", "a  cat")])
    )
    assert (whole - part).abs().max() > 0.01  # not truncated
    assert (whole - none).abs().max() > 0.01  # and not left out


# -- failing ----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_rated_fails_by_itself_and_says_why(checkpoint):
    queries = [QUERIES[0], Rate(PICTURES[0], quality="beauty"), Rate(NARROW), Rate(PICTURES[0], "word " * 1000)]
    good, *bad = loaded(checkpoint)(queries)
    assert (numbers([good]) - numbers(checkpoint.outcomes[:1])).abs().max() < 1e-4
    message = ["rates preference only, got 'beauty'", "2010 x 10 is narrower than 1 : 200", "reads up to 1200 tokens"]
    for outcome, words in zip(bad, message, strict=True):
        assert isinstance(outcome, Failure)
        assert words in outcome.reason


def test_outputs_that_are_no_numbers_fail(checkpoint, tmp_path):
    weights = {**checkpoint.weights, "rm_head.5.bias": torch.tensor([float("nan"), 800.0])}
    put(weights, tmp_path / "HPSv3.safetensors")
    (outcome,) = Hpsv3(str(tmp_path), base=str(checkpoint.base))(QUERIES[:1])
    assert isinstance(outcome, Failure)
    assert "gave a mean of nan" in outcome.reason


# -- loading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["HPSv3.safetensors", "final_model.pth"])
def test_names_of_either_generation_of_transformers_load(checkpoint, file, tmp_path):
    weights = {
        key if key.startswith("lm_head") else current_parameter_name(key): value
        for key, value in checkpoint.weights.items()
    }
    assert weights.keys() != checkpoint.weights.keys()
    put(weights if file.endswith("tensors") else {"model": weights}, tmp_path / file)
    outcomes = Hpsv3(str(tmp_path / file), base=str(checkpoint.base))(QUERIES[:3])
    assert outcomes == loaded(checkpoint)(QUERIES[:3])


def test_the_head_stays_in_full_precision(checkpoint):
    expert = loaded(checkpoint, dtype="bfloat16")
    outcomes = expert(QUERIES[:3])
    assert all(isinstance(outcome, Measurement) for outcome in outcomes)
    with expert.checkpoint.use() as loaded_model:
        kinds = {
            value.dtype: name for name, value in loaded_model.model.named_parameters() if name.startswith("rm_head")
        }
        assert list(kinds) == [torch.float32]
        assert loaded_model.model.get_input_embeddings().weight.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rm_head.3.bias": None}, r"1 parameters \(rm_head.3.bias\) missing"),
        ({"rm_head.7.bias": torch.zeros(2)}, r"rm_head.7.bias\) in .* belong to no part"),
        ({"rm_head.5.bias": torch.zeros(4)}, r"rm_head.5.bias in .* is \[4\], expected \[2\]: the base is not"),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused_in_plain_words(checkpoint, change, message, tmp_path):
    weights = {key: value for key, value in {**checkpoint.weights, **change}.items() if value is not None}
    put(weights, tmp_path / "HPSv3.safetensors")
    with pytest.raises(ExpertDown, match=message):
        Hpsv3(str(tmp_path), base=str(checkpoint.base)).load()


class Mine:
    pass


@pytest.mark.parametrize(
    ("name", "message"),
    [("a.pth", "a.pth holds more than weights"), ("a.safetensors", "a.safetensors is damaged")],
)
def test_files_with_anything_but_tensors_are_refused(checkpoint, name, message, tmp_path):
    file = tmp_path / name
    torch.save({"model": Mine()}, file)
    with pytest.raises(ExpertDown, match=message):
        Hpsv3(str(file), base=str(checkpoint.base)).load()


def test_a_base_of_another_kind_is_refused(checkpoint, tmp_path):
    tiny_base(tmp_path, "qwen2_5_vl")
    with pytest.raises(ExpertDown, match="is a qwen2_5_vl, expected a qwen2_vl"):
        Hpsv3(str(checkpoint.folder), base=str(tmp_path)).load()
    with pytest.raises(ExpertDown, match=r"holds no HPSv3.safetensors"):
        Hpsv3(str(tmp_path), base=str(checkpoint.base)).load()


def test_a_tokenizer_that_is_not_the_one_of_its_training_is_refused(checkpoint, tmp_path):
    tokenizer = tiny_base(tmp_path, "qwen2_vl")
    tokenizer.add_tokens(["<more>"])
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ExpertDown, match=r"has \d+ tokens, the tokenizer of .* has \d+: the base is not"):
        Hpsv3(str(checkpoint.folder), base=str(tmp_path))(QUERIES[:1])


def test_the_published_table_is_the_model_of_the_published_configuration():
    config = transformers.Qwen2VLConfig(**PUBLISHED)
    table = formats.load("hpsv3").shapes()
    config.text_config.vocab_size = table["model.embed_tokens.weight"][0]
    expected_shapes = {current_parameter_name(name): shape for name, shape in table.items() if name != "lm_head.weight"}
    assert expected_parameters(config, HpsHeads.heads) == expected_shapes
    assert Path(formats.load("hpsv3").file).name == Hpsv3.weights_file


PUBLISHED = {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "rope_scaling": {"mrope_section": [16, 24, 24], "type": "mrope"},
    "vision_config": {"in_chans": 3, "model_type": "qwen2_vl", "spatial_patch_size": 14},
    "vocab_size": 152064,
}
"""Qwen/Qwen2-VL-7B-Instruct, config.json: the values that determine shapes."""


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_pictures_are_sized_as_by_the_library(width, height):
    if max(width, height) > 200 * min(width, height):
        with pytest.raises(ValueError, match="narrower"):
            smart_resize(width, height)
    else:
        pixels = 256 * 28 * 28
        assert smart_resize(width, height) == theirs(height, width, min_pixels=pixels, max_pixels=pixels)[::-1]
