"""A model in a folder is known by all bytes of its files, which are read once."""

import os
import random
import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from editcritic.reward.digests import sha256
from editcritic.reward.experts.loading import hub_files
from editcritic.reward.experts.loading.hub_files import folder_digest, split_repository

SIZE = 65 * 2**20  # above 64 MiB


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its folder. Files count as written long ago."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hub_files, "_SETTLED_S", 0.0)
    return tmp_path / "cache" / "editcritic" / "weights"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read whole, in order."""
    names: list[str] = []

    def counted(path: Path) -> str:
        names.append(path.name)
        return sha256(path)

    monkeypatch.setattr(hub_files, "sha256", counted)
    return names


@pytest.fixture
def weights(tmp_path: Path, cache: Path) -> Path:
    path = tmp_path / "model" / "model.safetensors"
    path.parent.mkdir()
    path.write_bytes(random.Random(0).randbytes(2**20) * (SIZE // 2**20))
    return path


def overwrite(path: Path, place: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(content)


@pytest.mark.parametrize("place", [4096, 5_000, 2**20 - 1, 33 * 2**20 + 70_000, SIZE - 4097, SIZE - 1])
def test_a_byte_trained_anywhere_in_a_large_file_changes_the_digest(place: int, weights: Path) -> None:
    before = folder_digest(weights.parent)
    overwrite(weights, place, bytes([weights.read_bytes()[place] ^ 1]))
    assert folder_digest(weights.parent) != before


def test_a_large_file_is_read_once_and_again_when_it_has_changed(weights: Path, hashed: list[str]) -> None:
    first = folder_digest(weights.parent)
    assert (folder_digest(weights.parent), folder_digest(weights) != first) == (first, True)
    assert hashed == ["model.safetensors"]
    times = weights.stat()
    overwrite(weights, 5_000, b"trained")
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a copy that keeps times
    assert folder_digest(weights.parent) != first
    assert len(hashed) == 2
    other = weights.with_name("new")
    other.write_bytes(weights.read_bytes())
    overwrite(other, 5_000, b"retrain")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(weights)
    folder_digest(weights.parent)
    assert len(hashed) == 3


@pytest.mark.parametrize("is_fresh", [True, False])
def test_a_digest_is_not_kept_if_the_file_is_fresh_or_there_is_no_home(is_fresh, weights, hashed, monkeypatch) -> None:
    """A fresh file may change again without another time."""
    if is_fresh:
        monkeypatch.setattr(hub_files, "_SETTLED_S", 2.0)
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("no home")))
    assert folder_digest(weights.parent) == folder_digest(weights.parent)
    assert len(hashed) == 2


@pytest.mark.parametrize("damage", ["every byte", "the digest", "empty", "unwritable"])
def test_a_damaged_cache_costs_time_and_not_the_digest(damage, weights, cache, hashed) -> None:
    before = folder_digest(weights.parent)
    (file,) = cache.iterdir()
    if damage == "every byte":
        file.write_bytes(bytes(byte ^ 1 for byte in file.read_bytes()))
    elif damage == "the digest":
        file.write_text(re.sub('"sha256": ".', '"sha256": "g', file.read_text()))
    elif damage == "empty":
        file.write_text("")
    else:
        file.unlink()
        cache.rmdir()
        cache.write_text("no folder")
    assert folder_digest(weights.parent) == before
    assert len(hashed) == 2
    assert folder_digest(weights.parent) == before
    assert len(hashed) == 2 + (damage == "unwritable")


def test_the_digests_of_models_of_small_files_are_those_of_earlier_versions(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "config.json").write_text('{"hidden_size": 16}')
    (tmp_path / "empty.txt").touch()
    weights = tmp_path / "text" / "model.safetensors"
    weights.write_bytes(bytes(range(256)) * 400)
    assert folder_digest(tmp_path) == "de1124539dbc55f2aace6cb2d811ef6f5802063f5faaf938cfc82e6014543fea"
    assert folder_digest(weights) == "4c93aba206883ab81f2fe5cf7616a953f7222fe68bbd8af71e13e038cf86da6b"


def test_names_on_the_hub_and_folders_in_them() -> None:
    assert split_repository("owner/model/a/b") == ("owner/model", "a/b")
    for name in ("owner/model", "gpt2", "/nowhere/of/mine"):
        assert split_repository(name) == (name, "")
