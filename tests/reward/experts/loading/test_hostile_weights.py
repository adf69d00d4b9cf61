"""Weight files of strangers: no tensor takes more memory than the file has bytes, and nothing is waited for."""

from __future__ import annotations

import json
import os
import pickle
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from editcritic.reward.experts.loading.checkpoint import Checkpoint
from editcritic.reward.experts.loading.hub_files import read_state
from editcritic.reward.queries import ExpertDown

torch = pytest.importorskip("torch")


def test_weights_are_read_but_compressed_ones_and_tensors_larger_than_what_is_stored(tmp_path: Path) -> None:
    state = {"weight": torch.arange(6.0).reshape(2, 3).t(), "shared": torch.zeros(0)}
    for is_zip in (True, False):
        torch.save(state, tmp_path / "plain.pt", _use_new_zipfile_serialization=is_zip)
        assert read_state(tmp_path / "plain.pt")["weight"].equal(state["weight"])
    torch.save({"weight": torch.zeros(1_000_000)}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for member in plain.infolist():
            bomb.writestr(member.filename, plain.read(member))
    with pytest.raises(ValueError, match=r"bomb\.pt holds compressed tensors"):
        read_state(tmp_path / "bomb.pt")
    torch.save({"weight": torch.zeros(1).expand(10**6, 10**6)}, tmp_path / "wide.pt")
    with pytest.raises(ValueError, match=r"wide\.pt has fewer numbers than its tensor 'weight' of shape"):
        read_state(tmp_path / "wide.pt")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    pytest.importorskip("transformers")
    from ..tiny_dinos import tiny_dinov2

    return tiny_dinov2(tmp_path / "tiny")


def loaded(folder: Path) -> object:
    with Checkpoint(str(folder), "AutoModel", "AutoImageProcessor", device="cpu").use() as model:
        return model


@pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs")
@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "chat_template.jinja"])
def test_a_fifo_in_a_models_folder_is_not_waited_for(file: str, tiny: Path, tmp_path: Path) -> None:
    (tiny / file).unlink(missing_ok=True)
    os.mkfifo(tiny / file)
    with pytest.raises(ExpertDown, match=f"{file} is no regular file"):
        loaded(tiny)
    os.mkfifo(tmp_path / "fifo.pt")
    for path, kind in ((tmp_path / "fifo.pt", "FIFO"), (Path("/dev/zero"), "device")):
        with pytest.raises(OSError, match=f"it is a {kind}"):
            read_state(path)


def change(file: Path, **values: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


@pytest.fixture
def no_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Mock(side_effect=AssertionError("somebody is asked over the network"))
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)


@pytest.mark.usefixtures("no_requests")
@pytest.mark.parametrize(
    "values",
    [
        {"attn_implementation": "owner/kernel@main"},
        {"_attn_implementation": {"": "eager", "text_config": "owner/kernel:name"}},
        {"backbone": "owner/model"},
        {"backbone_config": {"model_type": "timm_backbone", "backbone": "resnet50"}},
        {"architecture": "hf-hub:owner/model"},
        {"text_config": [{"vision_config": {"attn_implementation": "owner/kernel"}}]},
    ],
)
def test_a_configuration_fetches_nothing(values: dict[str, object], tiny: Path) -> None:
    change(tiny / "config.json", **values)
    with pytest.raises(ExpertDown, match=r"config\.json has \w+=.* which would be fetched from the hub"):
        loaded(tiny)


@pytest.mark.usefixtures("no_requests")
def test_an_honest_configuration_is_loaded_from_its_folder_alone(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    change(tiny / "config.json", backbone=None, use_pretrained_backbone=False, attn_implementation="eager")
    load = Mock(wraps=transformers.AutoModel.from_pretrained)
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", load)
    assert loaded(tiny)
    assert load.call_args.kwargs["local_files_only"] is True


@pytest.mark.usefixtures("no_requests")
@pytest.mark.parametrize("file", ["../../etc/passwd", "/etc/passwd", "..\\weights.safetensors", "", 7, None])
def test_an_index_names_files_beside_it(file: object, tiny: Path) -> None:
    (tiny / "model.safetensors").rename(tiny / "model-1.safetensors")
    (tiny / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": file}}))
    with pytest.raises(ExpertDown, match=r"index\.json names weights in .*, which is no file beside it"):
        loaded(tiny)


class Ran:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(Path(os.environ["RAN"])),)


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Ran()))


def weights(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        file = folder / "model.safetensors"
        file.write_bytes(change(file.read_bytes()))

    return damage


def config(**values: object) -> Callable[[Path], object]:
    return lambda folder: change(folder / "config.json", **values)


@pytest.mark.usefixtures("no_requests")
@pytest.mark.parametrize(
    "damage",
    [
        pickled,
        weights(lambda _: b"\xff" * 100),
        weights(lambda _: (10**9).to_bytes(8, "little") + b"{" * 100),
        weights(lambda _: b""),
        weights(lambda whole: whole[:-1000]),
        lambda folder: (folder / "config.json").write_bytes(b"[" * 100_000),
        lambda folder: (folder / "config.json").write_text("[]"),
        config(hidden_size="16"),
        config(model_type=["dinov2"]),
        config(num_attention_heads=0),
        config(auto_map={"AutoModel": "code.Model"}, model_type="other"),
        config(quantization_config={"quant_method": "gptq", "bits": 4}),
        lambda folder: change(folder / "preprocessor_config.json", image_processor_type=7),
    ],
)
def test_a_damaged_model_is_down_with_words(
    damage: Callable[[Path], object], tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAN", str(tmp_path / "ran"))
    damage(tiny)
    with pytest.raises(ExpertDown, match="tiny"):
        loaded(tiny)
    assert not (tmp_path / "ran").exists()
