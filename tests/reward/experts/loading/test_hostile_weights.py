"""Weight files of strangers: no tensor takes more memory than the file has bytes, and nothing is waited for."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from editcritic.reward.experts.loading.checkpoint import Checkpoint
from editcritic.reward.experts.loading.state_dicts import read_state
from editcritic.reward.queries import ExpertDown

torch = pytest.importorskip("torch")


def test_weights_are_read(tmp_path: Path) -> None:
    state = {"weight": torch.arange(6.0).reshape(2, 3).t(), "shared": torch.zeros(0)}
    for is_zip in (True, False):
        torch.save(state, tmp_path / "plain.pt", _use_new_zipfile_serialization=is_zip)
        assert read_state(tmp_path / "plain.pt")["weight"].equal(state["weight"])


def test_compressed_tensors_are_not_unpacked(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(1_000_000)}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for member in plain.infolist():
            bomb.writestr(member.filename, plain.read(member))
    with pytest.raises(ValueError, match=r"bomb\.pt holds compressed tensors"):
        read_state(tmp_path / "bomb.pt")


def test_a_tensor_is_no_larger_than_what_is_stored(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(1).expand(10**6, 10**6)}, tmp_path / "wide.pt")
    with pytest.raises(ValueError, match=r"wide\.pt has fewer numbers than its tensor 'weight' of shape"):
        read_state(tmp_path / "wide.pt")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs")
def test_weights_are_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.pt")
    with pytest.raises(OSError, match="it is a FIFO"):
        read_state(tmp_path / "fifo.pt")
    with pytest.raises(OSError, match="it is a device"):
        read_state(Path("/dev/zero"))


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "chat_template.jinja"])
def test_a_fifo_in_a_models_folder_is_not_waited_for(file: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text('{"model_type": "dinov2"}')
    (tmp_path / file).unlink(missing_ok=True)
    os.mkfifo(tmp_path / file)
    with (
        pytest.raises(ExpertDown, match=f"{file} is no regular file"),
        Checkpoint(str(tmp_path), "AutoModel", "AutoImageProcessor", device="cpu").use(),
    ):
        pass
