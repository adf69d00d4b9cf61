"""RealEsrgan equals the published networks, and refuses other weights."""

import importlib.metadata
import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from editcritic.reward.experts.upscalers import RealEsrgan
from editcritic.reward.queries import ExpertDown, Failure, Upscale

from ..fakes import picture
from . import formats

TABLES = {
    "real_esrgan_x4plus": ("params_ema", {"width": 8, "blocks": 2}, 4, 16_697_987),
    "real_esrgan_x2plus": ("params_ema", {"width": 8, "blocks": 2}, 2, 16_703_171),
    "real_esr_general_x4v3": ("params", {"width": 8}, 4, 1_213_296),
}


def weights(name):
    state = formats.load(name).random(5, 0.1, **TABLES[name][1])
    return state | {
        part: torch.full((3,), 0.5) for part in state if part == "conv_last.bias"
    }  # neither black nor white


def save(folder, name="real_esrgan_x4plus", without=(), **more):
    path = folder / formats.load(name).file
    torch.save({TABLES[name][0]: {k: v for k, v in weights(name).items() if k not in without} | more}, path)
    return str(path)


@pytest.fixture(scope="module", params=list(TABLES))
def named(request, tmp_path_factory):
    return request.param, save(tmp_path_factory.mktemp("weights"), request.param)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return save(tmp_path_factory.mktemp("weights"))


def published(name, image):
    """The network of the paper and the authors' code, reimplemented from its parameter names."""
    w = weights(name)

    def conv(x, part):
        return F.conv2d(x, w[f"{part}.weight"], w[f"{part}.bias"], padding=1)

    def bent(x):
        return F.leaky_relu(x, 0.2)

    def dense(x, part):
        outputs = [x]
        for n in range(1, 5):
            outputs.append(bent(conv(torch.cat(outputs, 1), f"{part}.conv{n}")))
        return x + 0.2 * conv(torch.cat(outputs, 1), f"{part}.conv5")

    inputs = torch.from_numpy(image.pixels.copy()).permute(2, 0, 1)[None] / 255
    if "general" in name:
        x = inputs
        for n in range(0, 66, 2):
            x = F.prelu(conv(x, f"body.{n}"), w[f"body.{n + 1}.weight"])
        made = F.pixel_shuffle(conv(x, "body.66"), 4) + F.interpolate(inputs, scale_factor=4, mode="nearest")
    else:
        first = conv(F.pixel_unshuffle(inputs, 2) if "x2" in name else inputs, "conv_first")
        x = first
        for block in range(2):
            inner = x
            for part in (1, 2, 3):
                inner = dense(inner, f"body.{block}.rdb{part}")
            x = x + 0.2 * inner
        x = first + conv(x, "conv_body")
        for up in ("conv_up1", "conv_up2"):
            x = bent(conv(F.interpolate(x, scale_factor=2, mode="nearest"), up))
        made = conv(bent(conv(x, "conv_hr")), "conv_last")
    return (made[0].clamp(0, 1) * 255).round().numpy().astype(np.uint8).transpose(1, 2, 0)


def enlarged(expert: Any, *queries: Upscale) -> list[Any]:
    """The pixels of each."""
    return [answer.image.pixels for answer in expert(queries)]


def apart(one, other):
    return np.abs(one.astype(int) - other).max()


# -- the published format ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(TABLES))
def test_weights_of_the_published_names_and_shapes_are_a_network_of_the_published_size(name):
    import spandrel

    shapes = formats.load(name).shapes()
    assert sum(map(math.prod, shapes.values())) == TABLES[name][3]
    with torch.device("meta"):
        descriptor = spandrel.ModelLoader("meta").load_from_state_dict({k: torch.empty(v) for k, v in shapes.items()})
    own = {k: tuple(v.shape) for k, v in descriptor.model.state_dict().items()}
    assert len(own) == len(shapes)
    assert sorted(own.values()) == sorted(shapes.values())
    assert (descriptor.scale, descriptor.input_channels, descriptor.output_channels) == (TABLES[name][2], 3, 3)


def test_it_enlarges_as_the_published_network_does(named):
    name, path = named
    image = picture(1, 16, 12)  # without padding
    (answer,) = enlarged(RealEsrgan(path, device="cpu"), Upscale(image, TABLES[name][2]))
    expected = published(name, image)
    assert answer.shape == expected.shape
    assert apart(answer, expected) <= 1  # one half may be rounded up or down
    assert expected.std() > 3


def test_any_size_is_enlarged(named):
    name, path = named
    sizes = [(1, 1), (5, 3), (17, 9)]
    answers = enlarged(RealEsrgan(path, device="cpu"), *(Upscale(picture(1, *size), 2) for size in sizes))
    assert [answer.shape for answer in answers] == [(2 * height, 2 * width, 3) for width, height in sizes]
    (more,) = RealEsrgan(path, device="cpu")([Upscale(picture(1, 5, 3), 8)])
    assert isinstance(more, Failure)
    assert f"enlarges {TABLES[name][2]} times, the query asks for 8" in more.reason


def test_big_pictures_go_through_in_tiles_and_show_no_seams(named):
    name, path = named
    query = Upscale(picture(2, 180, 30), TABLES[name][2])
    tiled, whole = RealEsrgan(path, device="cpu", tile_size=128), RealEsrgan(path, device="cpu", tile_size=180)
    (one,), (other,) = enlarged(tiled, query), enlarged(whole, query)
    assert tiled.usage() == {"image_passes": 2}
    assert apart(one, other) <= 2


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_folder_and_safetensors_will_do(file, tmp_path):
    from safetensors.torch import save_file

    save_file(weights("real_esrgan_x4plus"), tmp_path / "converted.safetensors")
    query = Upscale(picture(1, 9, 9), 4)
    names = [file, file.rpartition("/")[0], str(tmp_path / "converted.safetensors")]
    experts = [RealEsrgan(name, device="cpu") for name in names]
    assert len({enlarged(expert, query)[0].tobytes() for expert in experts}) == 1
    assert len({expert.id for expert in experts}) == 3


def test_the_id_names_weights_precision_and_what_pads(file):
    message = RealEsrgan(file, device="cpu").id
    assert message.startswith("RealEsrgan@1 RealESRGAN_x4plus.pth@")
    assert message.endswith(f" float32 pil tile=256 spandrel={importlib.metadata.version('spandrel')}")


def test_a_pickle_that_holds_more_than_weights_is_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return exec, (f"open({str(tmp_path / 'sprung')!r}, 'w')",)

    torch.save({"params_ema": {"conv_first.weight": Trap()}}, tmp_path / "RealESRGAN_x4plus.pth")
    with pytest.raises(ExpertDown, match="holds more than weights, or is damaged"):
        RealEsrgan(str(tmp_path), device="cpu").load()
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"without": ["conv_hr.weight"]}, "does not match the detected network"),
        ({"without": ["body.1.rdb2.conv3.bias"]}, "does not match the detected network"),
        ({"conv_last.weight": torch.zeros(3, 9, 3, 3)}, "does not match the detected network"),
        ({"refiner.weight": torch.zeros(3)}, r"has 73 weights, expected 72 for ESRGAN"),
        ({"without": list(weights("real_esrgan_x4plus"))}, "has weights of no network known to spandrel"),
        (
            {"without": [f"conv_up{n}.{kind}" for n in (1, 2) for kind in ("weight", "bias")]},
            "enlarges 1 times and turns 3 channels into 3: give a model that enlarges RGB images",
        ),
    ],
    ids=["lacks one", "lacks another", "of another shape", "one too many", "none", "does not enlarge"],
)
def test_other_weights_are_refused(changed, message, tmp_path):
    with pytest.raises(ExpertDown, match=message):
        RealEsrgan(save(tmp_path, **changed), device="cpu").load()


def test_other_networks_that_spandrel_knows_are_refused(tmp_path):
    from spandrel.architectures.SPAN import SPAN

    path = tmp_path / "span.pth"
    torch.save(SPAN(num_in_ch=3, num_out_ch=3, feature_channels=8, upscale=2).state_dict(), path)
    with pytest.raises(ExpertDown, match="is a SPAN, no Real-ESRGAN network"):
        RealEsrgan(str(path), device="cpu").load()


def test_what_is_missing_is_named(file, tmp_path, monkeypatch):
    with pytest.raises(ExpertDown, match=r"holds no RealESRGAN_x4plus.pth, .* there is nothing"):
        RealEsrgan(str(tmp_path), device="cpu").load()
    with pytest.raises(ExpertDown, match="neither a folder nor a model available from the hub"):
        _ = RealEsrgan("nowhere.pth", device="cpu").id
    monkeypatch.setitem(sys.modules, "spandrel", None)
    with pytest.raises(ExpertDown, match=r"spandrel is not installed: pip install 'editcritic\[spandrel\]'"):
        RealEsrgan(file, device="cpu", dtype="bfloat16").load()


def test_quantised_it_is_not_loaded(file):
    with pytest.raises(ExpertDown, match=r"bitsandbytes|supports neither quantisation nor device_map"):
        RealEsrgan(file, device="cpu", quantisation="int8").load()
    with pytest.raises(ExpertDown, match="supports neither quantisation nor device_map"):
        RealEsrgan(file, device_map="auto").load()
