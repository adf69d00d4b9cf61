"""Swin2Sr equals transformers' plain call, tiles large images, and refuses larger factors."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file

from editcritic.reward import Engine, Image, Score, ask
from editcritic.reward.experts.upscalers import Swin2Sr
from editcritic.reward.queries import ExpertDown, Failure, Upscale, UpscaledImage

from ..fakes import picture
from . import formats

SMALL = {"width": 12, "heads": 2, "stages": 2, "layers": 2}
UPSAMPLERS = {"classical": "pixelshuffle", "realworld": "nearest+conv"}


def save(folder, kind="classical", **changed):
    """A checkpoint in the published layout with random weights."""
    table = formats.load(f"swin2sr_{kind}_x4")
    weights = table.random(3, 0.15, **SMALL)
    config = transformers.Swin2SRConfig(
        architectures=["Swin2SRForImageSuperResolution"],
        embed_dim=SMALL["width"],
        depths=[SMALL["layers"]] * SMALL["stages"],
        num_heads=[SMALL["heads"]] * SMALL["stages"],
        upscale=changed.get("upscale", 4),
        upsampler=UPSAMPLERS[kind],
    )
    config.save_pretrained(folder)
    transformers.Swin2SRImageProcessor().save_pretrained(folder)
    if table.file.endswith(".bin"):
        torch.save(weights, folder / table.file)
    else:
        save_file({k: v for k, v in weights.items() if k not in changed.get("without", ())}, folder / table.file)
    return str(folder)


@pytest.fixture(scope="module", params=list(UPSAMPLERS))
def folder(request, tmp_path_factory):
    return save(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def classical(tmp_path_factory):
    return save(tmp_path_factory.mktemp("classical"))


def library(folder, image):
    """The authors' example."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    model, info = transformers.Swin2SRForImageSuperResolution.from_pretrained(folder, output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.inference_mode():
        output = model(**processor(image.pil(), return_tensors="pt")).reconstruction[0].clamp(0, 1)
    whole = (output * 255).round().numpy().astype(np.uint8).transpose(1, 2, 0)
    return whole[: image.height * 4, : image.width * 4]  # without the padding


def enlarged(expert: Any, *queries: Upscale) -> list[Any]:
    """The pixels of each."""
    return [answer.image.pixels for answer in expert(queries)]


def apart(one, other):
    """The largest and the mean difference, in levels."""
    apart = np.abs(one.astype(int) - other)
    return apart.max(), apart.mean()


# -- the published format ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(UPSAMPLERS))
def test_the_real_model_has_the_published_names_and_shapes(kind):
    config = transformers.Swin2SRConfig(upscale=4, upsampler=UPSAMPLERS[kind])
    with torch.device("meta"):
        model = transformers.Swin2SRForImageSuperResolution(config)
    own = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert formats.load(f"swin2sr_{kind}_x4").shapes() == own


@pytest.mark.parametrize("size", [(13, 21), (4, 5), (16, 24)], ids=str)
@pytest.mark.parametrize("backend", ["pil", "torchvision"])
def test_it_enlarges_as_the_library_does(folder, size, backend):
    image = picture(1, *size)
    (answer,) = enlarged(Swin2Sr(folder, device="cpu", backend=backend), Upscale(image, 4))
    expected = library(folder, image)
    assert answer.shape == expected.shape
    assert apart(answer, expected)[0] <= 1  # one half may be rounded up or down
    assert expected.std() > 20


def test_pictures_of_a_few_pixels_are_enlarged_on_both_backends(classical):
    image = picture(1, 3, 1)
    experts = [Swin2Sr(classical, device="cpu", backend=name) for name in ("pil", "torchvision")]
    one, other = (enlarged(expert, Upscale(image, 4))[0] for expert in experts)
    assert one.shape == (4, 12, 3)
    assert apart(one, other)[0] <= 1


# -- outputs -----------------------------------------------------------------------------------------------------------


def test_a_smaller_factor_is_the_models_own_made_smaller(classical):
    image = picture(2, 30, 20)
    whole, half, again = enlarged(Swin2Sr(classical, device="cpu"), *(Upscale(image, factor) for factor in (4, 2, 4)))
    assert np.array_equal(half, Image.of(whole).resized(60, 40).pixels)
    assert np.array_equal(again, whole)


def test_more_than_the_model_can_do_fails_and_the_rest_is_answered(classical):
    larger, fine = Swin2Sr(classical, device="cpu")([Upscale(picture(1), 8), Upscale(picture(1), 4)])
    assert isinstance(fine, UpscaledImage)
    assert isinstance(larger, Failure)
    assert "enlarges 4 times, the query asks for 8: bind an upscaler of 8 or more, or Lanczos" in larger.reason


def test_the_batch_makes_no_difference(classical):
    queries = [Upscale(picture(seed, *size), 4) for seed, size in enumerate([(9, 9), (20, 9), (9, 9), (9, 20)])]
    together = Swin2Sr(classical, device="cpu")
    alone = Swin2Sr(classical, device="cpu", batch=1)
    for one, query in zip(enlarged(together, *queries), queries, strict=True):
        assert apart(one, enlarged(alone, query)[0])[0] <= 1
    assert together.usage() == {"image_passes": 4}


def test_an_engine_takes_what_it_says(classical):
    def program():
        enhanced = yield from ask(Upscale(picture(3, 7, 5), 4))
        return Score.of(enhanced.image.width)

    with Engine() as engine:
        assert engine.submit(program(), {"enhancer": Swin2Sr(classical, device="cpu")}).result(60).value == 28


# -- large images ------------------------------------------------------------------------------------------------------


def test_big_pictures_go_through_in_tiles_and_show_no_seams(classical):
    image = picture(4, 200, 40)
    tiled, whole = Swin2Sr(classical, device="cpu", tile_size=128), Swin2Sr(classical, device="cpu", tile_size=200)
    sizes: list[int] = []
    with tiled.checkpoint.use() as loaded:
        hook = loaded.model.register_forward_pre_hook(
            lambda model, args, kwargs: sizes.append(max((*args, *kwargs.values())[0].shape[2:])), with_kwargs=True
        )
    (one,), (other,) = enlarged(tiled, Upscale(image, 4)), enlarged(whole, Upscale(image, 4))
    hook.remove()
    assert max(sizes[:-1]) <= 128 + 8  # the weights are shared: the last pass is the whole image's
    assert len(sizes) > 2
    most, mean = apart(one, other)
    assert most <= 8
    assert mean < 0.01
    # Control: without overlap there are seams.
    parts = [enlarged(tiled, Upscale(image.crop(x, 0, min(x + 96, 200), 40), 4))[0] for x in (0, 96, 192)]
    worst, worse = apart(np.concatenate(parts, 1), other)
    assert worst > 5 * most
    assert worse > 5 * mean


def test_how_it_is_cut_is_in_the_id(classical):
    assert Swin2Sr(classical, tile_size=128).id != Swin2Sr(classical).id
    with pytest.raises(ValueError, match="tile_size is a side in pixels, 128 or more, got 64"):
        Swin2Sr(classical, tile_size=64)


# -- failures ----------------------------------------------------------------------------------------------------------


def test_a_model_that_does_not_enlarge_is_refused(tmp_path):
    config = transformers.Swin2SRConfig(
        embed_dim=12, depths=[1], num_heads=[2], upscale=1, num_channels=1, window_size=7, upsampler=""
    )
    transformers.Swin2SRForImageSuperResolution(config).save_pretrained(tmp_path)
    transformers.Swin2SRImageProcessor().save_pretrained(tmp_path)
    with pytest.raises(ExpertDown, match="enlarges 1 times and takes 1 channels: give a model that enlarges RGB"):
        Swin2Sr(str(tmp_path), device="cpu").load()


def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path):
    folder = save(tmp_path, without=("upsample.final_convolution.bias",))
    with pytest.raises(ExpertDown, match=r"lacks 1 of its weights \(upsample.final_convolution.bias\)"):
        Swin2Sr(folder, device="cpu").load()


def test_values_that_are_no_numbers_are_no_picture(classical):
    expert = Swin2Sr(classical, device="cpu", dtype="float16")
    with expert.checkpoint.use() as loaded:
        loaded.model.upsample.final_convolution.bias.fill_(torch.inf)
    (answer,) = expert([Upscale(picture(1, 9, 9), 4)])
    assert isinstance(answer, Failure)
    assert "values that are not finite in float16: try dtype='float32'" in answer.reason
