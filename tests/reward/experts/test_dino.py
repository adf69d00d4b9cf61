"""Dino: tiny random DINOs, loaded as by users, equal transformers' plain call; each image is encoded once."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest
import torch
import transformers

from editcritic.reward import Box, Image
from editcritic.reward.experts.dino import Dino
from editcritic.reward.queries import Embed, ExpertDown, Region

TINY: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.3}
CONFIGS = {
    "dinov3": transformers.DINOv3ViTConfig(
        **TINY, patch_size=16, image_size=64, num_register_tokens=4, intermediate_size=64, layerscale_value=0.5
    ),
    "dinov2": transformers.Dinov2Config(**TINY, patch_size=14, image_size=56, mlp_ratio=2),
    "registers": transformers.Dinov2WithRegistersConfig(
        **TINY, patch_size=14, image_size=56, mlp_ratio=2, num_register_tokens=3
    ),
    "oblong": transformers.DINOv3ViTConfig(**TINY, patch_size=16, num_register_tokens=4, intermediate_size=64),
}
PROCESSORS = {
    "dinov3": lambda: transformers.DINOv3ViTImageProcessor(size={"height": 64, "width": 64}),
    "dinov2": lambda: transformers.BitImageProcessor(size={"shortest_edge": 64}, crop_size={"height": 56, "width": 56}),
    "registers": lambda: transformers.BitImageProcessor(
        size={"shortest_edge": 64}, crop_size={"height": 56, "width": 56}
    ),
    "oblong": lambda: transformers.DINOv3ViTImageProcessor(size={"height": 32, "width": 96}),
}
LAYOUTS = {"dinov3": (4, 4, 4), "dinov2": (0, 4, 4), "registers": (3, 4, 4), "oblong": (4, 2, 6)}
"""Registers, rows, columns."""

SIZES = [(64, 64), (90, 40), (31, 77), (200, 150), (5, 3)]


def picture(number: int) -> Image:
    """Patches of random colours, of one size of `SIZES`."""
    width, height = SIZES[number % len(SIZES)]
    coarse = np.random.default_rng(number).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.of(coarse[np.arange(height) * 6 // height][:, np.arange(width) * 6 // width])


PICTURES = [picture(number) for number in range(7)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    def saved(kind):
        torch.manual_seed(3)
        folder = tmp_path_factory.mktemp(kind)
        model = transformers.AutoModel.from_config(CONFIGS[kind])
        with torch.no_grad():
            for name, weights in model.named_parameters():
                if "register" in name or "cls_token" in name:
                    weights.normal_()
        model.save_pretrained(folder)
        PROCESSORS[kind]().save_pretrained(folder)
        return folder

    return {kind: saved(kind) for kind in CONFIGS}


@pytest.fixture(scope="module", params=list(CONFIGS))
def kind(request):
    return request.param


def plainly(folder, image, **sides):
    """All tokens of an image from transformers' plain call."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    pixels = processor(image.pil(), return_tensors="pt", **sides)["pixel_values"]
    with torch.no_grad():
        return model(pixels).last_hidden_state[0].numpy()


def whole(kind):
    """Options that resize the whole image to a square instead of DINOv2's centre crop."""
    return {} if kind in ("dinov3", "oblong") else {"do_center_crop": False, "size": {"height": 56, "width": 56}}


def counting(expert):
    """Records the batch sizes of forward passes."""
    sizes: list[int] = []
    with expert.checkpoint.use() as loaded:
        loaded.model.register_forward_pre_hook(
            lambda _, args, kwargs: sizes.append(len(kwargs["pixel_values"])), with_kwargs=True
        )
    return sizes


ALL = (Region("cls"), Region("patches"), Region("tokens"))


def difference(expert, expected):
    """The largest difference over class token, patch mean and token mean of all images in one batch."""
    outcomes = expert([Embed(image, ALL) for image in PICTURES])
    return max(float(np.abs(each.values - want).max()) for each, want in zip(outcomes, expected, strict=True))


def pooled(tokens, registers):
    return np.stack([tokens[0], tokens[1 + registers :].mean(0), tokens[1:].mean(0)])


def test_it_is_the_plain_call_on_one_picture_at_a_time(folders, kind):
    registers, rows, columns = LAYOUTS[kind]
    maps = [plainly(folders[kind], image, **whole(kind)) for image in PICTURES]
    assert {len(tokens) for tokens in maps} == {1 + registers + rows * columns}
    expected = [pooled(tokens, registers) for tokens in maps]
    assert np.ptp(expected, axis=0).max(axis=1).min() > 0.1  # images differ in each of the three
    assert difference(Dino(str(folders[kind])), expected) < 1e-4


def test_the_comparison_would_see_registers_taken_for_patches(folders):
    maps = [plainly(folders["dinov3"], image) for image in PICTURES]
    assert difference(Dino(str(folders["dinov3"])), [pooled(tokens, 0) for tokens in maps]) > 0.05


def test_the_comparison_would_see_the_center_crop(folders):
    maps = [plainly(folders["dinov2"], image) for image in PICTURES]
    assert difference(Dino(str(folders["dinov2"])), [pooled(tokens, 0) for tokens in maps]) > 0.05


BOXES = (Box(0.3, 0.25, 0.4, 0.5), Box(0.9, 0.9, 0.2, 0.2))


def by_hand(tokens, registers, rows, columns, size):
    """Outside of BOXES: the mask at 224 x 224, averaged over each patch, in plain loops."""
    total, weight, patches = np.zeros(tokens.shape[1]), 0.0, 0
    mask = PIL.Image.new("L", size, 1)
    for box in BOXES:
        PIL.ImageDraw.Draw(mask).rectangle(box.corners(size), fill=0)
    free = np.asarray(mask.resize((224, 224), PIL.Image.Resampling.NEAREST), float)
    for row in range(rows):
        for column in range(columns):
            token = tokens[1 + registers + row * columns + column].astype(float)
            # Neighbouring patches share a pixel where 224 is not a multiple of their number.
            top, bottom = row * 224 // rows, -(-(row + 1) * 224 // rows)
            left, right = column * 224 // columns, -(-(column + 1) * 224 // columns)
            share = free[top:bottom, left:right].mean()
            patches += share > 0
            if share >= 0.5:
                total += share * token / np.linalg.norm(token)
                weight += share
    return total / weight, patches


def test_what_boxes_leave_free_is_pooled_where_it_is(folders, kind):
    registers, rows, columns = LAYOUTS[kind]
    outcomes = Dino(str(folders[kind]))([Embed(image, (Region(exclude=BOXES),)) for image in PICTURES])
    for image, vectors in zip(PICTURES, outcomes, strict=True):
        tokens = plainly(folders[kind], image, **whole(kind))
        vector, patches = by_hand(tokens, registers, rows, columns, image.size)
        assert vectors.values[0] == pytest.approx(vector, abs=1e-4)
        assert vectors.patches.tolist() == [patches]


def test_the_comparison_would_see_rows_taken_for_columns(folders):
    registers, rows, columns = LAYOUTS["oblong"]
    outcomes = Dino(str(folders["oblong"]))([Embed(image, (Region(exclude=BOXES),)) for image in PICTURES])
    swapped = [
        by_hand(plainly(folders["oblong"], image), registers, columns, rows, image.size)[0] for image in PICTURES
    ]
    assert max(np.abs(each.values[0] - wrong).max() for each, wrong in zip(outcomes, swapped, strict=True)) > 0.02


def test_a_picture_is_seen_once_whatever_is_asked_about_it_until_the_weights_are_given_back(folders):
    expert = Dino(str(folders["registers"]))
    sizes = counting(expert)
    first, second = PICTURES[:2]
    queries = [Embed(first, ALL), Embed(second, (Region(exclude=BOXES),)), Embed(first, (Region("cls"),))]
    before = expert(queries)
    assert sizes == [2]
    expert([Embed(second, ALL)])
    assert sizes == [2]
    assert expert.bytes["cache"] == 2 * (1 + 3 + 16) * 32 * 4
    expert.unload()
    assert expert.bytes == {"cache": 0}
    sizes = counting(expert)
    after = expert(queries)
    assert sizes == [2]
    assert all((a.values == b.values).all() for a, b in zip(before, after, strict=True))


def test_a_batch_is_no_larger_than_allowed_and_changes_nothing(folders):
    one, many = Dino(str(folders["dinov3"]), batch=2), Dino(str(folders["dinov3"]))
    queries = [Embed(image, ALL) for image in PICTURES]
    together = many(queries)
    sizes = counting(one)  # of the shared model
    for a, b in zip(one(queries), together, strict=True):
        assert a.values == pytest.approx(b.values, abs=1e-4)
    assert sizes == [2, 2, 2, 1]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_answers_are_what_the_query_asks_for_at_any_precision(folders, kind, dtype):
    queries = [Embed(image, (*ALL, Region(exclude=BOXES))) for image in PICTURES[:2]]
    for query, vectors in zip(queries, Dino(str(folders[kind]), dtype=dtype)(queries), strict=True):
        query.check(vectors)


def test_memory_without_room_still_answers(folders):
    expert = Dino(str(folders["dinov3"]), cache_bytes=1)
    assert len(expert([Embed(image, ALL) for image in PICTURES])) == len(PICTURES)
    assert expert.bytes["cache"] == 0


@pytest.mark.parametrize("kind", ["dinov3", "dinov2"])
def test_another_size_is_another_grid_and_another_id(folders, kind):
    side = CONFIGS[kind].patch_size * 6
    larger, plain = Dino(str(folders[kind]), size=side), Dino(str(folders[kind]))
    (vectors,) = larger([Embed(PICTURES[1], ALL)])
    options = {"do_center_crop": False, "size": {"height": side, "width": side}}
    tokens = plainly(folders[kind], PICTURES[1], **options)
    assert vectors.values == pytest.approx(pooled(tokens, LAYOUTS[kind][0]), abs=1e-4)
    assert vectors.patches.tolist() == [36, 36, 36 + LAYOUTS[kind][0]]
    assert larger.id != plain.id


def test_a_size_that_cuts_patches_is_refused(folders):
    with pytest.raises(ExpertDown, match="patches of 14 x 14 pixels, which do not divide 60 x 60"):
        Dino(str(folders["dinov2"]), size=60).load()


def test_a_model_without_a_grid_of_patches_is_down_at_once(tmp_path):
    config = transformers.DINOv3ConvNextConfig(hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1])
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
    PROCESSORS["dinov3"]().save_pretrained(tmp_path)
    with pytest.raises(ExpertDown, match=r"is a dinov3_convnext: give a checkpoint of dinov3_vit or"):
        Dino(str(tmp_path)).load()


def test_tokens_that_do_not_fit_are_an_error_that_says_what_was_found(folders, monkeypatch):
    expert = Dino(str(folders["dinov3"]))
    with expert.checkpoint.use() as loaded:
        states = SimpleNamespace(last_hidden_state=torch.zeros(1, 20, 32))
        monkeypatch.setattr(loaded.model, "forward", lambda **_: states)
    with pytest.raises(
        ExpertDown, match=r"returned 20 tokens for images of \(64, 64\), expected .* 4 registers and 4 x 4"
    ):
        expert([Embed(PICTURES[0], ALL)])


@pytest.mark.parametrize("options", [{"size": 0}, {"batch": 0}])
def test_options_that_mean_nothing_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Dino("anywhere", **options)
