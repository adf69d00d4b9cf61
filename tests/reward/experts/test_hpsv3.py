"""Hpsv3: a random checkpoint in the published layout through the way users take, equal to the library's plain call."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from editcritic.reward import ExpertDown, Failure, Measured, Rate
from editcritic.reward.experts.hpsv3 import HpsHead, Hpsv3
from editcritic.reward.models.reward_heads import parameters, renamed
from editcritic.reward.models.reward_texts import fitted
from editcritic.reward.spec import build, spec_of

from . import formats
from .tiny_rewarders import Plainly, picture, put, tiny_base, tiny_weights

PICTURES = [picture(1, (448, 448)), picture(2, (300, 200)), picture(3, (610, 330))]
PROMPTS = ["a cat", "", "two red boats, and left of them a blue square with a picture of the very wide sea in it"]
QUERIES = [Rate(image, prompt) for image in PICTURES for prompt in PROMPTS]
NARROW = picture(4, (2010, 10))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hpsv3")
    base = folder / "base"
    weights = tiny_weights("hpsv3", tiny_base(base, "qwen2_vl", longest=1200))
    put(weights, folder / "HPSv3.safetensors")
    expert = Hpsv3(str(folder), base=str(base))
    found = expert(QUERIES)
    return SimpleNamespace(folder=folder, base=base, weights=weights, plainly=Plainly(base, weights), found=found)


def loaded(made, **options):
    return Hpsv3(str(made.folder), base=str(made.base), **options)


def numbers(outcomes):
    assert all(isinstance(outcome, Measured) for outcome in outcomes), outcomes
    return torch.tensor([[outcome.value, math.log(outcome.sigma)] for outcome in outcomes])


def plain(made, query, template=None, **options):
    text = (template or Hpsv3().text.text).replace("{prompt}", query.prompt)
    return made.plainly((query.image,), text, **options)


def test_the_value_is_the_mean_and_sigma_the_exponential_of_the_other_output(made):
    expected = torch.stack([plain(made, query) for query in QUERIES])
    assert (expected[:, 0] - expected[:, 1]).abs().min() > 0.1  # one cannot pass for the other
    assert (expected.amax(0) - expected.amin(0)).min() > 1
    assert (numbers(made.found) - expected).abs().max() < 1e-4
    for query, outcome in zip(QUERIES, made.found, strict=True):
        query.check(outcome)


def test_positions_are_counted_through_as_in_the_released_code(made):
    """The backbone itself gives pictures rows and columns, with which all numbers are others."""
    expected = torch.stack([plain(made, query, plain=False) for query in QUERIES])
    assert (numbers(made.found) - expected).abs().amin(1).max() > 0.1


@pytest.mark.parametrize("batch", [1, 4])
def test_others_in_the_batch_change_nothing(made, batch):
    order = [7, 2, 5, 0, 3, 8, 1, 6, 4]
    found = loaded(made, batch=batch)([QUERIES[place] for place in order])
    assert (numbers(found) - numbers(made.found)[order]).abs().max() < 1e-4


def test_a_picture_is_encoded_once_for_all_prompts_and_a_row_is_read_once(made):
    expert = loaded(made, batch=2)
    found = expert([*QUERIES[:3], *QUERIES[:3]])
    assert [expert.meter()[name] for name in ("image_passes", "forward_passes")] == [1, 2]
    assert expert([Rate(PICTURES[0], "again")]) != found[:1]
    assert expert(QUERIES[:3]) == found[:3]
    assert [expert.meter()[name] for name in ("image_passes", "forward_passes")] == [1, 3]
    expert.unload()
    assert expert.bytes == {"remembered": 0}
    assert (numbers(expert(QUERIES[:1])) - numbers(found[:1])).abs().max() < 1e-4
    assert expert.meter()["image_passes"] == 2


# -- the text ---------------------------------------------------------------------------------------------------------

THEIRS = "\n**How good?** {not a place} - {text_prompt}\n\n\nIt is: <|Reward|>\n\nEND\n"


def test_a_template_is_asked_as_it_is_written_and_is_in_the_id(made, tmp_path):
    file = tmp_path / "theirs.txt"
    file.write_text(THEIRS, encoding="utf-8")
    expert = loaded(made, template=str(file))
    expected = torch.stack([plain(made, each, THEIRS.replace("text_prompt", "prompt")) for each in QUERIES[:3]])
    found = numbers(expert(QUERIES[:3]))
    assert (found - expected).abs().max() < 1e-4
    assert (found - numbers(made.found[:3])).abs().max() > 0.1
    assert build(spec_of(expert)).id == expert.id
    ours, theirs = loaded(made).id, expert.id
    assert "template=ours:" in ours
    assert "template=given:" in theirs
    file.write_text(THEIRS + "\n", encoding="utf-8")
    assert loaded(made, template=str(file)).id not in (ours, theirs)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{prompt}", r"0 times <\|Reward\|>, expected it once"),
        ("{prompt} <|Reward|><|Reward|>", "2 times"),
        ("<|Reward|>", "0 places for the prompt, expected one {prompt}"),
        ("{prompt} {text_prompt} <|Reward|>", "2 places"),
    ],
)
def test_a_template_without_its_places_is_refused(text, said, tmp_path):
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        Hpsv3(template=str(tmp_path / "text.txt"))
    with pytest.raises(ValueError, match=r"is no file: give one with"):
        Hpsv3(template=str(tmp_path))


@pytest.mark.parametrize("mark", ["<|Reward|>", "<|im_end|>", "<|image_pad|>"])
def test_control_tokens_in_a_prompt_are_only_words(made, mark):
    whole, part, none = numbers(loaded(made)([Rate(PICTURES[0], said) for said in (f"a {mark} cat", "a ", "a  cat")]))
    assert (whole - part).abs().max() > 0.01  # read to its end
    assert (whole - none).abs().max() > 0.01  # and not left out


# -- failing ----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_rated_fails_by_itself_and_says_why(made):
    queries = [QUERIES[0], Rate(PICTURES[0], quality="beauty"), Rate(NARROW), Rate(PICTURES[0], "word " * 1000)]
    good, *bad = loaded(made)(queries)
    assert (numbers([good]) - numbers(made.found[:1])).abs().max() < 1e-4
    said = ["rates preference only, not 'beauty'", "2010 x 10 is narrower than 1 : 200", "reads up to 1200 tokens"]
    for outcome, words in zip(bad, said, strict=True):
        assert isinstance(outcome, Failure)
        assert words in outcome.reason


def test_outputs_that_are_no_numbers_fail(made, tmp_path):
    weights = {**made.weights, "rm_head.5.bias": torch.tensor([float("nan"), 800.0])}
    put(weights, tmp_path / "HPSv3.safetensors")
    (found,) = Hpsv3(str(tmp_path), base=str(made.base))(QUERIES[:1])
    assert isinstance(found, Failure)
    assert "gave a mean of nan" in found.reason


# -- loading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["HPSv3.safetensors", "final_model.pth"])
def test_names_of_either_generation_of_transformers_load(made, file, tmp_path):
    weights = {key if key.startswith("lm_head") else renamed(key): value for key, value in made.weights.items()}
    assert weights.keys() != made.weights.keys()
    put(weights if file.endswith("tensors") else {"model": weights}, tmp_path / file)
    found = Hpsv3(str(tmp_path / file), base=str(made.base))(QUERIES[:3])
    assert found == loaded(made)(QUERIES[:3])


def test_the_head_stays_in_full_precision(made):
    expert = loaded(made, dtype="bfloat16")
    found = expert(QUERIES[:3])
    assert all(isinstance(outcome, Measured) for outcome in found)
    with expert.checkpoint.use() as held:
        kinds = {value.dtype: name for name, value in held.model.named_parameters() if name.startswith("rm_head")}
        assert list(kinds) == [torch.float32]
        assert held.model.get_input_embeddings().weight.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rm_head.3.bias": None}, r"1 parameters \(rm_head.3.bias\) missing"),
        ({"rm_head.7.bias": torch.zeros(2)}, r"rm_head.7.bias\) in .* belong to no part"),
        ({"rm_head.5.bias": torch.zeros(4)}, r"rm_head.5.bias in .* is \[4\], expected \[2\]: the base is not"),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused_in_plain_words(made, change, said, tmp_path):
    weights = {key: value for key, value in {**made.weights, **change}.items() if value is not None}
    put(weights, tmp_path / "HPSv3.safetensors")
    with pytest.raises(ExpertDown, match=said):
        Hpsv3(str(tmp_path), base=str(made.base)).load()


class Mine:
    pass


@pytest.mark.parametrize(
    ("name", "said"),
    [("a.pth", "a.pth holds more than weights"), ("a.safetensors", "a.safetensors is damaged")],
)
def test_files_with_anything_but_tensors_are_refused(made, name, said, tmp_path):
    file = tmp_path / name
    torch.save({"model": Mine()}, file)
    with pytest.raises(ExpertDown, match=said):
        Hpsv3(str(file), base=str(made.base)).load()


def test_a_base_of_another_kind_is_refused(made, tmp_path):
    tiny_base(tmp_path, "qwen2_5_vl")
    with pytest.raises(ExpertDown, match="is a qwen2_5_vl, its heads sit on a qwen2_vl"):
        Hpsv3(str(made.folder), base=str(tmp_path)).load()
    with pytest.raises(ExpertDown, match=r"holds no HPSv3.safetensors"):
        Hpsv3(str(tmp_path), base=str(made.base)).load()


def test_a_tokenizer_that_is_not_the_one_of_its_training_is_refused(made, tmp_path):
    tokenizer = tiny_base(tmp_path, "qwen2_vl")
    tokenizer.add_tokens(["<more>"])
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ExpertDown, match=r"knows \d+ tokens, the tokenizer of .* has \d+: the base is not"):
        Hpsv3(str(made.folder), base=str(tmp_path))(QUERIES[:1])


def test_the_published_table_is_the_model_of_the_published_configuration():
    config = transformers.Qwen2VLConfig(**PUBLISHED)
    table = formats.load("hpsv3").shapes()
    config.text_config.vocab_size = table["model.embed_tokens.weight"][0]
    wanted = {renamed(name): shape for name, shape in table.items() if name != "lm_head.weight"}
    assert parameters(config, HpsHead.heads) == wanted
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
"""Qwen/Qwen2-VL-7B-Instruct, config.json: what decides on shapes."""


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_pictures_are_sized_as_by_the_library(width, height):
    if max(width, height) > 200 * min(width, height):
        with pytest.raises(ValueError, match="narrower"):
            fitted(width, height)
    else:
        pixels = 256 * 28 * 28
        assert fitted(width, height) == smart_resize(height, width, min_pixels=pixels, max_pixels=pixels)[::-1]
