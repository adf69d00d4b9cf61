"""LaionAesthetics: published heads on a CLIP, loaded as by users, equal transformers' plain call."""

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file

from editcritic.reward.config import build
from editcritic.reward.experts.laion_aesthetics import LaionAesthetics
from editcritic.reward.experts.loading.state_dicts import score_head, strip_prefix
from editcritic.reward.queries import ExpertDown, Failure, Measurement, Rate
from editcritic.reward.queries.specs import spec_of

from . import formats
from .tiny_clips import clip_config, picture, saved_processor

PICTURES = [picture(number) for number in range(5)]
HEADS = {
    "laion_aesthetics_v1": ("", [0]),
    "laion_aesthetics_v2": ("layers.", [0, 2, 4, 6, 7]),
    "laion_aesthetics_v2_relu": ("layers.", [0, 3, 6, 9, 11]),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A CLIP with both towers, as OpenAI's is published."""
    folder = tmp_path_factory.mktemp("clip")
    saved_processor(folder)
    torch.manual_seed(2)
    model = transformers.CLIPModel(clip_config(hidden_act="quick_gelu"))
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.mul_(4.0)
    model.save_pretrained(folder)
    return str(folder)


def head(name):
    outcomes = formats.load(name).random(seed=4, vector=16)
    # Of a typical size, and different for each image.
    return {key: each * (8 / each.shape[1] ** 0.5 if each.dim() > 1 else 1) for key, each in outcomes.items()}


@pytest.fixture(scope="module", params=list(HEADS))
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def file(kind, tmp_path_factory):
    file = tmp_path_factory.mktemp("head") / formats.load(kind).file
    torch.save(head(kind), file)
    return str(file)


@pytest.fixture
def expert(file, base):
    return LaionAesthetics(file, base=base, device="cpu", batch=2)


def plainly(base, image, kind):
    """The authors' computation for one image."""
    model = transformers.CLIPModel.from_pretrained(base).eval()
    processor = transformers.AutoProcessor.from_pretrained(base)
    prefix, layers = HEADS[kind]
    state = head(kind)
    with torch.no_grad():
        x = model.get_image_features(**processor(images=image.pil(), return_tensors="pt")).pooler_output[0]
        x = x / x.norm()
        for n in layers:
            name = f"{prefix}{n}." if prefix else ""
            x = torch.nn.functional.linear(x, state[f"{name}weight"], state[f"{name}bias"])
            x = x.relu() if kind.endswith("relu") and n != layers[-1] else x
    return x.item()


def values(outcomes):
    assert all(isinstance(outcome, Measurement) for outcome in outcomes), outcomes
    return np.array([outcome.value for outcome in outcomes])


def rate(image, prompt=""):
    return Rate(image, prompt, "aesthetics")


def test_names_and_shapes_are_those_of_the_published_heads(kind):
    prefix, _ = HEADS[kind]
    shapes = formats.load(kind).shapes()
    state = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    made, info = score_head(strip_prefix(state, prefix))
    assert not info["missing_keys"]
    own = {prefix + name: tuple(each.shape) for name, each in made.state_dict().items()}
    assert own == ({f"0.{name}": shape for name, shape in shapes.items()} if not prefix else shapes)
    assert made[0].in_features == 768


def test_ratings_are_the_authors_of_one_at_a_time(expert, base, kind):
    expected = np.array([plainly(base, image, kind) for image in PICTURES])
    assert np.ptp(expected) > 0.05
    outcomes = expert([rate(image) for image in PICTURES])
    assert np.abs(values(outcomes) - expected).max() < 1e-4
    rate(PICTURES[0]).check(outcomes[0])
    assert build(spec_of(expert), "editcritic.experts").id == expert.id


def test_prompt_and_sources_do_not_matter_and_a_picture_is_encoded_once(expert):
    image = PICTURES[0]
    outcomes = expert([rate(image), rate(image, "a cat"), Rate(image, "", "aesthetics", (PICTURES[1],))])
    assert len(set(values(outcomes))) == 1
    assert expert.usage()["image_passes"] == 1


def test_other_qualities_fail(expert):
    failed, rated = expert([Rate(PICTURES[0], "a cat"), rate(PICTURES[0])])
    assert isinstance(failed, Failure)
    assert "rates aesthetics only, got preference" in failed.reason
    assert isinstance(rated, Measurement)


@pytest.mark.parametrize("kind", ["laion_aesthetics_v2"], indirect=True)
def test_the_head_computes_in_full_precision_beside_a_tower_in_less(file, base):
    half = LaionAesthetics(file, base=base, device="cpu", dtype="bfloat16")
    rate(PICTURES[0]).check(half([rate(PICTURES[0])])[0])
    with half.checkpoint.use() as loaded:
        kinds = {part: next(loaded.model[part].parameters()).dtype for part in ("tower", "head")}
    assert kinds == {"tower": torch.bfloat16, "head": torch.float32}


@pytest.mark.parametrize(
    ("kind", "prefix"), [("laion_aesthetics_v1", "predictor."), ("laion_aesthetics_v2", "layers.")]
)
def test_a_port_with_tower_and_head_in_one_file_is_the_same(tmp_path, base, kind, prefix):
    tower = transformers.CLIPVisionModelWithProjection.from_pretrained(base)
    named = {name if name.startswith(prefix) else prefix + name: each for name, each in head(kind).items()}
    positions = {"vision_model.embeddings.position_ids": torch.arange(17)[None]}
    save_file({**tower.state_dict(), **named, **positions}, tmp_path / "model.safetensors")
    outcomes = LaionAesthetics(str(tmp_path / "model.safetensors"), base=base, device="cpu")([rate(PICTURES[2])])
    assert abs(values(outcomes)[0] - plainly(base, PICTURES[2], kind)) < 1e-4


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"layers.0.weight": torch.zeros(1, 16)}, r"lacks 1 of its weights \(head 0.bias\)"),
        (
            {"weight": torch.zeros(1, 8), "bias": torch.zeros(1)},
            "its head expects vectors of length 8, those of .* have 16",
        ),
        ({"up.weight": torch.zeros(1, 8)}, r"its head has weights up.weight, expected one layer"),
        (
            {**head("laion_aesthetics_v2"), "more": torch.zeros(1)},
            r"its head has weights layers.0.bias, .*, expected",
        ),
    ],
)
def test_a_head_of_another_kind_is_down_and_says_why(tmp_path, base, state, message):
    torch.save(state, tmp_path / "head.pth")
    with pytest.raises(ExpertDown, match=message):
        LaionAesthetics(str(tmp_path / "head.pth"), base=base, device="cpu").load()
