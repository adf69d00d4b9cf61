"""Checkpoint: lazy loading, identity by content, offloading and unloading."""

import shutil
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BitImageProcessorPil,
    Dinov2Config,
    Dinov2Model,
    DINOv3ViTConfig,
    DINOv3ViTImageProcessor,
    DINOv3ViTModel,
    ViTImageProcessorPil,
)

from editcritic.reward.experts.loading.checkpoint import Checkpoint
from editcritic.reward.experts.loading.hub_files import folder_digest
from editcritic.reward.experts.loading.local_expert import LocalExpert, nested_nbytes
from editcritic.reward.queries import ExpertDown, Measurement, Rate

from ...fakes import PICTURE
from ..device import DEVICE

TINY = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("tiny-dinov2")
    Dinov2Model(Dinov2Config(**TINY)).save_pretrained(place)
    BitImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}).save_pretrained(place)
    return place


def checkpoint(folder, **options):
    return Checkpoint(str(folder), "AutoModel", "AutoImageProcessor", device="cpu", **options)


def test_nothing_is_loaded_before_it_is_asked_for(folder):
    weights = checkpoint(folder)
    assert weights.bytes == {}
    assert weights.identity
    assert weights.bytes == {}
    with weights.use() as loaded:
        assert not loaded.model.training
        assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
        assert weights.bytes == {DEVICE: nested_nbytes([*loaded.model.parameters(), *loaded.model.buffers()])}


def test_it_is_loaded_once(folder):
    weights = checkpoint(folder)
    with weights.use() as first:
        pass
    with weights.use() as second:
        assert first.model is second.model


def test_unloading_frees_the_weights_and_the_next_use_brings_them_back(folder):
    weights = checkpoint(folder)
    with weights.use() as loaded:
        before = {name: value.clone() for name, value in loaded.model.state_dict().items()}
        gone = [weakref.ref(parameter) for parameter in loaded.model.parameters()]
    del loaded
    weights.unload()
    assert weights.bytes == {}
    assert all(reference() is None for reference in gone)
    with weights.use() as loaded:
        assert all(torch.equal(value, before[name]) for name, value in loaded.model.state_dict().items())


def test_offloading_moves_the_weights_and_the_next_use_moves_them_back(folder, monkeypatch):
    weights = checkpoint(folder)
    with weights.use() as loaded:
        moves = []
        monkeypatch.setattr(
            loaded.model, "to", lambda device: moves.append((str(device), torch.is_inference_mode_enabled()))
        )
    with torch.inference_mode():
        weights.offload()
        with weights.use() as again:
            assert again.model is loaded.model
    with weights.use():
        pass
    assert moves == [("cpu", False), (DEVICE, False)]  # offloaded, and back to its original device


def test_weights_are_no_tensors_of_inference_mode(folder):
    weights = checkpoint(folder)
    with torch.inference_mode(), weights.use() as loaded:
        assert torch.zeros(1).is_inference()
        tensors = [*loaded.model.parameters(), *loaded.model.buffers()]
    assert tensors
    assert not any(tensor.is_inference() for tensor in tensors)


def test_giving_back_what_was_never_loaded_does_nothing(folder):
    weights = checkpoint(folder)
    weights.offload()
    weights.unload()
    assert weights.bytes == {}


def test_a_batch_under_way_is_waited_for(folder):
    weights = checkpoint(folder)
    began, go_on = threading.Event(), threading.Event()
    outcomes = []

    def work():
        with weights.use() as loaded:
            began.set()
            go_on.wait(60)
            outcomes.append(loaded.model.embeddings.cls_token.device.type)

    worker = threading.Thread(target=work)
    worker.start()
    assert began.wait(60)
    dropper = threading.Thread(target=weights.unload)
    dropper.start()
    dropper.join(0.05)
    assert dropper.is_alive()
    go_on.set()
    worker.join(60)
    dropper.join(60)
    assert outcomes == [DEVICE.partition(":")[0]]
    assert weights.bytes == {}


class Slow(LocalExpert[Measurement]):
    """Computes a number per image, and yields to other threads before it answers."""

    loader, processor, kinds = "AutoModel", "AutoImageProcessor", (Rate,)

    def __init__(self, name: str, between: Callable[[], None]) -> None:
        super().__init__(name, dtype="float32", device="cpu", batch=8, cache_bytes=10**6)
        self.between = between

    def answer_batch(self, queries: Sequence[Rate]) -> list[Measurement]:
        with self.checkpoint.use():
            self.between()
            outcomes = self.feature_cache.get_or_compute(
                {query.image.digest: query for query in queries}, self._compute
            )
        return [Measurement(float(outcomes[query.image.digest][0])) for query in queries]

    def _compute(self, queries: list[Rate]) -> list[torch.Tensor]:
        return [torch.ones(4) for _ in queries]


@pytest.mark.parametrize("drop", [LocalExpert.unload, LocalExpert.offload])
def test_what_a_batch_under_way_computes_is_forgotten_too(folder, drop):
    def let_in() -> None:
        dropper.start()
        dropper.join(0.1)

    expert = Slow(str(folder), let_in)
    dropper = threading.Thread(target=drop, args=(expert,))
    assert expert([Rate(PICTURE)]) == [Measurement(1.0)]
    dropper.join(60)
    assert expert.bytes["cache"] == 0
    assert (expert.bytes.get(DEVICE, 0) == 0) is (drop is LocalExpert.unload)


def test_it_answers_in_inference_mode_and_others_are_not_in_it(folder):
    modes = []
    expert = Slow(str(folder), lambda: modes.append(torch.is_inference_mode_enabled()))
    expert([Rate(PICTURE)])
    assert (modes, torch.is_inference_mode_enabled()) == ([True], False)


def test_who_has_the_model_to_himself_may_ask_the_expert(folder):
    expert = Slow(str(folder), lambda: None)
    with expert.checkpoint.use():
        assert expert([Rate(PICTURE)]) == [Measurement(1.0)]
    assert expert([Rate(PICTURE)]) == [Measurement(1.0)]


def test_a_model_whose_call_hangs_keeps_no_other_waiting(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "other")
    began, go_on = threading.Event(), threading.Event()

    def hang():
        began.set()
        go_on.wait(60)

    hanging, other = Slow(str(folder), hang), Slow(str(tmp_path / "other"), lambda: None)
    hanging.deadline_s = 0.05
    outcomes = []

    def call() -> None:
        outcomes.append(hanging([Rate(PICTURE)]))

    first, again = threading.Thread(target=call), threading.Thread(target=call)
    first.start()
    assert began.wait(60)
    hanging.deadline_s = 600.0
    again.start()
    again.join(0.1)  # by then it waits for its own model
    assert other([Rate(PICTURE)]) == [Measurement(1.0)]
    assert outcomes == []
    go_on.set()
    first.join(60)
    again.join(60)
    assert outcomes == [[Measurement(1.0)]] * 2


def test_what_is_kept_of_pictures_is_counted(folder):
    expert = Slow(str(folder), lambda: None)
    assert expert.bytes == {"cache": 0}
    expert([Rate(PICTURE)])
    assert expert.bytes["cache"] == 16
    assert expert.usage() == {"image_passes": 1}


def test_identity_tells_weights_precision_and_backend(folder, tmp_path):
    here = checkpoint(folder).identity
    assert here.startswith(f"{folder.name}@{folder_digest(folder)[:12]} float32 ")
    assert checkpoint(folder, dtype="bfloat16", backend="pil").identity.endswith(" bfloat16 pil")
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    assert checkpoint(copy).identity == here  # independent of the path
    train(copy)
    assert checkpoint(copy).identity != here


def train(folder: Path) -> None:
    """Write other weights to the folder."""
    model = Dinov2Model.from_pretrained(folder)
    with torch.no_grad():
        model.layernorm.bias[3] += 1
    model.save_pretrained(folder)


def test_weights_that_were_trained_while_unloaded_have_another_id(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    expert = Slow(str(copy), lambda: None)
    before = expert.id
    assert expert([Rate(PICTURE)]) == [Measurement(1.0)]
    train(copy)
    expert.offload()
    assert expert.id == before  # the old weights are still in use
    expert.unload()
    trained = expert.id
    assert trained != before
    expert([Rate(PICTURE)])
    expert.unload()
    assert expert.id == trained


def test_weights_that_were_trained_between_the_id_and_the_first_query_have_another_id(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    expert = Slow(str(copy), lambda: None)
    before = expert.id
    train(copy)
    expert([Rate(PICTURE)])
    assert expert.id != before
    trained = checkpoint(copy)
    with trained.use() as loaded:
        assert torch.equal(loaded.model.layernorm.bias, Dinov2Model.from_pretrained(copy).layernorm.bias)
        assert folder_digest(copy)[:12] in trained.identity


def test_files_that_are_no_part_of_the_model_do_not_change_the_digest(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "README.md").write_text("about")
    assert folder_digest(copy) == folder_digest(folder)
    (copy / "words.tiktoken").write_text("a 0")
    assert folder_digest(copy) != folder_digest(folder)


def test_a_name_on_the_hub_is_known_by_its_commit(folder, tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = tmp_path / "models--someone--tiny" / "snapshots" / commit
    shutil.copytree(folder, snapshot)
    (tmp_path / "models--someone--tiny" / "refs").mkdir()
    (tmp_path / "models--someone--tiny" / "refs" / "main").write_text(commit)
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path))
    weights = checkpoint("someone/tiny")
    assert weights.identity.startswith("someone/tiny@0123456789ab float32 ")


@pytest.mark.parametrize("name", ["nobody/has-this", "/nowhere/at/all", "not a name"])
def test_what_cannot_be_had_takes_the_expert_down_with_a_reason(name):
    weights = checkpoint(name)
    with pytest.raises(ExpertDown, match="neither a folder nor a model available"):
        _ = weights.identity
    with pytest.raises(ExpertDown, match="cannot be loaded"), weights.use():
        pass


def test_a_folder_without_a_model_takes_the_expert_down(tmp_path):
    with pytest.raises(ExpertDown, match="cannot be loaded with AutoModel"), checkpoint(tmp_path).use():
        pass


@pytest.fixture(scope="module")
def dinov3(tmp_path_factory) -> Path:
    """As published: its processor works with torchvision only."""
    place = tmp_path_factory.mktemp("tiny-dinov3")
    DINOv3ViTModel(DINOv3ViTConfig(**TINY | {"intermediate_size": 16})).save_pretrained(place)
    DINOv3ViTImageProcessor(size={"height": 28, "width": 28}).save_pretrained(place)
    return place


def test_a_processor_on_pil_stands_in_where_there_is_one(dinov3):
    classes = ("AutoModel", "AutoImageProcessor", "ViTImageProcessorPil")
    weights = Checkpoint(str(dinov3), *classes, device="cpu", backend="pil")
    with weights.use() as loaded:
        assert isinstance(loaded.processor, ViTImageProcessorPil)
        assert loaded.processor.size["height"] == 28
    assert weights.identity.endswith("float32 pil")
    with pytest.raises(ExpertDown, match="no processor on pil"), checkpoint(dinov3, backend="pil").use():
        pass


def test_without_torchvision_it_stands_in_unasked(dinov3):
    program = (
        "import sys\n"
        "from editcritic.reward.experts.loading.checkpoint import Checkpoint\n"
        "classes = ('AutoModel', 'AutoImageProcessor', 'ViTImageProcessorPil')\n"
        "weights = Checkpoint(sys.argv[1], *classes, device='cpu')\n"
        "with weights.use() as loaded: print(type(loaded.processor).__name__, weights.identity)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(dinov3)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("ViTImageProcessorPil ")
    assert ran.stdout.strip().endswith("float32 pil")


@pytest.mark.parametrize(
    ("package", "problem"),
    [
        ("", "cannot be loaded without torchvision: pip install torchvision"),
        ("raise RuntimeError('operator torchvision::nms does not exist')", "of another build than torch"),
    ],
)
def test_a_processor_says_whether_torchvision_is_missing_or_does_not_fit(dinov3, tmp_path, package, problem):
    if package:
        (tmp_path / "torchvision").mkdir()
        (tmp_path / "torchvision" / "__init__.py").write_text(package)
    program = (
        "import sys\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from editcritic.reward.experts.loading.checkpoint import Checkpoint\n"
        "with Checkpoint(sys.argv[1], 'AutoModel', 'AutoImageProcessor', device='cpu').use(): pass\n"
    )
    command = [sys.executable, "-c", program, str(dinov3), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert problem in ran.stderr.splitlines()[-1]


def test_a_checkpoint_that_lacks_weights_is_refused(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    weights = load_file(copy / "model.safetensors")
    save_file({k: v for k, v in weights.items() if "layernorm" not in k}, copy / "model.safetensors", {"format": "pt"})
    lacking = pytest.raises(ExpertDown, match=r"lacks 2 of its weights \(layernorm.bias, layernorm.weight\)")
    with lacking, checkpoint(copy).use():
        pass


def test_a_dtype_that_is_none_is_refused(folder):
    with pytest.raises(ExpertDown, match="give auto, float32"):
        _ = checkpoint(folder, dtype="float33").identity


def test_bytes_are_counted_in_nested_values():
    tensor = torch.zeros(3, dtype=torch.bfloat16)
    assert nested_nbytes({"a": (tensor, [tensor, None]), "b": 7}) == 12
