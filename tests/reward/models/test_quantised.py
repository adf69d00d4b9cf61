"""bitsandbytes holds weights in fewer bits, on a CPU too."""

import pytest

from editcritic.reward import ExpertDown, Judge, Message, YesNo
from editcritic.reward.experts.vlm import Vlm

from ..experts.tiny_vlms import tiny_llava
from ..fakes import picture

ASKED = [Judge((Message(("Is the circle red?", picture(1, 40, 40))),), YesNo())]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tiny-llava")
    tiny_llava(place)
    return str(place)


def judge(folder, **loading):
    return Vlm(folder, dtype="float32", least_mass=0.0, **loading)


@pytest.mark.parametrize("quantisation", ["int8", "nf4", "fp4"])
def test_it_takes_less_memory_and_says_nearly_the_same(folder, quantisation):
    whole, small = judge(folder), judge(folder, quantisation=quantisation)
    (expected,), (found,) = whole(ASKED), small(ASKED)
    assert small.bytes["cpu"] < whole.bytes["cpu"]
    assert found.probabilities["yes"] == pytest.approx(expected.probabilities["yes"], abs=0.1)
    assert quantisation in small.id
    assert small.id != whole.id


def test_offloading_drops_it_and_the_next_question_loads_it_again(folder):
    small = judge(folder, quantisation="nf4")
    before = small(ASKED)
    small.offload()
    assert sum(small.checkpoint.bytes.values()) == 0
    assert small(ASKED) == before


def test_without_bitsandbytes_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setattr("transformers.utils.is_bitsandbytes_available", lambda *_: False)
    with pytest.raises(ExpertDown, match=r"needs bitsandbytes: pip install 'editcritic\[quantised\]'"):
        judge(folder, quantisation="int8", batch=3, backend="pil")(ASKED)
