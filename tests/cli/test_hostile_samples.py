"""Sample files of strangers: what a line names is not opened, what it says is bounded, and the rest is scored."""

import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from editcritic.benchmarks.common.inputs import SampleSource
from editcritic.reward import EditSample
from editcritic.reward.regular_files import MAX_LINE_BYTES
from editcritic.reward.sample_files import InvalidLine, read_samples

from ..benchmarks.conftest import Command, Folder, folder, read_jsonl

__all__ = ["folder"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs or device files")

_ESCAPE = "\x1b]0;owned\x07"


@pytest.fixture
def secret(folder: Folder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture that is none of the folder."""
    path = tmp_path_factory.mktemp("elsewhere") / "secret.png"
    path.write_bytes((folder / "patched.png").read_bytes())
    return path


def score_beside_good_lines(
    editcritic: Command, folder: Folder, *lines: Any, code: int, trust: object = None
) -> Result:
    """`editcritic score` of these lines between two good ones, which have to be scored."""
    samples = folder.samples(folder.row(id="first"), *lines, folder.row(id="last"))
    options = () if trust is None else ("--trust", trust)
    result = editcritic("score", samples, "--reward", folder.cheap, "-o", folder / "out.jsonl", *options, code=code)
    ids = [row["id"] for row in read_jsonl(folder / "out.jsonl")]
    assert (ids[0], ids[-1]) == ("first", "last")
    return result


FOREIGN = {
    "a device": ("/dev/zero", "leads out of"),
    "an absolute path": ("{secret}", "add `--trust {secret.parent}`"),
    "a path out of the folder": ("../../{secret.parent.name}/secret.png", "leads out of|No such file"),
    "a link to a device": ("zero.png", "leads out of"),
    "a link out of the folder": ("link.png", "leads out of .* to {secret}"),
    "a folder that is a link": ("door/secret.png", "leads out of"),
    "a FIFO": ("fifo.png", "it is a FIFO: give a regular file"),
    "a directory": (".", "it is a directory"),
    "a null character": ("a\0.png", "no path: .*null"),
    "a lone surrogate": ("a\ud800.png", "lone surrogate"),
}


@pytest.mark.parametrize("field", ["edited", "source", "mask", "reference"])
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_line_reads_regular_files_of_its_folder_only(kind, field, editcritic, folder, secret):
    os.mkfifo(folder / "fifo.png")
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "link.png").symlink_to(secret)
    (folder / "door").symlink_to(secret.parent)
    name, says = (text.format(secret=secret) for text in FOREIGN[kind])
    result = score_beside_good_lines(editcritic, folder, folder.row(id="odd", **{field: name}), code=2)
    samples = folder / "samples.jsonl"
    (line,) = (line for line in result.stderr.splitlines() if line.startswith(f"{samples}:2: "))
    assert re.search(says, line), line


def test_what_is_trusted_or_typed_is_read_and_links_inside_of_the_folder(editcritic, folder, secret):
    (folder / "link.png").symlink_to(secret)
    (folder / "deep").mkdir()
    (folder / "deep" / "link.png").symlink_to("../patched.png")
    edited = {"path": str(secret), "link": "link.png", "inside": "deep/../deep/link.png"}
    lines = [folder.row(id=name, edited=path) for name, path in edited.items()]
    score_beside_good_lines(editcritic, folder, *lines, code=0, trust=secret.parent)
    assert [row["id"] for row in read_jsonl(folder / "out.jsonl")] == ["first", *edited, "last"]
    score_beside_good_lines(editcritic, folder, lines[-1], code=0)
    editcritic("score", folder / "source.png", secret, "Remove helmet", "--reward", folder.cheap, code=0)


def test_a_pair_in_a_folder_is_no_link_out_of_it(editcritic: Command, tmp_path: Path, secret: Path) -> None:
    pairs = tmp_path / "pairs"
    pairs.mkdir()
    for name in ("a", "b", "c"):
        (pairs / f"{name}_source.png").write_bytes(secret.read_bytes())
        (pairs / f"{name}_edited.png").write_bytes(secret.read_bytes())
    (pairs / "b_edited.png").unlink()
    (pairs / "b_edited.png").symlink_to(secret)
    os.mkfifo(pairs / "c.txt")
    cheap = Folder(tmp_path).cheap
    arguments = ("score", pairs, "--instruction", "Remove helmet", "--reward", cheap, "-o", tmp_path / "out.jsonl")
    editcritic(*arguments, code=2, says=("b_edited.png: it leads out of", "c.txt: it is a FIFO"))
    assert [row["id"] for row in read_jsonl(tmp_path / "out.jsonl")] == ["a"]


ODD_LINES = {
    "a long line": ('{"id": "' + "x" * MAX_LINE_BYTES + '"}', "more than 4,194,304 bytes"),
    "deep nesting": ('{"metadata": ' + "[" * 5_000 + "]" * 5_000 + "}", "nested deeper than 64 levels"),
    "nesting that Python reads": ('{"metadata": {"a": ' + "[" * 70 + "]" * 70 + "}}", "nested deeper than 64 levels"),
    "many values": (json.dumps({"sources": [1] * 50_000}), "values, more than 20,000"),
    "a large integer": ('{"metadata": {"a": 9223372036854775808}}', "more than 64 bits"),
    "a huge integer": ('{"metadata": {"a": ' + "9" * 4_000 + "}}", "an integer of hundreds of digits"),
    "a number beyond doubles": ('{"metadata": {"a": 1e999}}', "infinite in double precision"),
    "a NaN": ('{"metadata": {"a": NaN}}', "NaN is no number of JSON"),
    "a name given twice": ('{"id": "a", "id": "b"}', "the name 'id' is given twice"),
    "a lone surrogate in a value": (r'{"metadata": {"a": "\ud800"}}', "has a lone surrogate"),
    "a lone surrogate in a name": (r'{"metadata": {"\ud800": 1}}', "has a lone surrogate"),
    "null characters": ("\0\0\0", "not JSON"),
    "sixteen bits": ("\ufeff{".encode("utf-16").decode("latin-1"), "not JSON"),
}

ODD_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "an id with a lone surrogate": ({"id": "a\ud800"}, "lone surrogate"),
    "a group with a lone surrogate": ({"group": "\udfff"}, "lone surrogate"),
    "an instruction with a lone surrogate": ({"instruction": "\ud800 blue"}, "lone surrogate"),
    "an escape sequence in an id": ({"id": _ESCAPE}, "the control character U+001B"),
    "a line break in a group": ({"group": "a\nb"}, "the control character U+000A"),
    "a change of direction in an id": ({"id": "a\u202eb"}, "the control character U+202E"),
    "a long id": ({"id": "x" * 2_000}, "2,000 characters, more than 1,000"),
    "an earlier turn's id": ({"history": [{"instruction": "x", "edited": "copy.png", "id": "\x07"}]}, "U+0007"),
    "a size of 0": ({"source": {"digest": "0" * 64, "size": [0, 8]}, "boxes": {"a": [[0, 0, 1, 1]]}}, "source"),
    "a size below 0": ({"edited": {"digest": "0" * 64, "size": [-4, -4]}}, "edited"),
    "an absurd size": ({"source": {"digest": "0" * 64, "size": [10**7, 10**7]}}, "pixels are more than"),
    "a box that overflows": ({"fractions": {"a": [[1e308, 0, 1e308, 1, 1]]}}, "far outside of its image"),
    "a target that overflows": ({"target_fractions": [[0, 0, 1e200, 1, 1]]}, "far outside of its image"),
    "many wrong values": ({"sources": [1] * 5_000, "source": None}, "more problems"),
    "many unknown fields": ({f"\x1b{number}": 1 for number in range(5_000)}, "more problems"),
}


@pytest.mark.parametrize("kind", [*ODD_LINES, *ODD_FIELDS])
def test_an_odd_line_or_field_is_named_in_one_line(kind: str, editcritic: Command, folder: Folder) -> None:
    line: object
    if kind in ODD_LINES:
        line, says = ODD_LINES[kind]
    else:
        fields, says = ODD_FIELDS[kind]
        line = folder.row(**fields)
    result = score_beside_good_lines(editcritic, folder, line, code=2)
    (message,) = (line for line in result.stderr.splitlines() if f"{folder / 'samples.jsonl'}:2: " in line)
    assert says in message
    assert len(message) < (1_000 if kind in ODD_LINES else 2_000)
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize("command", ["score", "rank"])
def test_what_is_printed_neither_writes_to_the_terminal_nor_is_markup(command, editcritic, folder):
    instruction = f"Remove [/helmet] {_ESCAPE} [link=file:///etc/passwd]x"
    samples = folder.samples(*(folder.row(id=f"[/{name}]", instruction=instruction) for name in "ab"))
    options = ("--reward", folder.cheap) if command == "rank" else ()
    result = editcritic(command, samples, *options, shows="[/a]")
    assert "\x1b" not in result.stdout + result.stderr
    assert "\x07" not in result.stdout + result.stderr


def test_a_file_of_one_endless_line_is_not_held_in_memory(editcritic: Command, folder: Folder) -> None:
    import tracemalloc

    path = folder / "long.jsonl"
    with path.open("wb") as file:
        file.truncate(2**28)  # of null characters, without a line break
    tracemalloc.start()
    entries = list(SampleSource.open(path).read())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [bool(entry.problem) for entry in entries] == [True]
    assert peak < 8 * MAX_LINE_BYTES


def test_boxes_are_given_once_and_files_are_regular(editcritic: Command, folder: Folder) -> None:
    boxes = folder / "boxes.json"
    os.mkfifo(folder / "fifo.json")
    one = ("score", folder / "source.png", folder / "patched.png", "Remove helmet", "--reward", folder.cheap, "--boxes")
    boxes.write_text('{"cup": [[0, 0, 9, 9]], "cup": [[9, 9, 20, 20]]}')
    for value, says in (
        (boxes, "the name 'cup' is given twice"),
        ('{"cup": 1, "cup": 2}', "the name 'cup' is given twice"),
        (folder / "fifo.json", "it is a FIFO"),
        ("/dev/zero", "it is a device"),
    ):
        editcritic(*one, value, code=2, says=says)
    for path in (folder / "fifo.json", "/dev/zero"):
        editcritic("score", path, code=2, says="is neither a file nor a folder")


_GOOD: dict[str, Any] = {
    "id": "cup",
    "group": "g",
    "instruction": "Change the color of cup to blue",
    "source": "source.png",
    "edited": "patched.png",
    "mask": "blank.png",
    "task": {"type": "color_alter", "object": "cup", "value": "blue"},
    "pools": {"all": ["cup"], "available": ["cup"], "unchanged": [], "background": True},
    "boxes": {"cup": [[0, 0, 8, 4], [8, 4, 16, 8]]},
    "fractions": {"mug": [[0.5, 0.5, 0.1, 0.1, 1.0]]},
    "operations": [{"instruction": "Make the cup blue", "name": "x"}],
    "plan": {"operations": [{"type": "color_alter", "target": {"noun": "cup"}, "value": "blue"}]},
    "targets": [[0, 0, 8, 4]],
    "target_fractions": [[0.5, 0.5, 0.1, 0.1, 1.0, "cup"]],
    "dimensions": ["local_attribute"],
    "history": [{"instruction": "Remove mug", "edited": {"digest": "0" * 64, "size": [128, 128]}}],
    "metadata": {"seed": 3},
}
_ODD_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**70, 1e308, float("nan"), float("inf"), "", "\0", "\ud800", "\x1b[2J", "a" * 10_000),
    *([], {}, [[]], [None], {"": ""}, {"digest": "x", "size": [0, 0]}, {"digest": "0" * 64, "size": [2**62, 2**62]}),
    *("/dev/zero", "/dev/tty", "..", "fifo.png", "zero.png", "/proc/self/mem", [0] * 5, ["cup"] * 500),
)


def _mutated(value: Any, chance: random.Random) -> Any:
    """A value with one place replaced, removed, doubled or renamed."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.25:
        return chance.choice(_ODD_VALUES)
    if isinstance(value, list):
        place = chance.randrange(len(value))
        return [_mutated(item, chance) if number == place else item for number, item in enumerate(value)]
    name = chance.choice(list(value))
    rest = {key: item for key, item in value.items() if key != name}
    match chance.randrange(6):
        case 0:
            return rest
        case 1:
            return {**rest, str(chance.choice(_ODD_VALUES))[:50]: value[name]}
        case _:
            return {**rest, name: _mutated(value[name], chance)}


def _mutated_line(chance: random.Random) -> bytes:
    row = _GOOD if chance.random() < 0.7 else {name: _GOOD[name] for name in ("instruction", "source", "edited")}
    for _ in range(chance.randint(1, 3)):
        row = _mutated(row, chance)
    line = bytearray(json.dumps(row, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass"))
    for _ in range(chance.choice((0, 0, 1, 3)) if line else 0):
        place = chance.randrange(len(line))
        match chance.randrange(3):
            case 0:
                line[place] = chance.randrange(256)
            case 1:
                del line[place : place + chance.randrange(20)]
            case _:
                line[place:place] = chance.choice((b"{", b"[", b'"', b"\xff", b"\\ud800", b",", b"9" * 30, b"\r"))
        if not line:
            break
    return bytes(line).replace(b"\n", b" ")


def test_mutated_lines_are_samples_or_problems(folder: Folder) -> None:
    os.mkfifo(folder / "fifo.png")
    (folder / "zero.png").symlink_to("/dev/zero")
    chance = random.Random(28)
    lines = [_mutated_line(chance) for _ in range(2_000)]
    path = folder / "fuzz.jsonl"
    path.write_bytes(b"\n".join(lines))
    results = list(_read_all(path))
    assert len(results) == sum(bool(line.strip()) for line in lines)
    samples = [result for result in results if isinstance(result, EditSample)]
    assert 30 < len(samples) < 1_900
    for sample in samples:
        (sample.id + sample.instruction + sample.group).encode()
        assert sample.id.isprintable()
        json.dumps(dict(sample.metadata), allow_nan=False)
        for boxes in sample.boxes.values():
            assert all(box.corners(sample.source.size) for box in boxes)


def _read_all(path: Path) -> Iterator[EditSample | InvalidLine]:
    for result in read_samples(path):
        assert isinstance(result, EditSample | InvalidLine)
        assert not isinstance(result, InvalidLine) or len(result.problem) < 2_000
        yield result
