"""PickScore: checkpoints in the published layout, loaded as by users, equal transformers' plain call."""

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file

from editcritic.reward.config import build
from editcritic.reward.experts.clip_preference import PickScore
from editcritic.reward.queries import ExpertDown, Failure, Measurement, Rate
from editcritic.reward.queries.specs import spec_of

from . import formats
from .tiny_clips import LENGTH, SMALL, clip_config, picture, published_config, saved_processor

PICTURES = [picture(number) for number in range(5)]
PROMPTS = ["a cat", "two red boats", "sky", "the lamp is off now", "x"]
PAIRS = list(zip(PICTURES, PROMPTS, strict=True))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return saved_processor(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """As saved by transformers of 2023, with position buffers."""
    folder = tmp_path_factory.mktemp("pickscore")
    clip_config().save_pretrained(folder)
    weights = formats.load("pickscore").random(seed=3, **SMALL) | {"logit_scale": torch.tensor(np.log(100.0))}
    counts = {"text_model": LENGTH, "vision_model": 17}
    positions = {f"{tower}.embeddings.position_ids": torch.arange(n)[None] for tower, n in counts.items()}
    save_file({**weights, **positions}, folder / "model.safetensors", {"format": "pt"})
    return str(folder)


@pytest.fixture
def expert(folder, base):
    return PickScore(folder, base=base, device="cpu", batch=2)


def plainly(folder, base, image, prompt):
    """The authors' computation for one image."""
    model = transformers.CLIPModel.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(base)
    words = processor.tokenizer(prompt, truncation=True, max_length=LENGTH, return_tensors="pt")
    with torch.no_grad():
        features = model.get_image_features(**processor(images=image.pil(), return_tensors="pt")).pooler_output
        read = model.get_text_features(**words).pooler_output
        return (model.logit_scale.exp() * (read / read.norm()) @ (features / features.norm()).T).item()


def values(outcomes):
    assert all(isinstance(outcome, Measurement) for outcome in outcomes), outcomes
    return np.array([outcome.value for outcome in outcomes])


def test_names_and_shapes_are_those_of_the_published_model():
    with torch.device("meta"):
        model = transformers.CLIPModel(published_config())
    assert {name: tuple(each.shape) for name, each in model.state_dict().items()} == formats.load("pickscore").shapes()


def test_ratings_are_the_authors_of_one_at_a_time(expert, folder, base):
    expected = np.array([plainly(folder, base, *pair) for pair in PAIRS])
    outcomes = expert([Rate(*pair) for pair in PAIRS])
    assert np.ptp(expected) > 5
    assert np.abs(values(outcomes) - expected).max() < 1e-3
    for pair, outcome in zip(PAIRS, outcomes, strict=True):
        Rate(*pair).check(outcome)


def test_each_picture_and_each_prompt_is_computed_once(expert):
    expert([Rate(image, prompt) for image in PICTURES[:3] for prompt in PROMPTS[:2]])
    assert expert.usage()["image_passes"] == 5
    expert([Rate(PICTURES[0], PROMPTS[1])])
    assert expert.usage()["image_passes"] == 5


def test_a_long_prompt_is_cut_as_the_authors_do_and_counted_or_fails(expert, folder, base):
    long = "a " * LENGTH
    (outcome,) = expert([Rate(PICTURES[0], long)])
    assert abs(outcome.value - plainly(folder, base, PICTURES[0], long)) < 1e-3
    assert expert.usage()["prompts_cut"] == 1
    strict = PickScore(folder, base=base, device="cpu", truncate_prompt=False)
    refused, short = strict([Rate(PICTURES[0], long), Rate(PICTURES[0], "a cat")])
    assert isinstance(refused, Failure)
    assert f"{LENGTH + 2} tokens is longer than the {LENGTH}" in refused.reason
    assert isinstance(short, Measurement)
    assert strict.id != expert.id
    assert build(spec_of(strict), "editcritic.experts").id == strict.id


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Rate(PICTURES[0], "a cat", "aesthetics"), "rates preference only, got aesthetics"),
        (Rate(PICTURES[0]), "the prompt is empty"),
        (Rate(PICTURES[0], " \n"), "the prompt is empty"),
    ],
)
def test_what_it_cannot_rate_fails_and_the_rest_is_rated(expert, query, message):
    failed, rated = expert([query, Rate(PICTURES[0], "a cat")])
    assert isinstance(failed, Failure)
    assert message in failed.reason
    assert isinstance(rated, Measurement)


def test_sources_do_not_matter(expert):
    alone, beside = expert([Rate(PICTURES[0], "x"), Rate(PICTURES[0], "x", sources=(PICTURES[1],))])
    assert alone == beside


def test_a_checkpoint_without_one_tower_is_down(tmp_path, folder, base):
    weights = formats.load("pickscore").random(**SMALL)
    kept = {name: value for name, value in weights.items() if not name.startswith("text_model.encoder")}
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    clip_config().save_pretrained(tmp_path)
    with pytest.raises(ExpertDown, match=r"lacks 32 of its weights"):
        PickScore(str(tmp_path), base=base, device="cpu").load()


def test_another_kind_of_model_is_down(tmp_path, base):
    transformers.SiglipConfig().save_pretrained(tmp_path)
    with pytest.raises(ExpertDown, match="is a siglip: give a checkpoint of clip"):
        PickScore(str(tmp_path), base=base, device="cpu").load()
