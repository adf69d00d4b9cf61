"""BestAvailableUpscaler: the first available upscaler with its id; a single warning for Lanczos."""

import importlib.metadata
import warnings

import pytest
import torch
from safetensors.torch import save_file

from editcritic.reward import Engine, Score, ask
from editcritic.reward.config import build
from editcritic.reward.experts import upscalers
from editcritic.reward.experts.upscalers import BestAvailableUpscaler, Lanczos, RealEsrgan, Swin2Sr
from editcritic.reward.queries import ExpertDown, Upscale, UpscaledImage
from editcritic.reward.queries.specs import spec_of

from ..fakes import picture
from . import formats
from .test_swin2sr import save

QUERY = Upscale(picture(1, 9, 7), 4)


@pytest.fixture(scope="module")
def esrgan(tmp_path_factory):
    path = tmp_path_factory.mktemp("esrgan") / "RealESRGAN_x4plus.safetensors"
    save_file(formats.load("real_esrgan_x4plus").random(0, 0.08, width=8, blocks=1), path)
    return str(path)


@pytest.fixture(scope="module")
def swin(tmp_path_factory):
    return save(tmp_path_factory.mktemp("swin"))


@pytest.fixture(autouse=True)
def warned():
    """Warnings are errors, unless a test expects them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="images are enlarged by Lanczos")
        yield


def test_real_esrgan_comes_first(esrgan, swin):
    enhancer = BestAvailableUpscaler(esrgan, swin, device="cpu")
    assert enhancer.usage() == {}
    assert enhancer.id == RealEsrgan(esrgan, device="cpu").id
    assert enhancer([QUERY]) == RealEsrgan(esrgan, device="cpu")([QUERY])
    assert enhancer.usage() == {"image_passes": 1}


def test_swin2sr_comes_second(esrgan, swin, monkeypatch):
    expected = Swin2Sr(swin, tile_size=300, device="cpu")
    for weights in ("nowhere.pth", ""):
        assert BestAvailableUpscaler(weights, swin, tile_size=300, device="cpu").id == expected.id
    assert BestAvailableUpscaler("", swin, device="cpu")([QUERY]) == expected([QUERY])

    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(upscalers, "version", absent)  # of spandrel, which loads Real-ESRGAN
    assert BestAvailableUpscaler(esrgan, swin, tile_size=300, device="cpu").id == expected.id


def test_lanczos_comes_last_and_is_announced_once():
    enhancer = BestAvailableUpscaler("nowhere.pth", "no/where", device="cpu")
    with pytest.warns(UserWarning, match=r"adds no detail: nowhere\.pth is neither .*; no/where is neither") as caught:
        assert enhancer.id == Lanczos.id
    assert len(caught) == 1
    enhancer.load()
    assert enhancer([QUERY]) == Lanczos()([QUERY])
    assert enhancer.id == Lanczos.id  # a further warning would be an error here


def test_weights_that_are_there_and_damaged_are_an_error_and_nothing_takes_their_place(swin, tmp_path):
    torch.save({"params_ema": {"conv_first.weight": torch.zeros(1)}}, tmp_path / "RealESRGAN_x4plus.pth")
    enhancer = BestAvailableUpscaler(str(tmp_path), swin, device="cpu")
    with pytest.raises(ExpertDown, match="has weights of no network"):
        enhancer.load()
    assert "RealEsrgan" in enhancer.id


def test_who_answers_is_decided_once(esrgan, tmp_path):
    weights = tmp_path / "RealESRGAN_x4plus.pth"
    enhancer = BestAvailableUpscaler(str(weights), "", device="cpu")
    with pytest.warns(UserWarning, match="adds no detail"):
        enhancer.load()
    torch.save({"params_ema": formats.load("real_esrgan_x4plus").random(0, 0.08, width=8, blocks=1)}, weights)
    assert enhancer.id == Lanczos.id
    assert BestAvailableUpscaler(str(weights), "", device="cpu").id != Lanczos.id


def test_its_memory_is_given_back(esrgan):
    enhancer = BestAvailableUpscaler(esrgan, "", device="cpu")
    enhancer.offload()  # no expert is chosen yet
    (answer,) = enhancer([QUERY])
    for give_back in (enhancer.offload, enhancer.unload):
        give_back()
        assert enhancer([QUERY]) == [answer]
    assert isinstance(answer, UpscaledImage)


def test_it_is_built_of_a_spec_and_taken_by_an_engine(swin):
    table = {
        "use": "enhancer",
        "real_esrgan": "",
        "swin2sr": swin,
        "device": "cpu",
    }
    enhancer = build(table, "editcritic.experts")
    assert spec_of(enhancer) == table

    def program():
        enhanced = yield from ask(QUERY)
        return Score.of(enhanced.image.width)

    with Engine() as engine:
        assert engine.submit(program(), {"enhancer": enhancer}).result(60).value == 36
