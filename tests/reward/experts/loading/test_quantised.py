"""Quantisation with bitsandbytes, on a CPU."""

import pytest
from bitsandbytes.functional import has_avx512bf16
from bitsandbytes.nn import Linear4bit

from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.queries import ExpertDown, Judge, Message, YesNo

from ...fakes import picture
from ..device import DEVICE
from ..tiny_vlms import tiny_llava

TEXTS = ["Is the circle red?", "poor", "Did the blue square stay left of it?", "8", "very good edit before and after"]
ASKED = [Judge((Message((text, picture(number, 40, 40))),), YesNo()) for number, text in enumerate(TEXTS)]


# bitsandbytes' AVX-512 kernel needs multiples of 32 outputs and 64 inputs: all layers are at this width.
KERNEL_WIDTH = 128


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tiny-llava")
    tiny_llava(place, seed=5, width=KERNEL_WIDTH)  # its probabilities differ clearly
    return str(place)


def judge(folder, **loading):
    return Vlm(folder, dtype="float32", min_option_mass=0.0, **loading)


@pytest.mark.parametrize("quantisation", ["int8", "nf4", "fp4"])
def test_it_takes_less_memory_and_says_nearly_the_same(folder, quantisation):
    full, small = judge(folder), judge(folder, quantisation=quantisation)
    expected, actual = ([reply.probabilities["yes"] for reply in expert(ASKED)] for expert in (full, small))
    assert small.bytes[DEVICE] < full.bytes[DEVICE]
    assert max(expected) - min(expected) > 0.3
    assert actual == pytest.approx(expected, abs=0.1)
    assert quantisation in small.id
    assert small.id != full.id


@pytest.mark.parametrize(("width", "uses_kernel"), [(KERNEL_WIDTH, True), (16, False)])
def test_the_kernel_of_the_processor_multiplies_the_widths_that_it_takes(tmp_path, width, uses_kernel):
    tiny_llava(tmp_path, width=width)
    small = judge(str(tmp_path), quantisation="nf4")
    assert all(0 < reply.probabilities["yes"] < 1 for reply in small(ASKED))
    with small.checkpoint.use() as loaded:
        layers = [layer for layer in loaded.model.modules() if isinstance(layer, Linear4bit)]
    packed = {getattr(layer.weight.quant_state, "packing_format_for_cpu", False) for layer in layers}
    assert packed == {uses_kernel and has_avx512bf16()}


def test_offloading_drops_it_and_without_bitsandbytes_it_says_what_to_install(folder, monkeypatch):
    small = judge(folder, quantisation="nf4")
    before = small(ASKED)
    small.offload()
    assert sum(small.checkpoint.bytes.values()) == 0
    assert small(ASKED) == before
    monkeypatch.setattr("transformers.utils.is_bitsandbytes_available", lambda *_: False)
    with pytest.raises(ExpertDown, match=r"needs bitsandbytes: pip install 'editcritic\[quantised\]'"):
        judge(folder, quantisation="int8", batch=3, backend="pil")(ASKED)
