"""EditReward: a random checkpoint in the published layout, loaded as by users, equals transformers' plain call."""

import math
from types import SimpleNamespace

import pytest
import torch
import transformers

from editcritic.reward.config import build
from editcritic.reward.experts.loading.reward_heads import current_parameter_name, expected_parameters
from editcritic.reward.experts.reward_head_raters import EditReward, EditRewardHeads, Hpsv3
from editcritic.reward.metrics.baselines.reward_models import QUALITIES
from editcritic.reward.queries import ExpertDown, Failure, Measurement, Rate
from editcritic.reward.queries.specs import spec_of

from . import formats
from .tiny_rewarders import Plainly, picture, put, tiny_base, tiny_weights

TABLE = "edit_reward_qwen2_5_vl_7b"
SOURCES = [picture(1, (448, 448)), picture(2, (300, 200))]
EDITS = [picture(3, (448, 448)), picture(4, (610, 330)), picture(5, (300, 200))]
ASKED = [
    (0, 0, "make it blue"),
    (0, 1, "make it blue"),
    (1, 2, "put a red circle left of the blue square, and leave all else in the picture as it is"),
]
FOLLOWING, QUALITY = QUALITIES


def queries(quality="preference"):
    return [Rate(EDITS[edit], prompt, quality, (SOURCES[source],)) for source, edit, prompt in ASKED]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("edit_reward")
    base = folder / "base"
    weights = tiny_weights(TABLE, tiny_base(base, "qwen2_5_vl"), vision_ffn=24)
    put(weights, folder / "model.safetensors")
    plainly = Plainly(base, weights)
    texts = EditReward().texts
    heads = torch.stack(
        [
            torch.stack(
                [
                    plainly((*query.sources, query.image), texts[name].text.replace("{prompt}", query.prompt), head)
                    for query in queries()
                ]
            )
            for name, head in ((FOLLOWING, "rm_heads.head_0"), (QUALITY, "rm_heads.head_1"))
        ]
    )
    return SimpleNamespace(folder=folder, base=base, weights=weights, heads=heads)


def loaded(checkpoint, **options):
    return EditReward(str(checkpoint.folder), base=str(checkpoint.base), **options)


def numbers(outcomes):
    assert all(isinstance(outcome, Measurement) for outcome in outcomes), outcomes
    return torch.tensor([[outcome.value, math.log(outcome.sigma)] for outcome in outcomes], dtype=torch.float64)


@pytest.mark.parametrize(("quality", "head"), [(FOLLOWING, 0), (QUALITY, 1)])
def test_each_quality_is_a_head_with_a_mean_and_a_standard_deviation(checkpoint, quality, head):
    outcomes = numbers(loaded(checkpoint)(queries(quality)))
    assert (outcomes - checkpoint.heads[head]).abs().max() < 1e-4
    assert (outcomes - checkpoint.heads[1 - head]).abs().min() > 0.01
    assert (outcomes - outcomes.flip(1)).abs().min() > 0.01  # the outputs are not interchangeable


def test_preference_is_the_mean_of_both_heads_as_the_authors_pool_them(checkpoint):
    outcomes = numbers(loaded(checkpoint)(queries()))
    assert (outcomes - checkpoint.heads.mean(0)).abs().max() < 1e-4
    assert (checkpoint.heads[0] - checkpoint.heads[1]).abs().min() > 0.01
    for query, outcome in zip(queries(), loaded(checkpoint)(queries()), strict=True):
        query.check(outcome)


def test_all_qualities_together_read_each_pair_twice_and_encode_each_picture_once(checkpoint):
    expert = loaded(checkpoint, batch=64)
    every = [query for quality in expert.qualities for query in queries(quality)]
    outcomes = numbers(expert(every))
    assert {name: expert.usage()[name] for name in ("image_passes", "forward_passes")} == {
        "image_passes": len({*SOURCES, *EDITS}),
        "forward_passes": 1,
    }
    expert(every[::-1])
    assert expert.usage()["forward_passes"] == 1
    alone = torch.cat([numbers(loaded(checkpoint, batch=1)([query])) for query in every])
    assert (outcomes - alone).abs().max() < 1e-4


def test_source_and_edit_are_told_apart(checkpoint):
    one, other = SOURCES
    there, back = Rate(other, "x", sources=(one,)), Rate(one, "x", sources=(other,))
    forth, back_again = numbers(loaded(checkpoint)([there, back]))
    assert (forth - back_again).abs().max() > 0.01


def test_what_is_no_edit_fails_by_itself_and_says_why(checkpoint):
    picture_alone = Rate(EDITS[0], "make it blue")
    two = Rate(EDITS[0], "make it blue", sources=tuple(SOURCES))
    silent = Rate(EDITS[0], "", sources=(SOURCES[0],))
    variance = Rate(EDITS[0], "make it blue", "log_variance", (SOURCES[0],))
    good, *bad = loaded(checkpoint)([queries()[0], picture_alone, two, silent, variance])
    assert isinstance(good, Measurement)
    messages = [
        "one source image, got 0",
        "one source image, got 2",
        "which is the instruction, is empty",
        f"rates preference, {FOLLOWING}, {QUALITY} only",
    ]
    for outcome, words in zip(bad, messages, strict=True):
        assert isinstance(outcome, Failure)
        assert words in outcome.reason


def test_the_authors_texts_are_given_as_a_folder_and_are_in_the_id(checkpoint, tmp_path):
    with pytest.raises(ValueError, match=r"following.txt' is no file"):
        EditReward(template=str(tmp_path))
    with pytest.raises(ValueError, match=r"is not a folder: give one with following.txt and quality.txt"):
        EditReward(template=str(tmp_path / "nowhere"))
    for name in ("following", "quality"):
        (tmp_path / f"{name}.txt").write_text(f"\n{name}? {{text_prompt}}\n<|Reward|>\nEND\n", encoding="utf-8")
    expert = loaded(checkpoint, template=str(tmp_path))
    assert build(spec_of(expert), "editcritic.experts").id == expert.id
    ours, theirs = loaded(checkpoint).id, expert.id
    assert ours.count("ours:") == theirs.count("given:") == 2
    assert (numbers(expert(queries())) - checkpoint.heads.mean(0)).abs().max() > 0.01
    (tmp_path / "quality.txt").write_text("quality? {prompt} <|Reward|>", encoding="utf-8")
    changed = loaded(checkpoint, template=str(tmp_path))
    assert changed.id not in (ours, theirs)
    same = numbers(changed(queries(FOLLOWING))) - numbers(expert(queries(FOLLOWING)))
    assert same.abs().max() < 1e-4


def test_names_of_older_transformers_and_pickles_load(checkpoint, tmp_path):
    old = {
        key.replace("model.visual.", "visual.").replace("model.language_model.", "model."): value
        for key, value in checkpoint.weights.items()
    }
    assert {current_parameter_name(key) for key in old} == checkpoint.weights.keys() != old.keys()
    put({"model": old}, tmp_path / "model.pth")
    outcomes = EditReward(str(tmp_path / "model.pth"), base=str(checkpoint.base))(queries())
    assert outcomes == loaded(checkpoint)(queries())


def test_one_model_is_not_taken_for_the_other(checkpoint, tmp_path):
    with pytest.raises(ExpertDown, match=r"is a qwen2_5_vl, expected a qwen2_vl"):
        Hpsv3(str(checkpoint.folder), base=str(checkpoint.base)).load()
    weights = {key: value for key, value in checkpoint.weights.items() if "head_1" not in key}
    put(weights, tmp_path / "model.safetensors")
    with pytest.raises(ExpertDown, match=r"6 parameters \(rm_heads.head_1.0.bias, .* missing"):
        EditReward(str(tmp_path), base=str(checkpoint.base)).load()


def test_the_published_table_is_the_model_of_the_published_configuration():
    config = transformers.Qwen2_5_VLConfig(**PUBLISHED)
    table = formats.load(TABLE).shapes()
    config.text_config.vocab_size = table["model.language_model.embed_tokens.weight"][0]
    expected_shapes = {name: shape for name, shape in table.items() if name != "lm_head.weight"}
    assert expected_parameters(config, EditRewardHeads.heads) == expected_shapes
    assert formats.load(TABLE).file == EditReward.weights_file


PUBLISHED = {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "vision_config": {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "out_hidden_size": 3584,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
    },
    "vocab_size": 152064,
}
"""Qwen/Qwen2.5-VL-7B-Instruct, config.json: the values that determine shapes."""
