"""HPSv2: a file in open_clip's layout, loaded as by users, equals open_clip's architecture.

The architecture is reimplemented here with torch's attention and the file's parameter names.
"""

import numpy as np
import pytest
import torch
import transformers
from torch.nn import functional

from editcritic.reward import Image
from editcritic.reward.config import build
from editcritic.reward.experts.clip_preference import Hpsv2, PaddedImageProcessor, clip_names
from editcritic.reward.queries import ExpertDown, Failure, Measurement, Rate
from editcritic.reward.queries.specs import spec_of

from . import formats
from .tiny_clips import LENGTH, SMALL, clip_tokenizer, picture, published_config, saved_processor

PICTURES = [picture(number) for number in range(5)]
PROMPTS = ["a cat", "two red boats", "sky", "the lamp is off now", "x"]
PAIRS = list(zip(PICTURES, PROMPTS, strict=True))


def weights():
    return formats.load("hpsv2").random(seed=6, **SMALL)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return saved_processor(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A training state in half precision, as published."""
    folder = tmp_path_factory.mktemp("hpsv2")
    state = {name: value.half() for name, value in weights().items()}
    torch.save({"epoch": 1, "state_dict": state}, folder / "HPS_v2.1_compressed.pt")
    return str(folder)


@pytest.fixture
def expert(folder, base):
    return Hpsv2(folder, base=base, device="cpu", batch=2)


def transformer(state, prefix, x, mask=None):
    """Attention over one sequence, n x d."""

    def weight(name):
        return state[f"{prefix}{name}"]

    def norm(name, x):
        return functional.layer_norm(x, x.shape[-1:], weight(f"{name}.weight"), weight(f"{name}.bias"))

    for n in range(2):
        at = f"transformer.resblocks.{n}"
        attention = torch.nn.MultiheadAttention(x.shape[-1], 2)
        names = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
        attention.load_state_dict({name: weight(f"{at}.attn.{name}") for name in names})
        normed = norm(f"{at}.ln_1", x)
        x = x + attention(normed, normed, normed, attn_mask=mask, need_weights=False)[0]
        hidden = functional.linear(
            norm(f"{at}.ln_2", x), weight(f"{at}.mlp.c_fc.weight"), weight(f"{at}.mlp.c_fc.bias")
        )
        x = x + functional.linear(
            functional.gelu(hidden), weight(f"{at}.mlp.c_proj.weight"), weight(f"{at}.mlp.c_proj.bias")
        )
    return x


@torch.no_grad()
def published(image, prompt, antialias=True):
    """The rating of one image."""
    state = {name: value.half().float() for name, value in weights().items()}

    def norm(name, x):
        return functional.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"])

    pixels = PaddedImageProcessor(None, side=32)(images=[image.pil()], antialias=antialias)["pixel_values"]
    patches = functional.conv2d(pixels, state["visual.conv1.weight"], stride=8)[0].flatten(1).T
    x = torch.cat([state["visual.class_embedding"][None], patches]) + state["visual.positional_embedding"]
    x = transformer(state, "visual.", norm("visual.ln_pre", x))
    features = norm("visual.ln_post", x[0]) @ state["visual.proj"]

    tokens = torch.tensor(clip_tokenizer()(prompt, truncation=True, max_length=LENGTH)["input_ids"])
    x = state["token_embedding.weight"][tokens] + state["positional_embedding"][: len(tokens)]
    x = transformer(state, "", x, torch.full((len(tokens),) * 2, -torch.inf).triu(1))
    read = norm("ln_final", x[tokens.argmax()]) @ state["text_projection"]
    return functional.cosine_similarity(features, read, dim=0).item()


def values(outcomes):
    assert all(isinstance(outcome, Measurement) for outcome in outcomes), outcomes
    return np.array([outcome.value for outcome in outcomes])


def test_names_and_shapes_are_those_of_the_published_file():
    with torch.device("meta"):
        state = {name: torch.empty(shape) for name, shape in formats.load("hpsv2").shapes().items()}
        model = transformers.CLIPModel(published_config())
    expected = {name: each.shape for name, each in model.state_dict().items()}
    assert {name: each.shape for name, each in clip_names(state).items()} == expected


def test_ratings_are_those_of_the_published_architecture(expert):
    expected = np.array([published(*pair) for pair in PAIRS])
    assert np.ptp(expected) > 0.1
    ratings = values(expert([Rate(*pair) for pair in PAIRS]))
    assert np.abs(ratings - expected).max() < 1e-5


def test_pictures_are_smoothed_or_not_and_the_id_says_so(expert, folder, base):
    rough = Hpsv2(folder, base=base, device="cpu", antialias=False)
    (smooth,), (ratings,) = (values(each([Rate(*PAIRS[1])])) for each in (expert, rough))
    assert abs(ratings - published(*PAIRS[1], antialias=False)) < 1e-5
    assert abs(ratings - smooth) > 1e-3
    assert rough.id == build(spec_of(rough), "editcritic.experts").id == f"{expert.id} no antialias"


def test_a_long_prompt_is_cut_as_the_authors_do(expert):
    long = "a " * LENGTH
    (ratings,) = values(expert([Rate(PICTURES[0], long)]))
    assert abs(ratings - published(PICTURES[0], long)) < 1e-5
    assert expert.usage()["prompts_cut"] == 1


def test_a_picture_is_seen_whole_between_black_bars():
    wide = np.zeros((20, 80, 3), np.uint8)
    wide[:, :8], wide[:, -8:] = (255, 0, 0), (0, 0, 255)
    features = PaddedImageProcessor(None, side=32)(images=[Image.of(wide).pil()])["pixel_values"][0]
    black, bright = (
        [(value - mean) / deviation for mean, deviation in zip(*MEANS, strict=True)] for value in (0.0, 1.0)
    )
    assert features.shape == (3, 32, 32)
    bars = torch.cat([features[:, :12], features[:, 20:]], 1)
    assert (bars - torch.tensor(black)[:, None, None]).abs().max() < 1e-5
    assert abs(features[0, 16, 0] - bright[0]) < 0.1
    assert abs(features[2, 16, -1] - bright[2]) < 0.1


MEANS = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))


def test_a_picture_of_the_right_size_is_left_alone():
    image = picture(0)
    features = PaddedImageProcessor(None, side=32)(images=[image.pil()])["pixel_values"][0]
    values = features * torch.tensor(MEANS[1])[:, None, None] + torch.tensor(MEANS[0])[:, None, None]
    assert np.array_equal((values * 255).round().permute(1, 2, 0).numpy(), image.pixels)


def test_what_it_cannot_rate_fails(expert):
    failed, empty = expert([Rate(PICTURES[0], "a cat", "aesthetics"), Rate(PICTURES[0])])
    assert isinstance(failed, Failure)
    assert "rates preference only" in failed.reason
    assert isinstance(empty, Failure)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({n: w for n, w in weights().items() if n != "visual.proj"}, r"lacks 1 of its weights \(visual_projection"),
        ({**weights(), "score_predictor.weight": torch.ones(1)}, r"1 weights too many .* \(score_predictor.weight\)"),
        ({**weights(), "ln_final.bias": torch.ones(3)}, r"final_layer_norm.bias has shape \(3,\), expected \(32,\)"),
    ],
)
def test_a_file_of_another_kind_is_down_and_says_why(tmp_path, base, state, message):
    torch.save(state, tmp_path / "any.pt")
    with pytest.raises(ExpertDown, match=message):
        Hpsv2(str(tmp_path / "any.pt"), base=base, device="cpu").load()


def test_a_backend_is_refused(folder, base):
    with pytest.raises(ExpertDown, match="leave backend out"):
        Hpsv2(folder, base=base, device="cpu", backend="torchvision").load()
