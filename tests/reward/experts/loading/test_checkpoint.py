"""Checkpoint and LocalExpert: lazy loading, identity by content, sharing, offloading, unloading, and memory."""

import contextlib
import functools
import gc
import pickle
import shutil
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Dinov2Model, ViTImageProcessorPil

from editcritic.reward import Reward, load_experts
from editcritic.reward.experts.dino import Dino
from editcritic.reward.experts.loading.checkpoint import Checkpoint
from editcritic.reward.experts.loading.hub_files import folder_digest
from editcritic.reward.experts.loading.local_expert import LocalExpert, nested_nbytes
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.queries import Embed, ExpertDown, Judge, Measurement, Message, Rate, Region, YesNo

from ...fakes import PICTURE, picture, sample
from ..checkpoints import DEVICE, without_weights
from ..tiny_dinos import tiny_dinov2, tiny_dinov3, train
from ..tiny_vlms import tiny_llava

ASKED = [Embed(picture(1), (Region("cls"),))]
RATED = [Rate(PICTURE)]


@pytest.fixture
def folder(tmp_path) -> Path:
    return tiny_dinov2(tmp_path / "tiny")


def checkpoint(folder, **options):
    return Checkpoint(str(folder), "AutoModel", "AutoImageProcessor", device="cpu", **options)


def load(folder, **options):
    with checkpoint(folder, **options).use() as loaded:
        return loaded


def dino(folder, **options: Any) -> Any:
    return Dino(str(folder), **{"device": "cpu", **options})


def values(expert: Any) -> list[float]:
    (outcome,) = expert(ASKED)
    return list(outcome.values[0])


@contextlib.contextmanager
def running(*calls: Callable[[], Any]):
    """Threads of these calls, which have ended after the context."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    yield threads
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def same(outcomes: Any, expected: Any, name: str = "values") -> None:
    for one, other in zip(outcomes, expected, strict=True):
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-4)


def test_it_is_loaded_once_when_it_is_asked_for_and_unloading_frees_it(folder):
    weights = checkpoint(folder)
    weights.offload()  # giving back what was never loaded does nothing
    weights.unload()
    assert weights.identity
    assert weights.bytes == {}
    with torch.inference_mode(), weights.use() as loaded:
        assert torch.zeros(1).is_inference()
        tensors = [*loaded.model.parameters(), *loaded.model.buffers()]
        assert not any(tensor.is_inference() or tensor.requires_grad for tensor in tensors)
        assert not loaded.model.training
        assert weights.bytes == {DEVICE: nested_nbytes(tensors)}
    with weights.use() as again:
        assert loaded.model is again.model
        before = {name: value.clone() for name, value in loaded.model.state_dict().items()}
        gone = [weakref.ref(parameter) for parameter in loaded.model.parameters()]
    del loaded, again, tensors
    weights.unload()
    assert weights.bytes == {}
    assert all(reference() is None for reference in gone)
    with weights.use() as loaded:
        assert all(torch.equal(value, before[name]) for name, value in loaded.model.state_dict().items())
    assert nested_nbytes({"a": (tensor := torch.zeros(3, dtype=torch.bfloat16), [tensor, None]), "b": 7}) == 12


def test_offloading_moves_the_weights_and_the_next_use_moves_them_back(folder, monkeypatch):
    weights = checkpoint(folder)
    moves = []
    with weights.use() as loaded:
        inferring = torch.is_inference_mode_enabled
        monkeypatch.setattr(loaded.model, "to", lambda device: moves.append((str(device), inferring())))
    with torch.inference_mode():
        weights.offload()
        for _ in range(2):
            with weights.use() as again:
                assert again.model is loaded.model
    assert moves == [("cpu", False), (DEVICE, False)]  # offloaded, and back to its original device


def test_identity_tells_weights_precision_and_backend_and_not_the_path_or_other_files(folder, tmp_path, monkeypatch):
    here = checkpoint(folder).identity
    assert here.startswith(f"{folder.name}@{folder_digest(folder)[:12]} float32 ")
    assert checkpoint(folder, dtype="bfloat16", backend="pil").identity.endswith(" bfloat16 pil")
    copy = Path(shutil.copytree(folder, tmp_path / "elsewhere" / folder.name))
    (copy / "README.md").write_text("about")
    assert checkpoint(copy).identity == here
    (copy / "words.tiktoken").write_text("a 0")
    assert folder_digest(copy) != folder_digest(folder)
    (copy / "words.tiktoken").unlink()
    train(copy)
    assert checkpoint(copy).identity != here
    model, commit = tmp_path / "models--someone--tiny", "0123456789abcdef0123456789abcdef01234567"
    shutil.copytree(folder, model / "snapshots" / commit)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(commit)
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert checkpoint("someone/tiny").identity.startswith("someone/tiny@0123456789ab float32 ")


@pytest.mark.parametrize("name", ["nobody/has-this", "/nowhere/at/all", "not a name"])
def test_what_cannot_be_had_takes_the_expert_down_with_a_reason(name):
    with pytest.raises(ExpertDown, match="neither a folder nor a model available"):
        _ = checkpoint(name).identity
    with pytest.raises(ExpertDown, match="cannot be loaded"):
        load(name)


def test_other_models_precisions_and_devices_are_refused(folder, tmp_path):
    copy, lacking = without_weights(folder, tmp_path / "copy", "layernorm")
    with pytest.raises(ExpertDown, match=rf"lacks {lacking} of its weights \(layernorm.bias, layernorm.weight\)"):
        load(copy)
    with pytest.raises(ExpertDown, match="give auto, float32"):
        load(folder, dtype="float33")
    if not torch.cuda.is_available():
        with pytest.raises(ExpertDown, match=r"GiB of weights\) cannot be put on cuda:7"):
            dino(folder, device="cuda:7", dtype="float32")(ASKED)


@pytest.fixture(scope="module")
def dinov3(tmp_path_factory) -> Path:
    return tiny_dinov3(tmp_path_factory.mktemp("tiny-dinov3"), published_processor=True)


CLASSES = ("AutoModel", "AutoImageProcessor", "ViTImageProcessorPil")


def in_python(program: str, *arguments: Path) -> Any:
    """A run without the tests' torchvision. The last argument is a place of modules."""
    head = "import sys\nsys.path.insert(0, sys.argv[-1])\n"
    head += "from editcritic.reward.experts.loading.checkpoint import Checkpoint\n"
    command = [sys.executable, "-c", head + program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_processor_on_pil_stands_in_where_there_is_one_also_without_torchvision(dinov3):
    weights = Checkpoint(str(dinov3), *CLASSES, device="cpu", backend="pil")
    with weights.use() as loaded:
        assert isinstance(loaded.processor, ViTImageProcessorPil)
        assert loaded.processor.size["height"] == 64
    assert weights.identity.endswith("float32 pil")
    with pytest.raises(ExpertDown, match="no processor on pil"):
        load(dinov3, backend="pil")
    program = f"weights = Checkpoint(sys.argv[1], *{CLASSES!r}, device='cpu')\n"
    program += "with weights.use() as loaded: print(type(loaded.processor).__name__, weights.identity)\n"
    ran = in_python(program, dinov3)
    assert ran.stdout.startswith("ViTImageProcessorPil "), ran.stderr
    assert ran.stdout.strip().endswith("float32 pil")


@pytest.mark.parametrize("broken", [False, True])
def test_a_processor_says_whether_torchvision_is_missing_or_does_not_fit(dinov3, tmp_path, broken):
    if broken:
        (tmp_path / "torchvision").mkdir()
        problem = "raise RuntimeError('operator torchvision::nms does not exist')"
        (tmp_path / "torchvision" / "__init__.py").write_text(problem)
    program = f"with Checkpoint(sys.argv[1], *{CLASSES[:2]!r}, device='cpu').use(): pass\n"
    said = in_python(program, dinov3, tmp_path).stderr.splitlines()[-1]
    assert ("of another build than torch" if broken else "without torchvision: pip install torchvision") in said


class Slow(LocalExpert[Measurement]):
    """Computes a number per image, and yields to other threads before it answers."""

    loader, processor, plain_processor, kinds = *CLASSES, (Rate,)
    default_load_options = Dino.default_load_options

    def __init__(self, name: str, between: Callable[[], object] = lambda: None) -> None:
        super().__init__(name, device="cpu", batch=8, cache_bytes=10**6)
        self.between = between

    def answer_batch(self, queries: Sequence[Rate]) -> list[Measurement]:
        with self.checkpoint.use():
            self.between()
            images = {query.image.digest: query for query in queries}
            outcomes = self.feature_cache.get_or_compute(images, lambda missing: [torch.ones(4) for _ in missing])
        return [Measurement(float(outcomes[query.image.digest][0])) for query in queries]


def test_it_answers_in_inference_mode_and_its_memory_and_work_are_counted(folder):
    modes = []
    expert = Slow(str(folder), lambda: modes.append(torch.is_inference_mode_enabled()))
    assert expert.bytes == {"cache": 0}
    assert not expert.devices
    with expert.checkpoint.use():  # who has the model to himself may ask the expert
        assert expert(RATED) == [Measurement(1.0)]
    assert expert(RATED) == [Measurement(1.0)]
    assert (modes, torch.is_inference_mode_enabled()) == ([True, True], False)
    assert (expert.bytes["cache"], expert.usage()) == (16, {"image_passes": 1})
    assert list(expert.devices) == [DEVICE]


@pytest.mark.parametrize("drop", [LocalExpert.unload, LocalExpert.offload])
def test_a_batch_under_way_is_waited_for_and_what_it_computes_is_forgotten_too(folder, drop):
    def let_in() -> None:
        dropper.start()
        dropper.join(0.1)
        assert dropper.is_alive()

    expert = Slow(str(folder), let_in)
    dropper = threading.Thread(target=drop, args=(expert,))
    assert expert(RATED) == [Measurement(1.0)]
    dropper.join(60)
    assert expert.bytes["cache"] == 0
    assert (expert.bytes.get(DEVICE, 0) == 0) is (drop is LocalExpert.unload)


def test_a_model_whose_call_hangs_keeps_no_other_waiting(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "other")
    began, go_on = threading.Event(), threading.Event()
    hanging = Slow(str(folder), lambda: (began.set(), go_on.wait(60)))  # type: ignore[func-returns-value]
    other = Slow(str(tmp_path / "other"))
    hanging.deadline_s = 0.05
    outcomes: list[Any] = []

    def call() -> None:
        outcomes.append(hanging(RATED))

    with running(call):
        assert began.wait(60)
        hanging.deadline_s = 600.0
        with running(call) as (again,):
            again.join(0.1)  # by then it waits for its own model
            assert other(RATED) == [Measurement(1.0)]
            assert outcomes == []
            go_on.set()
    assert outcomes == [[Measurement(1.0)]] * 2


def test_weights_that_were_trained_while_unloaded_or_before_the_first_query_have_another_id(folder):
    expert = Slow(str(folder))
    before = expert.id
    train(folder)
    expert(RATED)  # loads what is there now
    trained = expert.id
    assert trained != before
    train(folder)
    expert.offload()
    assert expert.id == trained  # the old weights are still in use
    expert.unload()
    assert (again := expert.id) not in (before, trained)
    expert(RATED)
    expert.unload()
    assert expert.id == again
    with (weights := checkpoint(folder)).use() as loaded:
        assert torch.equal(loaded.model.layernorm.bias, Dinov2Model.from_pretrained(folder).layernorm.bias)
        assert folder_digest(folder)[:12] in weights.identity


@pytest.fixture
def loads(monkeypatch) -> list[str]:
    """Records every load of a model."""
    names: list[str] = []
    load = Dinov2Model.from_pretrained.__func__

    def counted(cls, name, *positional, **options):
        names.append(str(name))
        return load(cls, name, *positional, **options)

    monkeypatch.setattr(Dinov2Model, "from_pretrained", classmethod(counted))
    return names


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (lambda folder: Slow(str(folder)), 1),
        (lambda folder: dino("tiny"), 1),
        (lambda folder: dino(shutil.copytree(folder, folder.parent / "copy")), 2),
        (lambda folder: dino(folder, dtype="bfloat16"), 2),
        (lambda folder: dino(folder, backend="torchvision"), 2),
    ],
    ids=["another expert", "a relative path", "a copy", "another precision", "another backend"],
)
def test_experts_with_the_same_weights_and_options_load_them_once(folder, loads, monkeypatch, other, expected):
    monkeypatch.chdir(folder.parent)
    one, second = dino(folder), other(folder)
    one(ASKED)
    second(RATED if isinstance(second, Slow) else ASKED)
    assert len(loads) == expected
    assert second.bytes[DEVICE] > 0


@pytest.mark.parametrize("drop", [LocalExpert.unload, LocalExpert.offload])
def test_what_one_gives_back_is_given_back_for_both_and_comes_back_once(folder, loads, drop):
    one, other = dino(folder), dino(folder)
    before, old_id = values(one), one.id
    assert values(other) == before
    with one.checkpoint.use() as loaded:
        gone = weakref.ref(loaded.model)
    del loaded
    drop(one)
    gc.collect()
    assert (gone() is None) is (drop is LocalExpert.unload)
    assert other.bytes.get(DEVICE, 0) == one.bytes.get(DEVICE, 0)
    assert values(other) == values(one) == before
    assert len(loads) == (2 if drop is LocalExpert.unload else 1)
    train(folder)
    loads.clear()
    new = dino(folder)
    after = values(new)
    assert (loads, new.id != old_id, after != before) == ([str(folder)], True, True)
    assert values(one) == before  # as long as nobody drops them
    other.unload()
    assert values(one) == values(other) == after


def test_the_last_expert_takes_the_weights_with_it(folder):
    one, other = dino(folder), dino(folder)
    one(ASKED)
    with other.checkpoint.use() as loaded:
        gone = weakref.ref(loaded.model)
    del loaded, one
    gc.collect()
    assert gone() is not None
    del other
    gc.collect()
    assert gone() is None


def test_roles_with_equal_specs_share_the_expert_also_after_pickling(folder):
    features = f"{folder}?device=cpu"
    line = f"detector=annotated features={features} features.other={features} pixels=pixels reader=rapidocr"
    for experts in (load_experts(line), pickle.loads(pickle.dumps(Reward.of("edival-cc", line))).experts):
        assert isinstance(experts["features"], Dino)
        assert experts["features"] is experts["features.other"]


def test_two_threads_that_ask_and_drop_always_get_an_answer(folder):
    experts = [dino(folder), dino(folder)]
    expected = values(experts[0])
    answers = []

    def ask(expert: Dino) -> None:
        for _ in range(4):
            answers.append(values(expert))
            expert.unload()

    with running(*(functools.partial(ask, expert) for expert in experts)):
        pass
    assert answers == [expected] * 8


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
    compiled = dino(folder, compiled=True)
    assert "compiled" in compiled.id
    assert values(compiled) == pytest.approx(values(dino(folder)), abs=1e-4)
    assert len(graphs) == 1  # equal layers share a graph


def test_a_device_map_places_it_and_offloading_drops_it(folder, loads):
    expert = Dino(str(folder), device_map="auto")
    before = values(expert)
    expert.offload()
    assert sum(expert.checkpoint.bytes.values()) == 0
    assert values(expert) == before
    assert len(loads) == 2


def running_out(loaded: Any, name: str, room: int, monkeypatch) -> list[int]:
    """Limit a method of the model to `room` rows; returns the sizes of attempted passes."""
    tried: list[int] = []
    method = getattr(loaded.model, name)

    def limited(**named):
        tried.append(max(len(value) for value in named.values() if isinstance(value, torch.Tensor)))
        if tried[-1] > room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")
        return method(**named)

    monkeypatch.setattr(loaded.model, name, limited)
    return tried


def asked(*numbers: int) -> list[Embed]:
    return [Embed(picture(number, 28, 28), (Region("cls"),)) for number in numbers]


def test_a_pass_that_runs_out_of_memory_is_halved_and_one_that_never_fits_fails_with_the_reason(folder, monkeypatch):
    expected = dino(folder)(asked(*range(10)))
    expert = dino(folder, batch=8)
    with expert.checkpoint.use() as loaded:
        tried = running_out(loaded, "forward", 2, monkeypatch)
    with pytest.warns(UserWarning, match="from now on"):
        same(expert(asked(*range(10))), expected)
    assert tried == [8, 4, 2, 2, 2, 2, 2]
    tried.clear()
    expert(asked(*range(20, 24)))
    assert tried == [2, 2]  # the size that failed is not tried again
    with expert.checkpoint.use() as loaded:
        running_out(loaded, "forward", 0, monkeypatch)
    reward = Reward.of("clip-image", {"features": expert}, on_failures="none")
    with pytest.warns(UserWarning, match="from now on"):
        (score,) = reward([sample(sources=(picture(31, 28, 28),), edited=picture(32, 28, 28))])
    assert score.status == "failed"
    assert "out of memory" in score.reason


def test_a_judge_asks_fewer_at_a_time(tmp_path, monkeypatch):
    tiny_llava(tmp_path)
    colours = ("red", "new", "old", "big")
    queries = [Judge((Message((f"Is it {colour}?", picture(1, 40, 40))),), YesNo()) for colour in colours]
    options: dict[str, Any] = {"device": "cpu", "min_option_mass": 0.0}
    expected: Any = Vlm(str(tmp_path), **options)(queries)
    judge: Any = Vlm(str(tmp_path), batch=4, backend="pil", **options)
    with judge.checkpoint.use() as loaded:
        tried = running_out(loaded, "generate", 1, monkeypatch)
    with pytest.warns(UserWarning, match="from now on"):
        same(judge(queries), expected, "probabilities")
    assert (tried[:2], judge.microbatcher.size, judge.batch) == ([4, 2], 1, 4)


def test_a_budget_keeps_passes_small_from_the_first(folder):
    free = dino(folder)
    expected = free(asked(*range(12)))
    limited = dino(folder, cache_bytes=10_000, max_memory=f"{free.bytes[DEVICE] + 10_000 + 400_000}")
    same(limited(asked(*range(12))), expected)
    assert 1 <= limited.microbatcher.size < free.microbatcher.size
