"""Upscalers equal the published networks, tile large images, and refuse other weights and larger factors."""

import importlib.metadata
import itertools
import math
import re
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch.nn import functional as F

from editcritic.reward import Image
from editcritic.reward.config import build
from editcritic.reward.experts import upscalers
from editcritic.reward.experts.upscalers import BestAvailableUpscaler, Canvas, Lanczos, RealEsrgan, Swin2Sr, Tiling
from editcritic.reward.installation import install_command
from editcritic.reward.queries import ExpertDown, Upscale, UpscaledImage

from ..fakes import picture
from . import formats
from .asking import assert_down, assert_failed, in_engine, rebuilt

SWIN_SIZES = {"width": 12, "heads": 2, "stages": 2, "layers": 2}
UPSAMPLERS = {"classical": "pixelshuffle", "realworld": "nearest+conv"}


def save_swin(folder: Path, kind: str = "classical", without: tuple[str, ...] = ()) -> str:
    """A checkpoint in the published layout with random weights."""
    table = formats.load(f"swin2sr_{kind}_x4")
    weights = table.random(3, 0.15, **SWIN_SIZES)
    stages = SWIN_SIZES["stages"]
    sizes: dict[str, Any] = {"embed_dim": SWIN_SIZES["width"], "upscale": 4, "upsampler": UPSAMPLERS[kind]}
    sizes |= {"depths": [SWIN_SIZES["layers"]] * stages, "num_heads": [SWIN_SIZES["heads"]] * stages}
    config = transformers.Swin2SRConfig(architectures=["Swin2SRForImageSuperResolution"], **sizes)
    config.save_pretrained(folder)
    transformers.Swin2SRImageProcessor().save_pretrained(folder)
    if table.file.endswith(".bin"):
        torch.save(weights, folder / table.file)
    else:
        save_file({name: value for name, value in weights.items() if name not in without}, folder / table.file)
    return str(folder)


def library(folder: str, image: Image) -> Any:
    """The authors' example of Swin2SR."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    model, info = transformers.Swin2SRForImageSuperResolution.from_pretrained(folder, output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.inference_mode():
        output = model(**processor(image.pil(), return_tensors="pt")).reconstruction[0]
    return output[:, : image.height * 4, : image.width * 4]  # without the padding


ESRGAN = {
    "real_esrgan_x4plus": ("params_ema", {"width": 8, "blocks": 2}, 4, 16_697_987),
    "real_esrgan_x2plus": ("params_ema", {"width": 8, "blocks": 2}, 2, 16_703_171),
    "real_esr_general_x4v3": ("params", {"width": 8}, 4, 1_213_296),
}
"""Key of the weights, sizes of the tiny one, factor, and parameters of the published one."""


def esrgan_weights(name: str) -> dict[str, Any]:
    state = formats.load(name).random(5, 0.1, **ESRGAN[name][1])
    if "conv_last.bias" in state:
        state["conv_last.bias"] = torch.full((3,), 0.5)  # neither black nor white
    return state


def save_esrgan(folder: Path, name: str = "real_esrgan_x4plus", without: tuple[str, ...] = (), **more: Any) -> str:
    path = folder / formats.load(name).file
    kept = {key: value for key, value in esrgan_weights(name).items() if key not in without}
    torch.save({ESRGAN[name][0]: kept | more}, path)
    return str(path)


def published(name: str, _: str, image: Image) -> Any:
    """The network of the paper and the authors' code, reimplemented from its parameter names."""
    w = esrgan_weights(name)

    def conv(x: Any, part: str) -> Any:
        return F.conv2d(x, w[f"{part}.weight"], w[f"{part}.bias"], padding=1)

    def bent(x: Any, part: str) -> Any:
        return F.leaky_relu(conv(x, part), 0.2)

    def dense(x: Any, part: str) -> Any:
        outputs = [x]
        for n in range(1, 5):
            outputs.append(bent(torch.cat(outputs, 1), f"{part}.conv{n}"))
        return x + 0.2 * conv(torch.cat(outputs, 1), f"{part}.conv5")

    inputs = torch.from_numpy(image.pixels.copy()).permute(2, 0, 1)[None] / 255
    if "general" in name:
        x = inputs
        for n in range(0, 66, 2):
            x = F.prelu(conv(x, f"body.{n}"), w[f"body.{n + 1}.weight"])
        return (F.pixel_shuffle(conv(x, "body.66"), 4) + F.interpolate(inputs, scale_factor=4, mode="nearest"))[0]
    x = first = conv(F.pixel_unshuffle(inputs, 2) if "x2" in name else inputs, "conv_first")
    for block in range(2):
        inner = x
        for part in (1, 2, 3):
            inner = dense(inner, f"body.{block}.rdb{part}")
        x = x + 0.2 * inner
    x = first + conv(x, "conv_body")
    for up in ("conv_up1", "conv_up2"):
        x = bent(F.interpolate(x, scale_factor=2, mode="nearest"), up)
    return conv(bent(x, "conv_hr"), "conv_last")[0]


NETWORKS: dict[str, tuple[Any, Callable[[Path], str], Callable[[str, Image], Any], int]] = {
    kind: (Swin2Sr, partial(save_swin, kind=kind), library, 4) for kind in UPSAMPLERS
}
NETWORKS |= {n: (RealEsrgan, partial(save_esrgan, name=n), partial(published, n), row[2]) for n, row in ESRGAN.items()}
"""By name: the expert, its files, the published network, its factor."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The weights of a network by name, made once."""
    return cache(lambda name: NETWORKS[name][1](tmp_path_factory.mktemp(name)))


def expert(saved: Any, name: str, **options: Any) -> Any:
    return NETWORKS[name][0](saved(name), device="cpu", **options)


def apart(one: Any, other: Any) -> tuple[float, float]:
    """The largest and the mean difference, in levels."""
    difference = np.abs(one.astype(int) - other)
    return difference.max(), difference.mean()


def enlarged(expert: Any, *queries: Upscale) -> list[Any]:
    """The pixels of each."""
    return [answer.image.pixels for answer in expert(queries)]


@pytest.mark.parametrize("backend", ["pil", "torchvision"])
@pytest.mark.parametrize("name", NETWORKS)
def test_it_enlarges_as_the_published_network_does(saved, name, backend):
    kind, _, reference, factor = NETWORKS[name]
    for size in [(13, 21), (4, 5), (16, 24)] if kind is Swin2Sr else [(16, 12)]:  # without padding
        image = picture(1, *size)
        (answer,) = enlarged(expert(saved, name, backend=backend), Upscale(image, factor))
        output = reference(saved(name), image).clamp(0, 1).permute(1, 2, 0)
        expected = (output * 255).round().numpy().astype(np.uint8)
        assert answer.shape == expected.shape
        assert apart(answer, expected)[0] <= 1  # one half may be rounded up or down
        assert expected.std() > 3


@pytest.mark.parametrize("name", NETWORKS)
def test_any_size_and_factor_is_enlarged_also_beside_others_and_more_than_it_can_do_fails(saved, name):
    factor = NETWORKS[name][3]
    queries = [Upscale(picture(n, *size), factor) for n, size in enumerate([(1, 1), (5, 3), (17, 9), (5, 3)])]
    upscaler = expert(saved, name)
    *answers, smaller, more = upscaler([*queries, Upscale(queries[2].image, 2), Upscale(picture(1, 5, 3), 8)])
    for query, answer in zip(queries, answers, strict=True):
        assert answer.image.size == (factor * query.image.width, factor * query.image.height)
        assert apart(answer.image.pixels, enlarged(expert(saved, name, batch=1), query)[0])[0] <= 1
    assert np.array_equal(smaller.image.pixels, answers[2].image.resized(34, 18).pixels)  # the model's own made smaller
    assert_failed(more, f"enlarges {factor} times, the query asks for 8: bind an upscaler of 8 or more, or Lanczos")


@pytest.mark.parametrize("name", NETWORKS)
def test_big_pictures_go_through_in_tiles_and_show_no_seams(saved, name):
    kind, _, _, factor = NETWORKS[name]
    image = picture(4, 200, 40)
    tiled, whole = expert(saved, name, tile_size=128), expert(saved, name, tile_size=200)
    (one,), (other,) = enlarged(tiled, Upscale(image, factor)), enlarged(whole, Upscale(image, factor))
    assert tiled.usage()["image_passes"] > whole.usage()["image_passes"] == 1
    most, mean = apart(one, other)
    assert most <= (8 if kind is Swin2Sr else 2)
    assert mean < (0.01 if kind is Swin2Sr else 0.1)
    if name == "classical":  # without overlap there are seams
        parts = [enlarged(tiled, Upscale(image.crop(x, 0, min(x + 96, 200), 40), 4))[0] for x in (0, 96, 192)]
        worst, worse = apart(np.concatenate(parts, 1), other)
        assert worst > 5 * most
        assert worse > 5 * mean
    assert tiled.id != whole.id
    with pytest.raises(ValueError, match="tile_size is a side in pixels, 128 or more, got 64"):
        expert(saved, name, tile_size=64)


def test_the_published_names_and_shapes_are_networks_of_the_published_sizes():
    import spandrel

    for kind, upsampler in UPSAMPLERS.items():
        with torch.device("meta"):
            config = transformers.Swin2SRConfig(upscale=4, upsampler=upsampler)
            model = transformers.Swin2SRForImageSuperResolution(config)
        own = {name: tuple(value.shape) for name, value in model.state_dict().items()}
        assert formats.load(f"swin2sr_{kind}_x4").shapes() == own
    for name, (_, _, factor, size) in ESRGAN.items():
        shapes = formats.load(name).shapes()
        assert sum(map(math.prod, shapes.values())) == size
        with torch.device("meta"):
            state = {key: torch.empty(shape) for key, shape in shapes.items()}
            descriptor = spandrel.ModelLoader("meta").load_from_state_dict(state)
        found = sorted(tuple(value.shape) for value in descriptor.model.state_dict().values())
        assert found == sorted(shapes.values())
        assert (descriptor.scale, descriptor.input_channels, descriptor.output_channels) == (factor, 3, 3)


def test_a_folder_and_safetensors_will_do_the_id_names_what_changes_the_output_and_infinity_fails(saved, tmp_path):
    file = saved("real_esrgan_x4plus")
    save_file(esrgan_weights("real_esrgan_x4plus"), tmp_path / "converted.safetensors")
    names = [file, file.rpartition("/")[0], str(tmp_path / "converted.safetensors")]
    experts = [RealEsrgan(name, device="cpu") for name in names]
    assert len({enlarged(each, Upscale(picture(1, 9, 9), 4))[0].tobytes() for each in experts}) == 1
    assert len({each.id for each in experts}) == 3
    assert experts[0].id.startswith("RealEsrgan@1 RealESRGAN_x4plus.pth@")
    assert experts[0].id.endswith(f" float32 pil tile=256 spandrel={importlib.metadata.version('spandrel')}")
    upscaler = expert(saved, "classical", dtype="float16")
    with upscaler.checkpoint.use() as loaded:
        loaded.model.upsample.final_convolution.bias.fill_(torch.inf)
    (answer,) = upscaler([Upscale(picture(1, 9, 9), 4)])
    assert_failed(answer, "values that are not finite in float16: try dtype='float32'")


ENLARGING = [f"conv_up{n}.{kind}" for n in (1, 2) for kind in ("weight", "bias")]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"without": ["conv_hr.weight"]}, "does not match the detected network"),
        ({"without": ["body.1.rdb2.conv3.bias"]}, "does not match the detected network"),
        ({"conv_last.weight": torch.zeros(3, 9, 3, 3)}, "does not match the detected network"),
        ({"refiner.weight": torch.zeros(3)}, r"has 73 weights, expected 72 for ESRGAN"),
        ({"without": list(esrgan_weights("real_esrgan_x4plus"))}, "has weights of no network known to spandrel"),
        ({"without": ENLARGING}, "enlarges 1 times and turns 3 channels into 3: give a model that enlarges RGB images"),
    ],
    ids=["lacks one", "lacks another", "of another shape", "one too many", "none", "does not enlarge"],
)
def test_other_weights_are_refused(changed, message, tmp_path):
    assert_down(RealEsrgan(save_esrgan(tmp_path, **changed), device="cpu"), message)


def test_other_networks_are_refused_what_is_missing_is_named_and_quantised_none_is_loaded(saved, tmp_path, monkeypatch):
    from spandrel.architectures.SPAN import SPAN

    state = SPAN(num_in_ch=3, num_out_ch=3, feature_channels=8, upscale=2).state_dict()
    torch.save(state, tmp_path / "span.pth")
    sizes: dict[str, Any] = {"embed_dim": 12, "depths": [1], "num_heads": [2], "num_channels": 1, "window_size": 7}
    grey = transformers.Swin2SRConfig(**sizes, upscale=1, upsampler="")
    transformers.Swin2SRForImageSuperResolution(grey).save_pretrained(tmp_path / "grey")
    transformers.Swin2SRImageProcessor().save_pretrained(tmp_path / "grey")
    lacking = "upsample.final_convolution.bias"
    cases = [
        (RealEsrgan(str(tmp_path / "span.pth"), device="cpu"), "is a SPAN, no Real-ESRGAN network"),
        (Swin2Sr(str(tmp_path / "grey"), device="cpu"), "enlarges 1 times and takes 1 channels: give a model that enl"),
        (Swin2Sr(save_swin(tmp_path, without=(lacking,)), device="cpu"), rf"lacks 1 of its weights \({lacking}\)"),
    ]
    for upscaler, message in cases:
        assert_down(upscaler, message)
    file = saved("real_esrgan_x4plus")
    (tmp_path / "empty").mkdir()
    empty = RealEsrgan(str(tmp_path / "empty"), device="cpu")
    assert_down(empty, r"holds no RealESRGAN_x4plus.pth, .* there is nothing")
    with pytest.raises(ExpertDown, match="neither a folder nor a model available from the hub"):
        _ = RealEsrgan("nowhere.pth", device="cpu").id
    assert_down(
        RealEsrgan(file, device="cpu", quantisation="int8"),
        r"bitsandbytes|supports neither quantisation nor device_map",
    )
    assert_down(RealEsrgan(file, device_map="auto"), "supports neither quantisation nor device_map")
    monkeypatch.setitem(sys.modules, "spandrel", None)
    assert_down(
        RealEsrgan(file, device="cpu", dtype="bfloat16"),
        re.escape("spandrel is not installed: " + install_command("spandrel")),
    )


QUERY = Upscale(picture(1, 9, 7), 4)


def test_real_esrgan_comes_first_then_swin2sr_and_memory_is_given_back(saved, monkeypatch):
    file, swin = saved("real_esrgan_x4plus"), saved("classical")
    enhancer = BestAvailableUpscaler(file, swin, device="cpu")
    enhancer.offload()  # no expert is chosen yet
    assert enhancer.usage() == {}
    assert enhancer.id == RealEsrgan(file, device="cpu").id
    first = enhancer([QUERY])
    assert first == RealEsrgan(file, device="cpu")([QUERY])
    assert enhancer.usage() == {"image_passes": 1}
    for give_back in (enhancer.offload, enhancer.unload):
        give_back()
        assert enhancer([QUERY]) == first
    expected = Swin2Sr(swin, tile_size=300, device="cpu")
    for weights in ("nowhere.pth", ""):
        second = BestAvailableUpscaler(weights, swin, tile_size=300, device="cpu")
        assert (second.id, second([QUERY])) == (expected.id, expected([QUERY]))

    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(upscalers, "version", absent)  # of spandrel, which loads Real-ESRGAN
    assert BestAvailableUpscaler(file, swin, tile_size=300, device="cpu").id == expected.id


def test_lanczos_comes_last_is_announced_once_and_who_answers_is_decided_once(tmp_path):
    weights = str(tmp_path / "RealESRGAN_x4plus.pth")
    enhancer = BestAvailableUpscaler(weights, "no/where", device="cpu")
    with pytest.warns(UserWarning, match=r"adds no detail: .*plus\.pth is neither .*; no/where is neither") as caught:
        enhancer.load()
    assert len(caught) == 1
    assert save_esrgan(tmp_path) == weights
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="images are enlarged by Lanczos")
        assert enhancer.id == Lanczos.id
        assert enhancer([QUERY]) == Lanczos()([QUERY])
        assert BestAvailableUpscaler(weights, "", device="cpu").id != Lanczos.id
    image = picture(3, 7, 5)
    (answer,) = Lanczos()([Upscale(image, 4)])
    assert isinstance(answer, UpscaledImage)
    assert (answer.image.pixels == np.array(image.pil().resize((28, 20), PIL.Image.Resampling.LANCZOS))).all()


def test_weights_that_are_there_and_damaged_are_an_error_and_a_pickle_that_holds_more_is_not_run(saved, tmp_path):
    torch.save({"params_ema": {"conv_first.weight": torch.zeros(1)}}, tmp_path / "RealESRGAN_x4plus.pth")
    enhancer = BestAvailableUpscaler(str(tmp_path), saved("classical"), device="cpu")
    assert_down(enhancer, "has weights of no network")
    assert "RealEsrgan" in enhancer.id

    class Trap:
        def __reduce__(self) -> Any:
            return exec, (f"open({str(tmp_path / 'sprung')!r}, 'w')",)

    torch.save({"params_ema": {"conv_first.weight": Trap()}}, tmp_path / "RealESRGAN_x4plus.pth")
    assert_down(RealEsrgan(str(tmp_path), device="cpu"), "holds more than weights, or is damaged")
    assert not (tmp_path / "sprung").exists()


def test_it_is_built_of_a_spec_and_taken_by_an_engine(saved):
    for spec in ({"use": "enhancer", "real_esrgan": "", "swin2sr": saved("classical"), "device": "cpu"}, "lanczos"):
        upscaler = build(spec, "editcritic.experts")
        assert rebuilt(upscaler).id == upscaler.id
        (enhanced,) = in_engine(upscaler, [QUERY])
        assert enhanced.image.width == 36


SIDES = st.integers(1, 900)


@given(st.tuples(SIDES, SIDES), st.integers(0, 200), st.sampled_from([1, 4, 8]))
def test_tiles_are_no_larger_than_asked_for_and_overlap_their_neighbours(size, more, align):
    side = upscalers.min_tile_size(align) + more
    tiles = list(Tiling(size, side, align))
    for low, high in ((0, 2), (1, 3)):
        spans = sorted({(tile[low], tile[high]) for tile in tiles})
        assert (spans[0][0], spans[-1][1]) == (0, size[low])
        assert all(start % align == 0 and 0 < end - start <= side for start, end in spans)
        assert all(before[1] - after[0] == upscalers.OVERLAP for before, after in itertools.pairwise(spans))
        assert all(before[1] <= after[0] for before, after in zip(spans, spans[2:], strict=False))
    assert len(tiles) == len(set(tiles))
    with pytest.raises(ValueError, match="a tile has a side of 104 pixels or more, got 103"):
        Tiling((10, 10), 103, 8)


@settings(max_examples=30)
@given(st.tuples(st.integers(1, 400), st.integers(1, 400)), st.sampled_from([1, 2, 4]), st.sampled_from([1, 8]))
def test_a_picture_cut_into_tiles_is_put_together_again(size, factor, align):
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    larger = pixels.repeat(factor, 0).repeat(factor, 1)
    canvas = Canvas(size, factor)
    for x0, y0, x1, y1 in Tiling(size, 128, align):
        part = larger[y0 * factor : y1 * factor, x0 * factor : x1 * factor]
        canvas.add_tile((x0, y0, x1, y1), part.astype(np.float32) / np.float32(255))
    assert canvas.is_finite
    assert np.array_equal(canvas.pixels(), larger)


def test_what_a_model_makes_up_at_the_rim_of_a_tile_does_not_show_and_overshooting_is_cut():
    canvas = Canvas((300, 40), 2)
    for x0, y0, x1, y1 in Tiling((300, 40), 128):
        values = np.full(((y1 - y0) * 2, (x1 - x0) * 2, 3), 0.5, np.float32)
        rim = upscalers.OVERLAP // 2  # in pixels of the enlarged image: a quarter of the overlap
        values[:, : rim if x0 else 0] = 1.0
        values[:, values.shape[1] - (rim if x1 < 300 else 0) :] = 0.0
        canvas.add_tile((x0, y0, x1, y1), values)
    assert np.unique(canvas.pixels()).tolist() == [128]
    canvas = Canvas((1, 1), 2)
    canvas.add_tile((0, 0, 1, 1), np.full((2, 2, 3), 1.7, np.float32))
    assert (canvas.pixels() == 255).all()
    canvas.add_tile((0, 0, 1, 1), np.full((2, 2, 3), np.nan, np.float32))
    assert not canvas.is_finite
