"""TOML files of strangers: read in a time of the order of their size, or refused with what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from editcritic.reward import SpecError, load_experts
from editcritic.reward.toml_files import MAX_BYTES, MAX_KEY_PARTS, read_toml


def written(folder: Path, text: str) -> Path:
    path = folder / "a.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("part", ["a", "a-b_1", '"a b"', r'"\"."', "'.'", "a \t"])
@pytest.mark.parametrize("line", ["{} = 1", "[{}]", "[[{}]]", "x = {{ y = 1, {} = 2 }}"])
def test_keys_of_thousands_of_parts_are_refused(part: str, line: str, tmp_path: Path) -> None:
    for parts, separator in ((MAX_KEY_PARTS + 1, "."), (100_000, "."), (MAX_KEY_PARTS + 1, " . ")):
        path = written(tmp_path, line.format(separator.join([part] * parts)))
        with pytest.raises(ValueError, match="a key has more than 64 parts"):
            read_toml(path)
    read_toml(written(tmp_path, line.format(".".join([part] * MAX_KEY_PARTS))))


@pytest.mark.parametrize("number", [f"0x{'f' * 5000}", f"-{2**63 + 1}", str(2**63)])
def test_integers_of_more_than_64_bits_are_refused(number: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="more than 64 bits"):
        read_toml(written(tmp_path, f"a = [{{b = {number}}}]"))
    assert read_toml(written(tmp_path, f"a = {2**63 - 1}\nb = -{2**63}")) == {"a": 2**63 - 1, "b": -(2**63)}


def test_texts_large_files_and_files_that_name_files(tmp_path, monkeypatch):
    table = {"numbers": [0.5] * 500, "text": "This is a sentence. " * 100 + "." * 500}
    path = written(tmp_path, f"numbers = {table['numbers']}\ntext = '{table['text']}'\n")
    assert read_toml(path) == table
    for path in (written(tmp_path, "#" * (MAX_BYTES + 1)), Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="it "):
            read_toml(path)
    monkeypatch.chdir(tmp_path)
    for number in range(40):
        Path(f"{number}.toml").write_text(f"experts = '{number + 1}.toml {number + 1}.toml'\n")
    Path("40.toml").write_text("judge = 'colour'\n")
    assert list(load_experts("0.toml")) == ["judge"]
    Path("40.toml").write_text("experts = '39.toml'\n")
    with pytest.raises(SpecError, match=r"39\.toml names itself"):
        load_experts("0.toml")


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "a = " + "1" * 5000, "a = ", "\ud800"])
def test_what_is_no_toml_is_one_kind_of_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ValueError):  # noqa: PT011
        read_toml(path)
    with pytest.raises(SpecError, match=r"a\.toml is not TOML"):
        load_experts(str(path))
