"""Suites' data of strangers: pictures of the data's folder only, bounded lines and zips, the rest is read."""

import json
import os
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.problems import Problems, num_problems
from editcritic.benchmarks.suites import split_files
from editcritic.benchmarks.suites.dlebench.suite import DleBench
from editcritic.benchmarks.suites.edival import reader
from editcritic.benchmarks.suites.i2ibench.suite import I2IBench
from editcritic.benchmarks.suites.imgedit.suite import ImgEditBench
from editcritic.benchmarks.suites.split_files import extract_zip
from editcritic.reward.regular_files import MAX_LINE_BYTES
from editcritic.reward.trust import trusting

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs or device files")


@pytest.fixture
def data(tmp_path):
    """A folder of data with pictures, links out of it and a FIFO, and a secret beside it."""
    folder = tmp_path / "data"
    for name in ("images", "Source_Images", "Reference_Images"):
        (folder / name).mkdir(parents=True)
        PIL.Image.new("RGB", (32, 32), (200, 40, 40)).save(folder / name / "a.png")
        (folder / name / "link.png").symlink_to("../../secret.png")
        (folder / name / "zero.png").symlink_to("/dev/zero")
        os.mkfifo(folder / name / "fifo.png")
    PIL.Image.new("RGB", (32, 32), (40, 200, 40)).save(tmp_path / "secret.png")
    return folder


_PICTURES = {
    "link.png": "leads out of|there is no image|not in",
    "zero.png": "leads out of|there is no image|not in",
    "fifo.png": "it is a FIFO|there is no image|not in",
    "../../secret.png": "leads out of|there is no image|not in",
    "{secret}": "leads out of",
    "a\0b": "null|no image|not in",
    "x" * 5_000: "too long|no image|not in",
}
_LINES = {
    "[" * 100_000: "more than 20,000",
    "9" * 5_000: "digits",
    '{"id": "\\ud800"}': "lone surrogate",
    '{"id": 1, "id": 2}': "given twice",
    "x" * (MAX_LINE_BYTES + 1): "more than 4,194,304 bytes",
    '"a"': "is str",
}


def read(kind: Any, path: Path, good: dict[str, Any], name: str, *lines: dict[str, Any] | str) -> Any:
    """The suite of a line called `good`, and of others, which are like it if they are objects. name: of the id."""
    rows = [{**good, name: "good"}, *(line if isinstance(line, str) else {**good, **line} for line in lines)]
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    suite = kind(path.parent)
    assert suite.items[0].id == "good"
    return suite


def i2i(folder: Path, *lines: dict[str, Any] | str) -> Any:
    good = {"category": "local-editing", "instruction": "Add a cup", "dimensions": ["instruction following"]}
    return read(I2IBench, folder / "prompts.jsonl", {**good, "sources": ["images/a.png"]}, "id", *lines)


def dle(folder: Path, *lines: dict[str, Any] | str) -> Any:
    good = {"edit_operation": "Make it blue", "type": "Change Color", "bbox": [1, 1, 30, 30]}
    pictures = {"image": "a.png", "reference_image": "a.png"}
    return read(DleBench, folder / "data.jsonl", {**good, **pictures}, "id", *lines)


def img(folder: Path, *lines: dict[str, Any] | str) -> Any:
    good = {"id": "images/a.png", "prompt": "Add a cup", "edit_type": "add"}
    return read(ImgEditBench, folder / "basic_edit.json", good, "key", *lines)


@pytest.mark.parametrize("name", _PICTURES)
def test_a_line_names_pictures_of_the_data_only(name, data):
    path = name.format(secret=data.parent / "secret.png")
    for suite_of, line in (
        (i2i, {"id": "odd", "sources": [path if "/" in path else f"images/{path}"]}),
        (dle, {"id": "odd", "image": path}),
        (img, {"key": "odd", "id": path if "/" in path else f"images/{path}"}),
    ):
        suite = suite_of(data, line)
        assert [item.id for item in suite.items] == ["good"]
        (problem,) = map(str, suite.problems)
        assert re.search(_PICTURES[name], problem), problem
    if name == "link.png":
        with trusting(str(data.parent)):
            assert len(i2i(data, {"id": "odd", "sources": ["images/link.png"]}).items) == 2


def test_of_many_odd_lines_the_first_are_kept_and_all_are_counted(data):
    for suite_of in (i2i, dle, img):
        suite = suite_of(data, *['"a"'] * 3_000)
        assert len(list(suite.problems)) == 1_000
        assert num_problems(suite.problems) == 3_000
        assert re.search(r"(data\.jsonl|prompts\.jsonl|basic_edit\.json):2", str(suite.problems[0]))


@pytest.mark.parametrize("line", _LINES, ids=lambda line: line[:20])
def test_an_odd_line_is_a_problem_and_the_others_are_read(line, data):
    for suite_of in (i2i, dle, img):
        suite = suite_of(data, line)
        (problem,) = map(str, suite.problems)
        assert _LINES[line] in problem
        assert len(problem) < 2_000


@pytest.mark.parametrize("name", ["../x", "..", "/etc/x", "a/b", "\x1b[2J", "a\nb", "x" * 1_001])
def test_an_id_is_no_path(name, data):
    """Outputs are written under the ids of items."""
    suites = (i2i(data, {"id": name, "sources": ["images/a.png"]}), dle(data, {"id": name}), img(data, {"key": name}))
    for suite in suites:
        for item in suite.items:
            assert item.output_path.isprintable()
            path = Path("outputs", f"{item.output_path}.png")
            assert path.parent == Path("outputs")
            assert path.name not in ("..", "...png")


@pytest.mark.parametrize(
    "boxes", [[1e999, 0, 1, 1], "[[" * 1_000, [None] * 4, {"x0": "inf", "y0": 0, "x1": 1, "y1": 1}]
)
def test_an_odd_box_is_a_problem(boxes, data):
    suite = dle(data, json.dumps({"id": "odd", "image": "a.png", "reference_image": "a.png", "bbox": boxes,
                                  "edit_operation": "x", "type": "Change Color"}))  # fmt: skip
    assert len(suite.items) == len(suite.problems) == 1


# -- zips --------------------------------------------------------------------------------------------------------------


def zipped(path: Path, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            info = zipfile.ZipInfo("placeholder")
            info.filename = name  # as it is: zipfile would cut it at a null character
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, content)
    return path


def _link(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(info, "/etc/passwd")
    return path


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _patched(path: Path, *bytes_at: tuple[int, int, int]) -> Path:
    """A zip of one file in which bytes are others: (of the file's or of the directory's header, offset, value)."""
    content = bytearray(zipped(path, ("a.txt", b"x" * 1_000)).read_bytes())
    for header, offset, value in bytes_at:
        content[(content.index(b"PK\x01\x02") if header else 0) + offset] = value
    return _written(path, bytes(content))


def _cut(path: Path) -> Path:
    content = _patched(path).read_bytes()
    return _written(path, content[:60] + content[90:])


ZIPS: dict[str, Callable[[Path], Path]] = {
    "an absolute name": lambda path: zipped(path, ("/etc/x", b"x")),
    "a name that leaves": lambda path: zipped(path, ("a/../../x", b"x")),
    "a name of Windows that leaves": lambda path: zipped(path, ("..\\x", b"x")),
    "a drive": lambda path: zipped(path, ("C:x", b"x")),
    "an escape sequence": lambda path: zipped(path, ("\x1b[2J", b"x")),
    "a name twice": lambda path: zipped(path, ("a", b"x"), ("a", b"y")),
    "one name in two ways": lambda path: zipped(path, ("a/b", b"x"), ("a/./b", b"y")),
    "a file that is a folder": lambda path: zipped(path, ("a", b"x"), ("a/b", b"y")),
    "a long name": lambda path: zipped(path, ("x" * 400, b"x")),
    "a link": _link,
    "encrypted": lambda path: _patched(path, (0, 6, 1), (1, 8, 1)),
    "an unknown method": lambda path: _patched(path, (0, 8, 99), (1, 10, 99)),
    "another size": lambda path: _patched(path, (1, 24, 10), (1, 25, 0)),
    "cut": _cut,
    "no zip": lambda path: _written(path, b"PK\x05\x06" + b"\0" * 10),
}


@pytest.mark.parametrize("kind", ZIPS)
def test_an_odd_zip_is_refused_whole(kind, tmp_path):
    archive = ZIPS[kind](tmp_path / "odd.zip")
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(InputError, match=r"odd\.zip") as raised:
        extract_zip(archive, into)
    assert "\x1b" not in str(raised.value)
    assert list(into.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["into", "odd.zip"]


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(split_files, "MIN_BYTES", 2**20)
    archive = zipped(tmp_path / "bomb.zip", *((f"{number}_input_raw.png", b"\0" * 2**22) for number in range(8)))
    (tmp_path / "into").mkdir()
    with pytest.raises(InputError, match=r"extracts to 33,554,432 bytes, more than"):
        extract_zip(archive, tmp_path / "into")
    with pytest.raises(InputError, match=r"extracts to 33,554,432 bytes, more than"):
        reader.find_base_images(archive, Problems())
