"""Dino: tiny random DINOs, loaded as by users, equal transformers' plain call; each image is encoded once."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from editcritic.reward import Box
from editcritic.reward.experts.dino import Dino
from editcritic.reward.experts.loading.pooling import pool_region
from editcritic.reward.queries import Embed, ExpertDown, Region

from .asking import assert_down
from .checkpoints import counted_passes
from .pictures import patches

TINY: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.3}
THREE: dict[str, Any] = {**TINY, "patch_size": 16, "num_register_tokens": 4, "intermediate_size": 64}
TWO: dict[str, Any] = {**TINY, "patch_size": 14, "image_size": 56, "mlp_ratio": 2}
CROPPED = transformers.BitImageProcessor(size={"shortest_edge": 64}, crop_size={"height": 56, "width": 56})
SQUARE, OBLONG = (
    transformers.DINOv3ViTImageProcessor(size={"height": height, "width": width})
    for height, width in [(64, 64), (32, 96)]
)
KINDS: dict[str, tuple[Any, Any, tuple[int, int, int]]] = {
    "dinov3": (transformers.DINOv3ViTConfig(**THREE, image_size=64, layerscale_value=0.5), SQUARE, (4, 4, 4)),
    "dinov2": (transformers.Dinov2Config(**TWO), CROPPED, (0, 4, 4)),
    "registers": (transformers.Dinov2WithRegistersConfig(**TWO, num_register_tokens=3), CROPPED, (3, 4, 4)),
    "oblong": (transformers.DINOv3ViTConfig(**THREE), OBLONG, (4, 2, 6)),
}
"""By name: configuration, processor; registers, rows, columns."""
PICTURES = [patches(n, size) for n, size in enumerate([(64, 64), (90, 40), (31, 77), (200, 150), (5, 3), (64, 64)])]
ALL = (Region("cls"), Region("patches"), Region("tokens"))
OUTSIDE = Region(exclude=(Box(0.3, 0.25, 0.4, 0.5), Box(0.9, 0.9, 0.2, 0.2)))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    def saved(kind):
        torch.manual_seed(3)
        folder = tmp_path_factory.mktemp(kind)
        model = transformers.AutoModel.from_config(KINDS[kind][0])
        with torch.no_grad():
            for name, weights in model.named_parameters():
                if "register" in name or "cls_token" in name:
                    weights.normal_()
        model.save_pretrained(folder)
        KINDS[kind][1].save_pretrained(folder)
        return str(folder)

    return {kind: saved(kind) for kind in KINDS}


@pytest.fixture(scope="module", params=list(KINDS))
def kind(request):
    return request.param


def plainly(folder, image, side=56, cropped=False):
    """All tokens of an image from transformers' plain call. cropped: as DINOv2's processor does, instead of resized."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    resized = hasattr(processor, "crop_size") and processor.crop_size and not cropped
    whole = {"do_center_crop": False, "size": {"height": side, "width": side}} if resized or side != 56 else {}
    with torch.no_grad():
        return model(processor(image.pil(), return_tensors="pt", **whole)["pixel_values"]).last_hidden_state[0].numpy()


def pooled(tokens, registers):
    return np.stack([tokens[0], tokens[1 + registers :].mean(0), tokens[1:].mean(0)])


def largest(outcomes, expected):
    return max(float(np.abs(each.values - want).max()) for each, want in zip(outcomes, expected, strict=True))


def test_it_is_the_plain_call_on_one_picture_at_a_time(folders, kind):
    registers, rows, columns = KINDS[kind][2]
    maps = [plainly(folders[kind], image) for image in PICTURES]
    assert {len(tokens) for tokens in maps} == {1 + registers + rows * columns}
    expected = [pooled(tokens, registers) for tokens in maps]
    assert np.ptp(expected, axis=0).max(axis=1).min() > 0.1  # images differ in each of the three
    expert = Dino(folders[kind])
    outcomes = expert([Embed(image, ALL) for image in PICTURES])
    assert largest(outcomes, expected) < 1e-4
    if registers:  # the comparison would see registers taken for patches
        assert largest(outcomes, [pooled(tokens, 0) for tokens in maps]) > 0.05
    if kind == "dinov2":  # and the centre crop
        cropped = [pooled(plainly(folders[kind], image, cropped=True), 0) for image in PICTURES]
        assert largest(outcomes, cropped) > 0.05
    queries = [Embed(image, (*ALL, OUTSIDE)) for image in PICTURES[:2]]
    for query, vectors in zip(queries, Dino(folders[kind], dtype="bfloat16")(queries), strict=True):
        query.check(vectors)
    free = expert([Embed(image, (OUTSIDE,)) for image in PICTURES])
    pairs = list(zip(maps, PICTURES, strict=True))
    plain = [pool_region(tokens, registers, (rows, columns), OUTSIDE, image.size) for tokens, image in pairs]
    assert largest(free, [vector for vector, _ in plain]) < 1e-4
    assert [outcome.patches.tolist() for outcome in free] == [[count] for _, count in plain]
    if rows != columns:  # and rows taken for columns
        swapped = [pool_region(tokens, registers, (columns, rows), OUTSIDE, image.size)[0] for tokens, image in pairs]
        assert largest(free, swapped) > 0.02


def test_a_picture_is_seen_once_whatever_is_asked_about_it_until_the_weights_are_given_back(folders):
    expert = Dino(folders["registers"])
    sizes = counted_passes(expert, {"pictures": "embeddings"})["pictures"]
    first, second = PICTURES[:2]
    queries = [Embed(first, ALL), Embed(second, (OUTSIDE,)), Embed(first, (Region("cls"),))]
    before = expert(queries)
    expert([Embed(second, ALL)])
    assert sizes == [2]
    assert expert.bytes["cache"] == 2 * (1 + 3 + 16) * 32 * 4
    expert.unload()
    assert expert.bytes == {"cache": 0}
    sizes = counted_passes(expert, {"pictures": "embeddings"})["pictures"]
    after = expert(queries)
    assert sizes == [2]
    assert all((a.values == b.values).all() for a, b in zip(before, after, strict=True))
    queries = [Embed(image, ALL) for image in PICTURES]
    one = Dino(folders["dinov3"], batch=4, cache_bytes=1)
    sizes = counted_passes(one, {"pictures": "embeddings"})["pictures"]
    assert largest(one(queries), [outcome.values for outcome in Dino(folders["dinov3"])(queries)]) < 1e-4
    assert sizes[:2] == [4, 2]
    assert one.bytes["cache"] == 0


@pytest.mark.parametrize("kind", ["dinov3", "dinov2"])
def test_another_size_is_another_grid_and_another_id(folders, kind):
    side, registers = KINDS[kind][0].patch_size * 6, KINDS[kind][2][0]
    larger, plain = Dino(folders[kind], size=side), Dino(folders[kind])
    (vectors,) = larger([Embed(PICTURES[1], ALL)])
    assert vectors.values == pytest.approx(pooled(plainly(folders[kind], PICTURES[1], side), registers), abs=1e-4)
    assert vectors.patches.tolist() == [36, 36, 36 + registers]
    assert larger.id != plain.id


def test_what_it_cannot_use_is_refused_and_tokens_that_do_not_fit(folders, tmp_path, monkeypatch):
    assert_down(Dino(folders["dinov2"], size=60), "patches of 14 x 14 pixels, which do not divide 60 x 60")
    config = transformers.DINOv3ConvNextConfig(hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1])
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
    SQUARE.save_pretrained(tmp_path)
    assert_down(Dino(str(tmp_path)), r"is a dinov3_convnext: give a checkpoint of dinov3_vit or")
    for option in ("size", "batch"):
        options: Any = {option: 0}
        with pytest.raises(ValueError, match=option):
            Dino("anywhere", **options)
    expert = Dino(folders["dinov3"])
    with expert.checkpoint.use() as loaded:
        states = SimpleNamespace(last_hidden_state=torch.zeros(1, 20, 32))
        monkeypatch.setattr(loaded.model, "forward", lambda **_: states)
    found = r"returned 20 tokens for images of \(64, 64\), expected .* 4 registers and 4 x 4"
    with pytest.raises(ExpertDown, match=found):
        expert([Embed(PICTURES[0], ALL)])
