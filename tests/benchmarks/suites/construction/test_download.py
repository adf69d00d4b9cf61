"""Fetching files: resumed, checked, never half there; zips that would write elsewhere are refused."""

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites import split_files
from editcritic.benchmarks.suites.construction.download import DatasetFile, download_file
from editcritic.benchmarks.suites.split_files import extract_zip

from .file_server import Files, served

DATA = bytes(range(256)) * 999
SHA = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def server():
    with served({"a.bin": DATA}) as server:
        yield server


def got(server: Files, place: Path, **options: Any) -> str:
    return download_file(DatasetFile("a.bin", server.url("a.bin"), **options), place, retry_delay_s=0.0)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_there_whole_with_its_digest_and_not_fetched_again(server, tmp_path):
    for _ in range(2):
        assert got(server, tmp_path / "a.bin", sha256=SHA, size=len(DATA)) == SHA
    assert (tmp_path / "a.bin").read_bytes() == DATA
    assert (names(tmp_path), len(server.requests)) == (["a.bin"], 1)


def test_an_interrupted_transfer_goes_on_where_it_ended(server, tmp_path):
    server.breaks = 2
    assert got(server, tmp_path / "a.bin", sha256=SHA) == SHA
    half = len(DATA) // 2
    assert [wanted for _, wanted in server.requests] == ["", f"bytes={half}-", f"bytes={half + half // 2}-"]


@pytest.mark.parametrize("content", [DATA, b"new" * 1000], ids=["the same file", "another one meanwhile"])
def test_a_later_run_goes_on_unless_the_file_has_changed(server, tmp_path, content):
    server.breaks = 1

    def refuse(_: str) -> None:
        """After the first message about an interruption, the server is down."""
        server.refuses = 503

    with pytest.raises(InputError, match="stopped after"):
        download_file(DatasetFile("a.bin", server.url("a.bin")), tmp_path / "a.bin", refuse, retry_delay_s=0.0)
    assert names(tmp_path) == [".part-a.bin", ".part-a.bin.etag"]
    server.refuses, server.files["a.bin"] = 0, content
    got(server, tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == content
    assert server.requests[-1][1] == f"bytes={len(DATA) // 2}-"


def test_a_server_that_sends_no_parts_sends_it_all_again(server, tmp_path):
    server.ranges, server.breaks = False, 1
    assert got(server, tmp_path / "a.bin") == SHA


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sha256": "0" * 64}, f"has the digest {SHA}, expected {'0' * 64}: it was discarded"),
        ({"size": 7}, f"has {len(DATA)} bytes, expected 7"),
    ],
)
def test_another_digest_or_size_than_expected_is_named_and_nothing_is_kept(server, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        got(server, tmp_path / "a.bin", **options)
    assert names(tmp_path) == []


def test_a_changed_file_that_is_there_is_refused_and_left_alone(server, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"mine")
    with pytest.raises(InputError, match="remove it to download it again"):
        got(server, tmp_path / "a.bin", sha256=SHA)
    assert (tmp_path / "a.bin").read_bytes() == b"mine"


def test_what_the_server_refuses_is_said_at_once_and_that_nobody_is_there_after_some_tries(tmp_path):
    with served({"a.bin": DATA}) as server:
        server.refuses = 403
        with pytest.raises(InputError, match="answers 403"):
            got(server, tmp_path / "a.bin")
        assert len(server.requests) == 1
        file = DatasetFile("a.bin", server.url("a.bin"))
    with pytest.raises(InputError, match="stopped after 0 bytes"):
        download_file(file, tmp_path / "a.bin", retry_delay_s=0.0)


# -- zips -------------------------------------------------------------------------------------------------------------


def zipped(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            file.writestr(name, data)
    return path


def test_a_zip_is_unpacked_over_what_is_there(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_bytes(b"old")
    assert extract_zip(zipped(tmp_path / "z.zip", **{"a": b"1", "deep/b": b"2"}), tmp_path / "out") == 2
    assert ((tmp_path / "out/a").read_bytes(), (tmp_path / "out/deep/b").read_bytes()) == (b"1", b"2")
    assert names(tmp_path) == ["out", "z.zip"]


def test_too_much_is_refused_by_count_by_what_it_says_and_by_what_comes(tmp_path, monkeypatch):
    archive = zipped(tmp_path / "z.zip", a=b"x" * 1000, b=b"y" * 1000)
    monkeypatch.setattr(split_files, "MAX_BYTES", 1500)
    with pytest.raises(InputError, match="2,000 bytes, more than 1,500"):
        extract_zip(archive, tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(split_files, "MAX_FILES", 1)
        with pytest.raises(InputError, match="2 files, more than 1"):
            extract_zip(archive, tmp_path / "out")
    assert names(tmp_path) == ["z.zip"]
