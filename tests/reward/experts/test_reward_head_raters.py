"""HPSv3 and EditReward: random checkpoints in the published layout equal the plain call of transformers."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize as theirs

from editcritic.reward.experts.loading.reward_heads import current_parameter_name, expected_parameters, smart_resize
from editcritic.reward.experts.reward_head_raters import EditReward, Hpsv3
from editcritic.reward.metrics.baselines.reward_models import QUALITIES
from editcritic.reward.queries import ExpertDown, Measurement, Rate

from . import formats
from .asking import assert_down, assert_failed, rebuilt
from .pictures import patches
from .tiny_rewarders import Plainly, put, tiny_base, tiny_weights

PICTURES = [patches(1, (448, 448)), patches(2, (300, 200)), patches(3, (610, 330))]
PROMPTS = ["a cat", "", "two red boats, and left of them a blue square with a picture of the very wide sea in it"]
RATED = [Rate(image, prompt) for image in PICTURES for prompt in PROMPTS]
SOURCES, EDITS = PICTURES[:2], [patches(3, (448, 448)), patches(4, (610, 330)), patches(5, (300, 200))]
LONG = "put a red circle left of the blue square, and leave all else in the picture as it is"
FOLLOWING, QUALITY = QUALITIES


def edits(quality: str = "preference") -> list[Rate]:
    asked = [(0, 0, "make it blue"), (0, 1, "make it blue"), (1, 2, LONG)]
    return [Rate(EDITS[edit], prompt, quality, (SOURCES[source],)) for source, edit, prompt in asked]


@dataclass(frozen=True)
class Model:
    """expert: the class. backbone, stranger: model types, its own and another's. table: of its published format. file:
    of weights. published: configuration of the published backbone, as far as it determines shapes. head: a parameter's
    prefix. queries: about edits or images. sizes: of the tiny one that differ."""

    expert: Any
    backbone: str
    stranger: str
    table: str
    file: str
    published: Callable[[], Any]
    head: str
    queries: list[Rate]
    sizes: dict[str, int] = field(default_factory=dict)


TEXT = {"hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28, "num_hidden_layers": 28}
TEXT |= {"num_key_value_heads": 4, "vocab_size": 152064}
VISION: dict[str, Any] = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16}
VISION |= {"out_hidden_size": 3584, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31]}
ROPE = {"mrope_section": [16, 24, 24], "type": "mrope"}
HPSV3 = Model(
    *(Hpsv3, "qwen2_vl", "qwen2_5_vl", "hpsv3", "HPSv3.safetensors"),
    lambda: transformers.Qwen2VLConfig(**TEXT, rope_scaling=ROPE, vision_config={"spatial_patch_size": 14}),
    "rm_head",
    RATED,
)
EDIT_REWARD = Model(
    *(EditReward, "qwen2_5_vl", "qwen2_vl", "edit_reward_qwen2_5_vl_7b", "model.safetensors"),
    lambda: transformers.Qwen2_5_VLConfig(**TEXT, rope_scaling=ROPE, vision_config=VISION),
    "rm_heads.head_1",
    edits(),
    {"vision_ffn": 24},
)
EACH = pytest.mark.parametrize("model", [HPSV3, EDIT_REWARD], ids=["hpsv3", "edit-reward"])


@dataclass(frozen=True)
class Checkpoint:
    """A tiny model on disk, and the plain call on it."""

    model: Model
    folder: Path
    weights: dict[str, Any]
    plainly: Plainly

    def expert(self, name: Path | None = None, **options: Any) -> Any:
        return self.model.expert(str(name or self.folder), **{"base": str(self.folder / "base"), **options})

    def changed(self, folder: Path, name: str, value: Any) -> Any:
        """The expert of a checkpoint in which a parameter is another, or missing."""
        weights = {key: each for key, each in {**self.weights, name: value}.items() if each is not None}
        put(weights, folder / self.model.file)
        return self.expert(folder)

    def plain(self, query: Rate, head: str = "rm_head", template: str = "", **options: Any) -> Any:
        texts = {"rm_heads.head_0": FOLLOWING, "rm_heads.head_1": QUALITY}
        expert = self.model.expert()
        text = template or (expert.text if head == "rm_head" else expert.texts[texts[head]]).text
        return self.plainly((*query.sources, query.image), text.replace("{prompt}", query.prompt), head, **options)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    @cache
    def made(table: str) -> Checkpoint:
        model = HPSV3 if table == HPSV3.table else EDIT_REWARD
        folder = tmp_path_factory.mktemp(table)
        weights = tiny_weights(table, tiny_base(folder / "base", model.backbone, longest=1200), **model.sizes)
        put(weights, folder / model.file)
        return Checkpoint(model, folder, weights, Plainly(folder / "base", weights))

    return lambda model: made(model.table)


def numbers(outcomes: Any) -> Any:
    assert all(isinstance(outcome, Measurement) for outcome in outcomes), outcomes
    return torch.tensor([[outcome.value, math.log(outcome.sigma)] for outcome in outcomes], dtype=torch.float64)


def apart(one: Any, other: Any) -> float:
    return float((one - other).abs().max())


def test_hpsv3_gives_the_mean_and_the_exponential_of_the_other_output(checkpoints):
    checkpoint = checkpoints(HPSV3)
    expected = torch.stack([checkpoint.plain(query) for query in RATED])
    assert (expected[:, 0] - expected[:, 1]).abs().min() > 0.1  # the outputs are not interchangeable
    assert (expected.amax(0) - expected.amin(0)).min() > 1
    outcomes = checkpoint.expert()(RATED)
    assert apart(numbers(outcomes), expected) < 1e-4
    for query, outcome in zip(RATED, outcomes, strict=True):
        query.check(outcome)
    # Positions are counted through, as in the released code: with the backbone's own ones all scores differ.
    own = torch.stack([checkpoint.plain(query, plain=False) for query in RATED])
    assert apart(numbers(outcomes), own) > 0.1


def test_edit_reward_has_a_head_for_each_quality_and_their_mean_is_the_preference(checkpoints):
    checkpoint = checkpoints(EDIT_REWARD)
    names = ("rm_heads.head_0", "rm_heads.head_1")
    heads = torch.stack([torch.stack([checkpoint.plain(query, name) for query in edits()]) for name in names])
    assert (heads[0] - heads[1]).abs().min() > 0.01
    for quality, expected in ((FOLLOWING, heads[0]), (QUALITY, heads[1]), ("preference", heads.mean(0))):
        outcomes = checkpoint.expert()(edits(quality))
        assert apart(numbers(outcomes), expected) < 1e-4
        edits()[0].check(outcomes[0])


@EACH
def test_a_picture_is_encoded_once_a_row_is_read_once_others_change_nothing_and_heads_stay_precise(checkpoints, model):
    expert = checkpoints(model).expert(batch=64)
    first = expert([*model.queries, *model.queries])
    pictures = {image for query in model.queries for image in (query.image, *query.sources)}
    passes = {"image_passes": len(pictures), "forward_passes": 1}
    assert {name: expert.usage()[name] for name in passes} == passes
    assert expert(model.queries[::-1]) == first[: len(model.queries)][::-1]
    assert {name: expert.usage()[name] for name in passes} == passes
    every = [Rate(q.image, q.prompt, quality, q.sources) for quality in expert.qualities for q in model.queries]
    alone = numbers(checkpoints(model).expert(batch=1)(every[::-1]))
    assert apart(numbers(checkpoints(model).expert(batch=4)(every)), alone.flip(0)) < 1e-4
    expert.unload()
    assert expert.bytes == {"cache": 0}
    assert apart(numbers(expert(model.queries[:1])), numbers(first[:1])) < 1e-4
    expert = checkpoints(model).expert(dtype="bfloat16")
    numbers(expert(model.queries[:3]))
    with expert.checkpoint.use() as loaded:
        heads = {value.dtype for name, value in loaded.model.named_parameters() if name.startswith("rm_head")}
        assert heads == {torch.float32}
        assert loaded.model.get_input_embeddings().weight.dtype == torch.bfloat16


THEIRS = "\n**How good?** {not a place} - {text_prompt}\n\n\nIt is: <|Reward|>\n\nEND\n"


def test_a_template_is_asked_as_it_is_written_and_is_in_the_id(checkpoints, tmp_path):
    checkpoint = checkpoints(HPSV3)
    file = tmp_path / "theirs.txt"
    file.write_text(THEIRS, encoding="utf-8")
    expert = checkpoint.expert(template=str(file))
    expected = [checkpoint.plain(each, template=THEIRS.replace("text_prompt", "prompt")) for each in RATED[:3]]
    outcomes = numbers(expert(RATED[:3]))
    assert apart(outcomes, torch.stack(expected)) < 1e-4
    assert apart(outcomes, numbers(checkpoint.expert()(RATED[:3]))) > 0.1
    assert rebuilt(expert).id == expert.id
    ours, given_id = checkpoint.expert().id, expert.id
    assert "template=ours:" in ours
    assert "template=given:" in given_id
    file.write_text(THEIRS + "\n", encoding="utf-8")
    assert checkpoint.expert(template=str(file)).id not in (ours, given_id)


def test_edit_rewards_texts_are_given_as_a_folder(checkpoints, tmp_path):
    checkpoint = checkpoints(EDIT_REWARD)
    for name in ("following", "quality"):
        (tmp_path / f"{name}.txt").write_text(f"\n{name}? {{text_prompt}}\n<|Reward|>\nEND\n", encoding="utf-8")
    expert = checkpoint.expert(template=str(tmp_path))
    ours, given_id = checkpoint.expert().id, expert.id
    assert rebuilt(expert).id == given_id
    assert ours.count("ours:") == given_id.count("given:") == 2
    assert apart(numbers(expert(edits())), numbers(checkpoint.expert()(edits()))) > 0.01
    (tmp_path / "quality.txt").write_text("quality? {prompt} <|Reward|>", encoding="utf-8")
    changed = checkpoint.expert(template=str(tmp_path))
    assert changed.id not in (ours, given_id)
    assert apart(numbers(changed(edits(FOLLOWING))), numbers(expert(edits(FOLLOWING)))) < 1e-4


def test_a_template_without_its_places_is_refused(tmp_path):
    cases: list[tuple[Any, str, str]] = [
        (Hpsv3, "{prompt}", r"has <\|Reward\|> 0 times, expected once"),
        (Hpsv3, "{prompt} <|Reward|><|Reward|>", "2 times"),
        (Hpsv3, "<|Reward|>", "0 slots for the prompt, expected one {prompt}"),
        (Hpsv3, "{prompt} {text_prompt} <|Reward|>", "2 slots"),
        (Hpsv3, "", r"is no file: give a text file"),
        (EditReward, "", r"following.txt' is no file"),
        (EditReward, "{prompt}", r"is not a folder: give one with following.txt and quality.txt"),
    ]
    for kind, text, message in cases:
        (tmp_path / "text.txt").write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            kind(template=str(tmp_path / "text.txt" if text else tmp_path))


def test_control_tokens_in_a_prompt_are_only_words(checkpoints):
    for mark in ("<|Reward|>", "<|im_end|>", "<|image_pad|>"):
        prompts = (f"a {mark} cat", "a ", "a  cat")
        whole, part, none = numbers(checkpoints(HPSV3).expert()([Rate(PICTURES[0], prompt) for prompt in prompts]))
        assert min(apart(whole, part), apart(whole, none)) > 0.01  # not truncated, and not left out


@pytest.mark.parametrize(
    ("model", "query", "reason"),
    [
        (HPSV3, Rate(PICTURES[0], quality="beauty"), "rates preference only, got 'beauty'"),
        (HPSV3, Rate(patches(4, (2010, 10))), "2010 x 10 is narrower than 1 : 200"),
        (HPSV3, Rate(PICTURES[0], "word " * 1000), "reads up to 1200 tokens"),
        (EDIT_REWARD, Rate(EDITS[0], "make it blue"), "one source image, got 0"),
        (EDIT_REWARD, Rate(EDITS[0], "make it blue", sources=tuple(SOURCES)), "one source image, got 2"),
        (EDIT_REWARD, Rate(EDITS[0], "", sources=(SOURCES[0],)), "which is the instruction, is empty"),
        (EDIT_REWARD, Rate(EDITS[0], "x", "log_variance", (SOURCES[0],)), f"rates preference, {FOLLOWING}, "),
    ],
)
def test_what_cannot_be_rated_fails_by_itself_and_says_why(checkpoints, model, query, reason):
    good, bad = checkpoints(model).expert()([model.queries[0], query])
    assert isinstance(good, Measurement)
    assert_failed(bad, reason)


@EACH
@pytest.mark.parametrize("suffix", ["safetensors", "pth"])
def test_names_of_either_generation_of_transformers_load(checkpoints, model, suffix, tmp_path):
    checkpoint = checkpoints(model)
    old = {
        key.replace("model.visual.", "visual.").replace("model.language_model.", "model."): value
        for key, value in checkpoint.weights.items()
    }
    new = {key if key.startswith("lm_head") else current_parameter_name(key): value for key, value in old.items()}
    assert old.keys() != new.keys()
    other = old if checkpoint.weights.keys() == new.keys() else new
    put(other if suffix == "safetensors" else {"model": other}, tmp_path / f"weights.{suffix}")
    outcomes = checkpoint.expert(tmp_path / f"weights.{suffix}")(model.queries[:3])
    assert outcomes == checkpoint.expert()(model.queries[:3])


@EACH
@pytest.mark.parametrize(
    ("layer", "value", "message"),
    [
        ("3.bias", None, r"1 parameters \({0}.3.bias\) missing"),
        ("7.bias", torch.zeros(2), r"{0}.7.bias\) in .* belong to no part"),
        ("5.bias", torch.zeros(4), r"{0}.5.bias in .* is \[4\], expected \[2\]: the base is not"),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused_in_plain_words(checkpoints, model, layer, value, message, tmp_path):
    assert_down(checkpoints(model).changed(tmp_path, f"{model.head}.{layer}", value), message.format(model.head))


class Mine:
    pass


def test_files_with_anything_but_tensors_are_refused_and_outputs_that_are_no_numbers_fail(checkpoints, tmp_path):
    for suffix, message in (("pth", "holds more than weights"), ("safetensors", "is damaged")):
        torch.save({"model": Mine()}, tmp_path / f"a.{suffix}")
        assert_down(checkpoints(HPSV3).expert(tmp_path / f"a.{suffix}"), f"a.{suffix} {message}")
    expert = checkpoints(HPSV3).changed(tmp_path, "rm_head.5.bias", torch.tensor([float("nan"), 800.0]))
    (outcome,) = expert(RATED[:1])
    assert_failed(outcome, "gave a mean of nan")


@EACH
def test_a_base_that_is_not_the_one_of_its_training_is_refused(checkpoints, model, tmp_path):
    made = checkpoints(model)
    tiny_base(tmp_path / "stranger", model.stranger)
    tokenizer = tiny_base(tmp_path / "more", model.backbone)
    tokenizer.add_tokens(["<more>"])
    tokenizer.save_pretrained(tmp_path / "more")
    cases = [
        (made.expert(base=str(tmp_path / "stranger")), f"is a {model.stranger}, expected a {model.backbone}"),
        (made.expert(tmp_path / "stranger"), f"holds no {model.file}"),
        (made.expert(base=str(tmp_path / "more")), r"has \d+ tokens, the tokenizer of .* has \d+: the base is not"),
    ]
    for expert, message in cases:
        with pytest.raises(ExpertDown, match=message):
            expert(model.queries[:1])


@EACH
def test_the_published_table_is_the_model_of_the_published_configuration(model):
    config = model.published()
    shapes = {current_parameter_name(name): shape for name, shape in formats.load(model.table).shapes().items()}
    config.text_config.vocab_size = shapes["model.language_model.embed_tokens.weight"][0]
    shapes.pop("lm_head.weight", None)
    assert expected_parameters(config, model.expert.loader.heads) == shapes
    assert Path(formats.load(model.table).file).name == model.expert.weights_file == model.file


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_pictures_are_sized_as_by_the_library(width, height):
    if max(width, height) > 200 * min(width, height):
        with pytest.raises(ValueError, match="narrower"):
            smart_resize(width, height)
    else:
        pixels = 256 * 28 * 28
        assert smart_resize(width, height) == theirs(height, width, min_pixels=pixels, max_pixels=pixels)[::-1]
