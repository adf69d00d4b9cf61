"""Experts with the same weights and loading options share one model."""

import functools
import gc
import pickle
import shutil
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import BitImageProcessorPil, Dinov2Config, Dinov2Model

from editcritic.reward import Reward, load_experts
from editcritic.reward.experts.dino import Dino
from editcritic.reward.experts.loading.local_expert import LocalExpert
from editcritic.reward.queries import Embed, Measurement, Rate, Region

from ...fakes import picture
from ..device import DEVICE

TINY = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
PICTURE = picture(1)
ASKED = [Embed(PICTURE, (Region("cls"),))]


@pytest.fixture
def folder(tmp_path) -> Path:
    torch.manual_seed(0)
    Dinov2Model(Dinov2Config(**TINY)).save_pretrained(tmp_path / "tiny")
    BitImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}).save_pretrained(
        tmp_path / "tiny"
    )
    return tmp_path / "tiny"


@pytest.fixture
def loads(monkeypatch) -> list[str]:
    """Records every load of a model."""
    parameter: list[str] = []
    load = Dinov2Model.from_pretrained.__func__

    def counted(cls, name, *positional, **options):
        parameter.append(str(name))
        return load(cls, name, *positional, **options)

    monkeypatch.setattr(Dinov2Model, "from_pretrained", classmethod(counted))
    return parameter


class Brightness(LocalExpert[Measurement]):
    """Another expert on the same weights."""

    loader, processor, plain_processor, kinds = "AutoModel", "AutoImageProcessor", "ViTImageProcessorPil", (Rate,)
    default_load_options = Dino.default_load_options

    def __init__(self, name: str, **loading) -> None:
        super().__init__(name, batch=8, cache_bytes=10**6, **loading)

    def answer_batch(self, queries: Sequence[Rate]) -> list[Measurement]:
        with self.checkpoint.use() as loaded:
            return [Measurement(float(loaded.model.embeddings.cls_token.sum())) for _ in queries]


def test_two_experts_load_it_once(folder, loads):
    features, brightness = Dino(str(folder), device="cpu"), Brightness(str(folder), device="cpu")
    features(ASKED)
    brightness([Rate(PICTURE)])
    assert loads == [str(folder)]
    assert features.bytes[DEVICE] == brightness.bytes[DEVICE] > 0


def test_a_relative_path_is_the_same_place(folder, loads, monkeypatch):
    monkeypatch.chdir(folder.parent)
    one, other = Dino(str(folder), device="cpu"), Dino("tiny", device="cpu")
    one(ASKED)
    other(ASKED)
    assert len(loads) == 1


@pytest.mark.parametrize("different", [{"dtype": "bfloat16"}, {"backend": "pil"}])
def test_another_precision_or_backend_is_another_model(folder, loads, different):
    one, other = Dino(str(folder), device="cpu", backend="auto"), Dino(str(folder), **{"device": "cpu", **different})
    one(ASKED)
    other(ASKED)
    assert len(loads) == 2


def test_weights_written_meanwhile_are_not_taken_for_the_old_ones(folder, loads):
    old = Dino(str(folder), device="cpu")
    (before,) = old(ASKED)
    model = Dinov2Model.from_pretrained(folder)
    with torch.no_grad():
        model.layernorm.bias[3] += 1
    model.save_pretrained(folder)
    loads.clear()
    new = Dino(str(folder), device="cpu")
    (after,) = new(ASKED)
    assert loads == [str(folder)]
    assert new.id != old.id
    assert (before.values != after.values).any()


@pytest.mark.parametrize("drop", [LocalExpert.unload, LocalExpert.offload])
def test_what_one_gives_back_is_given_back_for_both_and_comes_back_once(folder, loads, drop):
    one, other = Dino(str(folder), device="cpu"), Dino(str(folder), device="cpu")
    (before,) = one(ASKED)
    other(ASKED)
    with one.checkpoint.use() as loaded:
        gone = weakref.ref(loaded.model)
    del loaded
    drop(one)
    gc.collect()
    assert (gone() is None) is (drop is LocalExpert.unload)
    assert other.bytes.get(DEVICE, 0) == one.bytes.get(DEVICE, 0)
    (again,) = other(ASKED)
    (also,) = one(ASKED)
    assert (before.values == again.values).all()
    assert (before.values == also.values).all()
    assert len(loads) == (2 if drop is LocalExpert.unload else 1)


def test_what_one_remembers_of_weights_that_the_other_dropped_is_forgotten(folder):
    one, other = Dino(str(folder), device="cpu"), Dino(str(folder), device="cpu")
    (before,) = one(ASKED)
    other(ASKED)
    model = Dinov2Model.from_pretrained(folder)
    with torch.no_grad():
        model.layernorm.bias[3] += 1
    model.save_pretrained(folder)
    other.unload()
    (after,) = one(ASKED)
    assert (before.values != after.values).any()
    assert (other(ASKED)[0].values == after.values).all()


def test_the_last_expert_takes_the_weights_with_it(folder):
    one, other = Dino(str(folder), device="cpu"), Dino(str(folder), device="cpu")
    one(ASKED)
    with other.checkpoint.use() as loaded:
        gone = weakref.ref(loaded.model)
    del loaded, one
    gc.collect()
    assert gone() is not None
    del other
    gc.collect()
    assert gone() is None


def test_bytes_before_and_after(folder):
    """Unloading frees all storages, counted by the garbage collector."""

    def alive() -> int:
        gc.collect()
        storages = {
            parameter.untyped_storage().data_ptr(): parameter.untyped_storage().nbytes()
            for parameter in gc.get_objects()
            if type(parameter) is torch.nn.Parameter  # torch.compile leaves some that have no storage
        }
        return sum(storages.values())

    before = alive()
    expert = Dino(str(folder), device="cpu")
    expert(ASKED)
    assert alive() - before >= 0.9 * expert.bytes[DEVICE] > 0
    expert.unload()
    assert alive() == before


def test_two_threads_that_ask_and_drop_always_get_an_answer(folder):
    one, other = Dino(str(folder), device="cpu"), Dino(str(folder), device="cpu")
    (expected,) = one(ASKED)
    wrong = []

    def ask(expert: Dino) -> None:
        for _ in range(4):
            (parameter,) = expert(ASKED)
            if (parameter.values != expected.values).any():
                wrong.append(parameter)
            expert.unload()

    threads = [threading.Thread(target=ask, args=(expert,)) for expert in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert wrong == []


def test_roles_with_equal_specs_share_the_expert_also_after_pickling(folder):
    dino = f"{folder}?device=cpu"
    line = f"detector=annotated features={dino} features.other={dino} pixels=pixels reader=rapidocr"
    experts = load_experts(line)
    assert experts["features"] is experts["features.other"]
    reward = pickle.loads(pickle.dumps(Reward.of("edival-cc", line)))
    assert reward.experts["features"] is reward.experts["features.other"]
    assert isinstance(reward.experts["features"], Dino)


@pytest.mark.parametrize("generates_code", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_compiled_layers_answer_the_same(folder, monkeypatch, generates_code):
    """torch's default backend needs a C++ compiler and a path to torch without spaces: `make test-all` has it."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return torch._inductor.compile(graph, inputs) if generates_code else graph.forward

    by_layer = functools.partialmethod(torch.nn.Module.compile, backend=backend)
    monkeypatch.setattr(torch.nn.Module, "compile", by_layer)
    torch.compiler.reset()  # discard earlier compilations
    plain, compiled = Dino(str(folder), device="cpu"), Dino(str(folder), device="cpu", compiled=True)
    assert "compiled" in compiled.id
    queries = [Embed(picture(3), (Region("cls"), Region("patches")))]
    assert compiled(queries)[0].values == pytest.approx(plain(queries)[0].values, abs=1e-4)
    assert len(graphs) == 1  # equal layers share a graph


def test_it_says_where_its_weights_are(folder):
    expert = Dino(str(folder), device="cpu")
    assert not expert.devices
    expert.load()
    assert list(expert.devices) == [DEVICE]
    expert.unload()
    assert not expert.devices


def test_a_device_map_places_it_and_offloading_drops_it(folder, loads):
    expert = Dino(str(folder), device_map="auto")
    (before,) = expert(ASKED)
    expert.offload()
    assert sum(expert.checkpoint.bytes.values()) == 0
    (after,) = expert(ASKED)
    assert (before.values == after.values).all()
    assert len(loads) == 2


def test_a_device_that_is_not_there_is_said_in_a_line(folder):
    from editcritic.reward.queries import ExpertDown

    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(ExpertDown, match=r"GiB of weights\) cannot be put on cuda:7"):
        Dino(str(folder), device="cuda:7", dtype="float32")(ASKED)


def test_a_copy_elsewhere_is_another_place(folder, loads, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    one, other = Dino(str(folder), device="cpu"), Dino(str(tmp_path / "copy"), device="cpu")
    one(ASKED)
    other(ASKED)
    assert len(loads) == 2
