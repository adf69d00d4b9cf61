"""Tables of parquet and JSONL are read as sample files are, in any order of ranges, and what is no sample is said."""

import base64
import gc
import io
import json
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.inputs import SampleSource
from editcritic.benchmarks.common.sample_tables import SampleTable, parse_columns
from editcritic.benchmarks.run.scoring_run import score_entries
from editcritic.integrations.row_check import BrokenFile, RowFile, RowReader
from editcritic.reward import EditSample, Image, Reward, Score
from editcritic.reward.sample_files import sample_to_json


def png(number: int) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (16, 12), (number, 80, 120)).save(buffer, "PNG")
    return buffer.getvalue()


def row(number: int = 0, **fields: Any) -> dict[str, Any]:
    return {"instruction": "Make it red", "source": png(number), "edited": png(number + 100), **fields}


def write(path: Path, *rows: dict[str, Any], group: int = 1000, schema: pa.Schema | None = None) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows), schema), path, row_group_size=group)
    return path


def only(table: SampleTable) -> Any:
    """The only row."""
    (read,) = table.rows()
    assert read.sample is not None, read.problem
    return read


def problems(table: SampleTable) -> list[str]:
    return [found.problem for found in table.rows()]


def test_parquet_and_jsonl_of_the_same_edits_are_the_same_samples(tmp_path):
    for name, number in (("a.png", 0), ("b.png", 100), ("c.png", 7)):
        (tmp_path / name).write_bytes(png(number))
    fields = {
        "id": "x",
        "group": "g",
        "instruction": "Add a cup",
        "boxes": {"cup": [[1, 1, 5, 5]]},
        "task": {"type": "color_alter", "object": "cup", "value": "blue"},
        "operations": [{"instruction": "Add a cup"}],
        "hint": "a cup",
    }
    line = {**fields, "sources": ["a.png", "c.png"], "edited": "b.png", "mask": "c.png"}
    (tmp_path / "x.jsonl").write_text(json.dumps(line) + "\n")
    cells = {"sources": [{"bytes": png(0), "path": "else.png"}, {"bytes": None, "path": "c.png"}], "edited": png(100)}
    write(tmp_path / "x.parquet", {**fields, **cells, "mask": {"bytes": png(7), "path": None}, "unknown": 1})
    read, expected = (only(SampleTable.open(tmp_path / f"x.{kind}")).sample for kind in ("parquet", "jsonl"))
    assert sample_to_json(read) == sample_to_json(expected)


def test_columns_of_other_names_are_named_and_kept_ones_handed_on(folder, tmp_path):
    given = row()
    renamed = {"before": given["source"], "edited": given["edited"], "prompt": "Make it blue", "split": "train"}
    path = write(tmp_path / "x.parquet", renamed)
    with pytest.raises(InputError, match="no column `instruction`: it has before, edited, prompt, split"):
        SampleTable.open(path)
    columns = parse_columns(["source=before,instruction=prompt"])
    read = only(SampleTable.open(path, columns, ["split"]))
    assert (read.sample.id, read.sample.instruction, read.kept) == ("x:0", "Make it blue", {"split": "train"})
    assert read.sample.source == Image.of(given["source"])
    for wrong, message in (("source=no", "no column 'no'"), ("picture=before", "no field has this name")):
        with pytest.raises(InputError, match=message):
            SampleTable.open(path, parse_columns([wrong]))
    with pytest.raises(InputError, match="FIELD=COLUMN"):
        parse_columns(["source"])
    line = {"prompt": "Remove helmet", "source": "source.png", "edited": "patched.png", "split": "train"}
    # lines may have them too
    read = only(SampleTable.open(folder.samples({**line}), {"instruction": "prompt"}, ["split"]))
    assert (read.sample.instruction, read.kept) == ("Remove helmet", {"split": "train"})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"instruction": " "}, "the instruction is empty"),
        ({"source": None}, "no source picture"),
        ({"edited": None}, "no edited picture"),
        ({"edited": b"no picture"}, "encoded image"),
        ({"edited": b""}, "encoded image"),
        ({"id": "a\x1b[2J"}, "control character"),
        ({"history": "[]"}, "cannot be read from parquet"),
        ({"boxes": '{"cup": [[0, 0, 99, 99]]}'}, "lies outside"),
        ({"plan": "{"}, "should be a table"),
    ],
    ids=str,
)
def test_a_row_that_is_no_sample_is_said_and_the_others_are_read(change, problem, tmp_path):
    good = dict.fromkeys(change) | row(1, id="good", boxes=None, plan=None, history=None)
    table = SampleTable.open(write(tmp_path / "x.parquet", {**good, "id": "bad", **change}, good))
    first, second = table.rows()
    assert problem in first.problem
    assert (first.sample, first.location) == (None, f"{tmp_path / 'x.parquet'}, row 0")
    assert second.sample is not None, second.problem


def test_paths_of_a_stranger_lead_nowhere_else(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    for path in (tmp_path / "secret.png", inner / "a.png"):
        path.write_bytes(png(0))
    (inner / "link.png").symlink_to(tmp_path / "secret.png")
    paths = ["../secret.png", str(tmp_path / "secret.png"), "link.png", "/dev/zero", "no\0path", "a.png"]
    rows = [{"instruction": "Make it red", "source": path, "edited": "a.png"} for path in paths]
    found = problems(SampleTable.open(write(inner / "x.parquet", *rows)))
    assert [bool(problem) for problem in found] == [True] * 5 + [False]
    assert "leads out of" in found[0]
    cells = [
        {"instruction": "Make it red", "source": {"bytes": None, "path": path}, "edited": "a.png"} for path in paths
    ]
    assert problems(SampleTable.open(write(inner / "y.parquet", *cells))) == found


def test_shards_are_read_in_order(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for number in (1, 0, 2):
        write(data / f"train-{number:05d}-of-00003.parquet", row(number, id=f"{number}"))
    for path in (tmp_path, data, data / "train-*.parquet"):
        table = SampleTable.open(path)
        assert ([found.sample and found.sample.id for found in table.rows()], table.count) == (["0", "1", "2"], 3)
    names = [f"train-{number:05d}-of-00003.parquet" for number in range(3)]
    assert [file.name for file in SampleTable.open(tmp_path).files] == names
    write(data / "other.parquet", {"text": "no edit"})
    with pytest.raises(InputError, match=r"other\.parquet has no column"):
        SampleTable.open(tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_ranges_are_read_in_any_order(kind, tmp_path):
    rows = [{"number": number, "text": "x" * (number % 7)} for number in range(500)]
    path = tmp_path / f"x.{kind}"
    if kind == "parquet":
        write(path, *rows, group=90)
    else:
        path.write_text("\n\n".join(map(json.dumps, rows)))
    file, chance = RowFile(path), random.Random(0)
    reader = RowReader(file, ["number", "text"])
    for first in (0, 10, 95, 95, 90, 89, 180, 499, 0, *(chance.randrange(500) for _ in range(60))):
        count = chance.randrange(1, 150)
        assert [values for _, values in reader.read(first, count)] == rows[first : first + count]
    assert (file.num_rows, [values for _, values in file.rows(["number", "text"])]) == (len(rows), rows)


def test_neighbouring_ranges_are_read_once(tmp_path, monkeypatch):
    path = write(tmp_path / "x.parquet", *({"number": number} for number in range(1000)))
    opened: list[int] = []
    open_chunks: Callable[..., Any] = RowReader._open_chunks

    def counted(reader: RowReader, first: int) -> Any:
        opened.append(first)
        return open_chunks(reader, first)

    monkeypatch.setattr(RowReader, "_open_chunks", counted)
    reader = RowReader(RowFile(path), ["number"])
    for first in range(0, 1000, 200):  # as two workers do, each its half of the blocks
        expected = [{"number": number} for number in range(first, first + 100)]
        assert [values for _, values in reader.read(first, 100)] == expected
    assert opened == [0]


def test_a_file_that_claims_gigabytes_a_row_or_is_cut_is_refused(tmp_path):
    path = write(tmp_path / "x.parquet", *(row(number) for number in range(9)))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="cannot be read as parquet"):
        SampleTable.open(path)
    with pytest.raises(BrokenFile):
        _ = RowFile(path).num_rows


def test_base64_in_a_table_or_a_line_is_the_picture_and_a_nan_is_nothing(tmp_path):
    held = {name: base64.b64encode(data).decode() for name, data in (("source", png(0)), ("edited", png(100)))}
    held["edited"] = f"data:image/png;base64,{held['edited']}"
    (tmp_path / "x.jsonl").write_text(json.dumps({"id": "x", "instruction": "Make it red", **held}) + "\n")
    path = write(tmp_path / "x.parquet", row(id="x", mask=float("nan")))
    texts = write(tmp_path / "texts.parquet", {**row(id="x"), **held})
    samples = [found.sample for one in (tmp_path / "x.jsonl", path, texts) for found in SampleTable.open(one).rows()]
    assert samples[0] is not None
    assert samples[0].mask is None
    assert samples == [samples[0]] * 3


def test_a_pair_is_one_in_whatever_unicode_form_its_files_are_named(tmp_path):
    (tmp_path / unicodedata.normalize("NFD", "thé_source.png")).write_bytes(png(0))
    (tmp_path / unicodedata.normalize("NFC", "thé_edited.png")).write_bytes(png(100))
    (tmp_path / unicodedata.normalize("NFD", "thé.txt")).write_text("Make it red")
    (entry,) = SampleSource.open(tmp_path).read()
    assert entry.sample is not None, entry.problem
    assert (entry.sample.id, entry.sample.instruction) == (unicodedata.normalize("NFC", "thé"), "Make it red")


def test_a_picture_is_kept_as_the_bytes_of_its_file():
    data, index = png(3), dict[str, Any]()
    first = Image.from_encoded(data, index=index)
    assert (first == Image.of(data), first.seen, first._pixels) == (True, True, None)
    assert (first.pixels == Image.of(data).pixels).all()
    second = Image.from_encoded(data, index=index)
    assert (second.digest, second.size) == (first.digest, first.size)
    assert (np.array(second.crop(0, 0, 4, 4).pixels) == first.pixels[:4, :4]).all()


def test_score_reads_parquet_without_ray(editcritic, folder):
    names = ("copy", "patched", "blank", "copy")
    rows = [folder.row(id=name, edited=f"{name}.png") for name in names]
    path = write(folder / "edits.parquet", *rows)
    result = editcritic("score", path, "--reward", folder.cheap, "-o", folder / "table.jsonl")
    assert result.exit_code == 2  # an id of a scores file says which row it is
    assert "row 3: the id 'copy' is also that of" in result.stderr
    lines = folder.samples(*rows[:3])
    assert editcritic("score", lines, "--reward", folder.cheap, "-o", folder / "lines.jsonl").exit_code == 0
    assert (folder / "table.jsonl").read_text() == (folder / "lines.jsonl").read_text()


def test_no_more_samples_are_held_than_are_in_flight(tmp_path):
    path = write(tmp_path / "x.parquet", *(row(number % 100) for number in range(3000)), group=500)
    reward = Reward.of("guard-not-blank", max_in_flight=8)
    held: list[int] = []

    def count(name: str, score: Score) -> None:
        if int(name.partition(":")[2]) % 500 == 499:
            gc.collect()
            held.append(sum(isinstance(found, EditSample) for found in gc.get_objects()))

    before = sum(isinstance(found, EditSample) for found in gc.get_objects())
    outcome = score_entries(reward, SampleSource.open(path).read(), count, on_problem=print)
    assert outcome.summary.counts == {"scored": 3000}
    assert len(held) == 6
    assert max(held) - before <= 17 * 8  # in flight, or done and waiting for one before them: see `Engine.run`


def test_a_folder_with_parquet_is_a_table_for_every_command(folder):
    write(folder / "edits.parquet", row())
    source = SampleSource.open(folder.path)
    assert (source.count, [entry.problem for entry in source.read()]) == (1, [""])
    with pytest.raises(InputError, match="an instruction per row"):
        SampleSource.open(folder.path, instruction="Make it blue")
