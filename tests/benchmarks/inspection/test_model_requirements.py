"""The models of experts, computed without loading them."""

import json
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import transformers
from huggingface_hub import constants
from safetensors.torch import save_file

from editcritic.benchmarks.inspection import local_weights
from editcritic.benchmarks.inspection.local_weights import DeviceMemory
from editcritic.benchmarks.inspection.model_requirements import ModelRequirements, model_requirements
from editcritic.reward import SpecError
from editcritic.reward.experts.dino import Dino
from editcritic.reward.experts.loading.checkpoint import Checkpoint
from editcritic.reward.experts.loading.local_expert import LocalExpert
from editcritic.reward.experts.loading.model_registry import registered_models
from editcritic.reward.queries import Embed, Failure

from ..conftest import Command

SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def trusted(monkeypatch):
    """The folders of weights, and the experts, that files here name."""
    monkeypatch.setenv("EDITCRITIC_TRUST", f"tests {tempfile.gettempdir()}")


@pytest.fixture(scope="module")
def dino(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("weights") / "my-dino"
    config = transformers.DINOv3ViTConfig(patch_size=16, image_size=64, num_register_tokens=4, **SHAPE)
    transformers.DINOv3ViTModel(config).save_pretrained(folder)
    transformers.ViTImageProcessorPil(size={"height": 64, "width": 64}).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache of our own, and no network."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("somebody went to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return tmp_path / "hub"


@pytest.fixture(autouse=True)
def loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("somebody loaded a model")

    monkeypatch.setattr(Checkpoint, "_load", refuse)


def cached(hub: Path, name: str, folder: str, *files: str) -> Path:
    """Put a model's files where the hub's client would."""
    place = hub / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT)
    snapshot = place / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for file in files or [each.name for each in Path(folder).iterdir()]:
        shutil.copy(Path(folder) / file, snapshot / file)
    return snapshot


def plainly_loaded(folder: str, dtype: str) -> int:
    model = transformers.AutoModel.from_pretrained(folder, dtype=getattr(torch, dtype))
    return sum(one.nbytes for one in model.parameters())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_weights_of_a_folder_are_counted_to_the_byte(dino: str, hub: Path, dtype: str) -> None:
    (entry,) = model_requirements([f"features={dino}?dtype={dtype}"]).entries
    assert (entry.source, entry.is_exact, entry.problem) == ("folder", True, "")
    assert entry.weights == plainly_loaded(dino, dtype)
    assert (entry.expert, entry.dtype, entry.roles) == ("Dino", dtype, ("features",))
    assert entry.cache_bytes == Dino(dino).cache_bytes


def test_a_model_in_several_files_is_counted_like_one(dino: str, hub: Path, tmp_path: Path) -> None:
    model = transformers.AutoModel.from_pretrained(dino)
    model.save_pretrained(tmp_path / "parts", max_shard_size="40KB")
    parts = sorted((tmp_path / "parts").glob("*.safetensors"))
    assert len(parts) > 2
    spec = f"x=dino:{tmp_path / 'parts'}"
    assert model_requirements([spec]).entries[0].weights == plainly_loaded(dino, "float32")
    parts[1].unlink()
    plan = model_requirements([spec])
    assert f"lacks {parts[1].name}" in plan.entries[0].problem
    assert plan.exit_code == 1


def test_whole_numbers_in_a_file_keep_their_width(tmp_path: Path) -> None:
    whole = {"steps": torch.zeros(7, dtype=torch.int64), "on": torch.zeros(2, dtype=torch.bool)}
    save_file({"a.weight": torch.zeros(3, 5), **whole}, tmp_path / "model.safetensors")
    weights = local_weights.find_weights(str(tmp_path))
    assert local_weights.weight_memory(weights, "bfloat16") == (2 * 15 + 8 * 7 + 2, True)
    about, exact = local_weights.weight_memory(weights, "bfloat16", "nf4")
    assert (about < 2 * 15 + 8 * 7 + 2, exact) == (True, False)


def test_a_pickle_is_told_by_its_size(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(100)}, tmp_path / "head.pt")
    weights = local_weights.find_weights(str(tmp_path / "head.pt"))
    assert local_weights.weight_memory(weights, "bfloat16") == ((tmp_path / "head.pt").stat().st_size, False)


@pytest.mark.parametrize("damage", [b"", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0[]", b"\x02\0\0\0\0\0\0\0{}more"])
def test_a_damaged_file_is_a_problem_not_a_crash(damage: bytes, dino: str, hub: Path, tmp_path: Path) -> None:
    shutil.copytree(dino, tmp_path / "damaged")
    (tmp_path / "damaged" / "model.safetensors").write_bytes(damage)
    (entry,) = model_requirements([f"x={tmp_path / 'damaged'}"]).entries
    assert "model.safetensors is not a safetensors file" in entry.problem


def test_of_the_hub_only_the_cache_is_looked_into(dino: str, hub: Path) -> None:
    line = ["x=dinov3-vitb16"]
    (entry,) = model_requirements(line).entries
    assert (entry.source, entry.is_exact, entry.gated, entry.licence) == ("hub", False, True, "DINOv3 License")
    assert entry.weights == registered_models()["dinov3-vitb16"].weight_bytes("float32")
    cached(hub, "facebook/dinov3-vitb16-pretrain-lvd1689m", dino)
    (entry,) = model_requirements(line).entries
    assert (entry.source, entry.is_exact, entry.revision) == ("hub cache", True, COMMIT[:12])
    assert entry.weights == plainly_loaded(dino, "float32")


def test_a_model_that_was_cached_in_part_would_be_downloaded_in_part(dino: str, hub: Path) -> None:
    cached(hub, "facebook/dinov2-base", dino, "config.json")
    plan = model_requirements(["x=dinov2-base"])
    assert "the rest would be downloaded" in plan.entries[0].location
    assert plan.entries[0].weights == registered_models()["dinov2-base"].weight_bytes("float32")


def test_a_model_that_nobody_knows_has_no_size(hub: Path) -> None:
    plan = model_requirements(["judge=vlm:somebody/something"])
    assert plan.entries[0].weights is None
    assert plan.devices[0].fits is None
    assert "judge" in plan.devices[0].verdict


def test_what_has_the_same_settings_is_counted_once(dino: str, hub: Path) -> None:
    plan = model_requirements(
        [f"a=dino:{dino}", f"b=dino:{dino}?size=32", f"c=dino:{dino}?dtype=bfloat16", f"d=dino:{dino}"]
    )
    assert [entry.roles for entry in plan.entries] == [("a", "d"), ("b",), ("c",)]
    assert [entry.shares_weights_with for entry in plan.entries] == ["", "a", ""]
    full_size = plainly_loaded(dino, "float32")
    assert plan.devices[0].weights == full_size + full_size // 2
    assert plan.devices[0].cache_bytes == 3 * Dino(dino).cache_bytes


@pytest.mark.parametrize(
    ("spec", "source", "model"),
    [
        ("openai:http://127.0.0.1:8000/v1", "server", "its only model (not queried)"),
        ("openai:gpt-4o", "server", "gpt-4o"),
        ("rapidocr", "package", ""),
        ("pixels", "none", ""),
    ],
)
def test_what_needs_no_weights_says_where_it_comes_from(spec: str, source: str, model: str, hub: Path) -> None:
    plan = model_requirements([f"x={spec}"])
    assert (plan.entries[0].source, plan.entries[0].model, plan.exit_code) == (source, model, 0)


def test_a_server_is_asked_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "editcritic.reward.experts.judging.http_endpoint.Endpoint.single_served_model", lambda _: "qwen"
    )
    assert model_requirements(["x=openai:http://127.0.0.1:8000/v1"], query_servers=True).entries[0].model == "qwen"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dino:{dino}?device=cuda:7", "cuda:7"),
        ("dino:{dino}?dtype=float33", "no torch dtype"),
        ("dino:{dino}?device=nonsense", "nonsense"),
        ("dino:/nowhere/at/all", "there is no /nowhere/at/all"),
    ],
)
def test_what_would_not_load_is_told_with_its_reason(spec: str, message: str, dino: str, hub: Path) -> None:
    plan = model_requirements([f"x={spec.format(dino=dino)}"])
    assert message in plan.entries[0].problem
    assert plan.exit_code == 1


def test_what_does_not_fit_is_told() -> None:
    device = DeviceMemory("cuda:0", 3 * 2**30, 2**30, True, (), 2 * 2**30, 4 * 2**30)
    assert device.fits is False
    assert (device.verdict, ModelRequirements((), (device,)).exit_code) == ("does not fit: 1.0 GiB too large", 1)
    close = DeviceMemory("cuda:0", 3 * 2**30, 2 * 2**30, True, (), 4 * 2**30, 8 * 2**30)
    assert close.fits
    assert "lower cache_bytes" in close.verdict


class Head:
    """A loader of a head that takes one tower of the model below it."""

    base_prefixes = ("embeddings.",)


class OnTop(LocalExpert[Failure]):
    loader = Head
    kinds = (Embed,)

    def __init__(self, name: str, base: str) -> None:
        super().__init__(name, base=base, batch=1, cache_bytes=0, dtype="float32")

    def answer_batch(self, queries: Sequence[Embed]) -> list[Failure]:
        return [Failure("never queried") for _ in queries]


def test_what_a_head_takes_of_the_model_below_it_is_counted_too(dino: str, hub: Path, tmp_path: Path) -> None:
    save_file({"a": torch.zeros(10)}, tmp_path / "model.safetensors")
    table = {"use": f"{OnTop.__module__}:OnTop", "name": str(tmp_path), "base": dino}
    (tmp_path / "experts.toml").write_text("\n".join(["[x]", *(f'{key} = "{value}"' for key, value in table.items())]))
    sys.modules.setdefault(OnTop.__module__, sys.modules[__name__])
    model = transformers.AutoModel.from_pretrained(dino)
    below = sum(one.nbytes for name, one in model.named_parameters() if name.startswith("embeddings."))
    (entry,) = model_requirements([str(tmp_path / "experts.toml")]).entries
    assert below > 0
    assert entry.weights == 40 + below
    assert dino in entry.location


def test_nothing_is_looked_up_for_a_name_of_unknown_kind(hub: Path) -> None:
    with pytest.raises(SpecError, match="nothing is downloaded here: name the expert"):
        model_requirements(["x=somebody/something"])


def test_the_command_prints_a_table_and_json(editcritic: Command, dino: str, hub: Path) -> None:
    line = f"detector=grounding-dino-tiny features={dino} judge=openai:http://127.0.0.1:8000/v1"
    shown = editcritic("doctor", "--experts", line, "--experts", "reader=rapidocr", code=0)
    for text in ["IDEA-Research/grounding-dino-tiny", "would be downloaded", "Apache-2.0", "my-dino", "RapidOcr"]:
        assert text in shown.stdout
    document = json.loads(editcritic("doctor", "--experts", line, "--json").stdout)
    assert [one["roles"] for one in document["experts"]] == [["detector"], ["features"], ["judge"]]
    assert [one["is_exact"] for one in document["devices"]] == [False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--experts", "detector=grounding-dino-tinny"], "did you mean grounding-dino-tiny"),
        (["--experts", "mm-grounding-dino-tiny"], "say for which role, as in detector=mm-grounding-dino-tiny"),
        (["--experts", "x=dino:a?size=big"], "x:"),
        (["--experts", "x=dino:a?quantisation=two"], "quantisation is one of"),
        (["--query-servers"], "--query-servers needs --experts"),
        (["--images", "."], "--images needs --check-model"),
    ],
)
def test_nonsense_is_told_in_one_line(options: list[str], message: str, editcritic: Command) -> None:
    refused = editcritic("doctor", *options, code=2, says=message)
    assert len(refused.stderr.splitlines()) == 1


def test_of_a_rater_the_judges_weights_are_told(hub: Path) -> None:
    plan = model_requirements(["a=artimuse b=q-insight?judge=vlm:Qwen/Qwen3-VL-4B-Instruct judge=edit-score-qwen3-4b"])
    queried = ["ArtiMuse, which queries Vlm", "QInsight, which queries Vlm", "Vlm"]
    assert [entry.expert for entry in plan.entries] == queried
    assert [entry.model for entry in plan.entries][1:] == 2 * ["Qwen/Qwen3-VL-4B-Instruct"]
    assert plan.entries[0].weights == registered_models()["artimuse"].weight_bytes(plan.entries[0].dtype)
    assert "with the adapter EditScore/EditScore-Qwen3-VL-4B-Instruct" in plan.entries[2].location


def test_who_chooses_says_whom_and_that_the_hub_was_not_asked(hub: Path) -> None:
    (entry,) = model_requirements(["x=enhancer"]).entries
    assert entry.expert == "BestAvailableUpscaler, which chooses Lanczos"
    assert "may be on the hub" in entry.location


def test_what_a_loader_leaves_out_is_not_counted(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(10), "lm_head.weight": torch.zeros(90)}, tmp_path / "model.safetensors")
    weights = local_weights.find_weights(str(tmp_path))
    assert local_weights.weight_memory(weights, "float32", ignored=("lm_head.",)) == (40, True)
