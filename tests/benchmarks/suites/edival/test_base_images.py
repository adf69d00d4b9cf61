"""Where EdiVal's base pictures are: zips, nested or not, and folders."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.problems import Problems
from editcritic.benchmarks.suites.edival.base_images import find_base_images
from editcritic.benchmarks.suites.extraction_cache import extracted_folder
from editcritic.benchmarks.suites.suite import DataProblem
from editcritic.reward import Image

from ..tiny_suite import picture
from .layout import png


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "editcritic" / "edival"


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/").replace("DOT", "."), data)
    return path


def test_a_nested_zip_is_unpacked_once_for_all_processes(tmp_path: Path, cache: Path) -> None:
    path = zipped(tmp_path / "in.zip", a__b__4_input_rawDOTpng=png(picture(4)), a__readmeDOTtxt=b"hello")
    problems: Problems[DataProblem] = Problems()
    images = find_base_images(path, problems)
    assert (list(images), list(problems)) == ([4], [])
    assert Image.open(images[4]) == picture(4)
    written = images[4].stat().st_mtime_ns
    assert find_base_images(path, problems) == images
    assert images[4].stat().st_mtime_ns == written
    assert [place.name for place in cache.iterdir()] == [images[4].parent.name], "nothing half-made is left"


def test_a_zip_of_other_pictures_is_another_one(tmp_path: Path) -> None:
    one = find_base_images(zipped(tmp_path / "one.zip", **{"4_input_rawDOTpng": png(picture(4))}), Problems())
    other = find_base_images(zipped(tmp_path / "two.zip", **{"4_input_rawDOTpng": png(picture(5))}), Problems())
    assert Image.open(one[4]) != Image.open(other[4])


def test_of_two_processes_at_it_the_first_to_finish_has_unpacked(cache: Path) -> None:
    def quick(folder: Path) -> None:
        (folder / "picture").write_text("first")

    def slow(folder: Path) -> None:
        extracted_folder("edival", "k" * 64, quick)
        (folder / "picture").write_text("second")

    extracted = extracted_folder("edival", "k" * 64, slow)
    assert (extracted / "picture").read_text() == "first"
    assert list(cache.iterdir()) == [extracted]


def test_paths_of_a_zip_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../../4_input_raw.png", png(picture(4)))
    (image_path,) = find_base_images(path, Problems()).values()
    assert image_path.is_relative_to(tmp_path / "cache")
    assert not list(tmp_path.parent.glob("4_input_raw.png"))


def test_two_pictures_of_one_index_are_said_unless_they_are_the_same(tmp_path: Path) -> None:
    problems: Problems[DataProblem] = Problems()
    same = {"a__4_input_rawDOTpng": png(picture(4)), "b__4_input_rawDOTpng": png(picture(4))}
    find_base_images(zipped(tmp_path / "same.zip", **same), problems)
    assert not problems
    other = {**same, "c__4_input_rawDOTpng": png(picture(5))}
    assert Image.open(find_base_images(zipped(tmp_path / "other.zip", **other), problems)[4]) == picture(4)
    assert "c/4_input_raw.png: differs from a/4_input_raw.png" in str(problems[0])


def test_a_folder_is_searched_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    picture(1).pil().save(tmp_path / "deep" / "er" / "12_input_raw.jpg")
    picture(1).pil().save(tmp_path / "deep" / "12_input_raw_turn_1.png")
    assert find_base_images(tmp_path, Problems()) == {12: tmp_path / "deep" / "er" / "12_input_raw.jpg"}


def test_a_damaged_zip_and_a_missing_one_are_plain_errors(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        find_base_images(tmp_path / "none.zip", Problems())
    (tmp_path / "no.zip").write_bytes(b"nothing")
    with pytest.raises(InputError, match="neither a folder nor a zip"):
        find_base_images(tmp_path / "no.zip", Problems())
    path = zipped(tmp_path / "bad.zip", **{"4_input_rawDOTpng": png(picture(4))})
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF  # within the picture: its checksum does not fit any more
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"cannot be extracted: .*; extract it yourself"):
        find_base_images(path, Problems())
    assert not list(cache.iterdir()), "nothing half-made is left"


def test_who_has_no_cache_to_write_to_is_told_how_to_name_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "in.zip", **{"4_input_rawDOTpng": png(picture(4))})
    (tmp_path / "cache").write_bytes(b"")  # a file: that a folder is read-only means nothing to root
    with pytest.raises(InputError, match=r"edival is not writable \(.+\): set the environment variable XDG_CACHE_HOME"):
        find_base_images(path, Problems())

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(InputError, match=r"has no home folder: set the environment variable XDG_CACHE_HOME"):
        find_base_images(path, Problems())
