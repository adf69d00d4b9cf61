"""`bench prepare`: prints the download plan, downloads on request, verifies later runs, opens the suite."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import Result

from editcritic.benchmarks.run.suite_loading import default_data
from editcritic.benchmarks.suites.complexedit.reader import convert_imagefolder
from editcritic.benchmarks.suites.complexedit.suite import ComplexEdit
from editcritic.benchmarks.suites.construction.download import SOURCES, DatasetFile, DownloadLock, read_lock
from editcritic.benchmarks.suites.construction.workspace import list_numbered_images
from editcritic.benchmarks.suites.edival import construction
from editcritic.benchmarks.suites.edival.construction import EdiValAgent
from editcritic.benchmarks.suites.edival.reader import CSV
from editcritic.benchmarks.suites.split_files import safe_path_parts
from editcritic.reward.toml_files import tomllib

from ..suites.construction.file_server import Files, served
from ..suites.construction.scripted_experts import Places, Script, photographs, write_lines

Command = Callable[..., Result]
NAMES = {"csv": "oai_instruction_generation_output.csv", "zip": "input_images_resize_512.zip"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """EdiVal's two files, small: made by ourselves, zipped as they are published."""
    folder = tmp_path_factory.mktemp("edival")
    report = construction.construct(
        list_numbered_images(photographs(folder / "photos", count=2)),
        folder / "data",
        EdiValAgent(),
        judge=Script(),
        detector=Places(),
    )
    assert report.num_constructed == 2
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for path in sorted((folder / "data" / construction.PICTURES).iterdir()):
            file.write(path, f"input_images_resize_512/{path.name}")
    return {NAMES["csv"]: (folder / "data" / CSV).read_bytes(), NAMES["zip"]: packed.getvalue()}


@pytest.fixture
def prepare(editcritic):
    """Runs `bench prepare`."""
    return partial(editcritic, "bench", "prepare")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def places(folder: Path, server: Files, **digests: str) -> Path:
    """A mirror's table of the two files."""
    lines = [
        f'[[file]]\npath = "{name}"\nurl = "{server.url(name)}"\nsha256 = "{digests.get(kind, "")}"\n'
        for kind, name in NAMES.items()
    ]
    (folder / "mirror.toml").write_text("\n".join(lines), encoding="utf-8")
    return folder / "mirror.toml"


def test_nothing_is_fetched_unless_it_is_told_to(prepare, data, tmp_path):
    with served(data) as server:
        shows = (
            "licence: MIT and CC BY-SA 4.0",
            f"to download: {NAMES['zip']}, size unknown",
            "Nothing was downloaded. Use --download",
        )
        prepare("edival", "-o", tmp_path / "data", "--sources", places(tmp_path, server), code=1, shows=shows)
        assert server.requests == []
    assert not (tmp_path / "data").exists()
    for name, content in data.items():  # what was put there by hand
        (tmp_path / name).write_bytes(content)
    digest = "1c17f9f579c5337d3846f45714153f87f27cc0f85119d897dcb62e5301351555"
    prepare("edival", "-o", tmp_path, code=2, says=f"{digest}: remove it")
    (tmp_path / NAMES["zip"]).unlink()
    printed = prepare("edival", "-o", tmp_path).stdout
    assert f"edival: {tmp_path} lacks {NAMES['zip']}\n" in printed
    assert "the data is not in" not in printed


PLANS = {
    "edival": (
        "583d3efe2daf81afb0a13ee2c4df06cdaad1b554/input_images_resize_512.zip", "51.7 MB",
        "sha256 1c17f9f579c5337d3846f45714153f87f27cc0f85119d897dcb62e5301351555",
    ),
    "complex-edit": (
        "UCSC-VLAA/Complex-Edit", "b0b8a81d740ae413d52572281a23dc975c4b4b91; size unknown", "CC BY-NC 4.0",
    ),
    "gedit": ("58159f3de6689982b1df7f1a6c557ded16548a24; size unknown",),
    "dlebench": ("main (a branch: its commit is recorded at the first download)", "could not be verified"),
}  # fmt: skip


def test_each_suites_plan_names_place_revision_licence_and_what_is_not_known(prepare, tmp_path):
    assert SOURCES.keys() == PLANS.keys()
    for name, source in SOURCES.items():
        prepare(name, "-o", tmp_path / name, shows=PLANS[name])
        assert all(safe_path_parts(file.path) and len(file.sha256) == 64 for file in source.files)


def test_it_is_fetched_recorded_and_opened(prepare, data, tmp_path):
    with served(data) as server:
        server.breaks = 1
        table = places(tmp_path, server)
        result = prepare("edival", "-o", tmp_path / "data", "--sources", table, "--download", "--json", code=0)
        document = json.loads(result.stdout)
        opened = document["opened_suites"][0]
        assert list(opened.pop("protocols"))[:2] == ["paper", "official"]
        assert opened == {"suite_spec": "edival", "items": 6, "problems": [], "num_problems": 0}
        count = len(server.requests)
        again = prepare("edival", "-o", tmp_path / "data", "--sources", table, "--download")
        assert (again.exit_code, len(server.requests)) == (0, count)
        assert "the protocol of edival is paper (" in again.stdout
        (tmp_path / "data" / NAMES["csv"]).unlink()  # later runs are held to the digests of the first
        server.files[NAMES["csv"]] = b"something else"
        prepare("edival", "-o", tmp_path / "data", "--sources", table, "--download", code=2, says="expected")
        prepare("edival", "-o", tmp_path / "data", "--sources", table, code=1)
        server.files[NAMES["csv"]] = data[NAMES["csv"]]
        command = ("edival", "-o", tmp_path / "broken", "--sources", places(tmp_path, server, zip="0" * 64))
        prepare(*command, "--download", code=2, says="it was discarded")
    assert [path.name for path in (tmp_path / "broken").iterdir()] == [NAMES["csv"]]
    lock = tomllib.loads((tmp_path / "data/sources.toml").read_text("utf-8"))
    assert {row["path"]: row["sha256"] for row in lock["file"]} == {
        name: hashlib.sha256(content).hexdigest() for name, content in data.items()
    }


@pytest.mark.parametrize(
    ("suite", "says"),
    [
        ("sceneedit", "built in"),
        ("i2ibench", "`editcritic bench build i2ibench IMAGES"),
        ("imgedit", "extract there Benchmark.tar"),
        ("edit", "unknown suite 'edit'"),
    ],
)
def test_suites_without_published_data_say_what_to_do(suite, says, prepare, tmp_path):
    prepare(suite, says=says)
    prepare("edival", "--tables", tmp_path, code=2, says="give --stats")


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("", "lists no files"),
        ("[[file]]\npath = '../x'\nurl = 'https://example.org'", "leaves its folder"),
        ("[[file]]\npath = 'x'\nurl = 'file:///etc/passwd'", "http or https"),
        ("[[file]]\npath = 'x'\nurl = 'https://example.org'\nsha256 = 'ab'", "64 hexadecimal"),
        ("[[file]]\npath = 'x'", "missing"),
        ("[[file", "not TOML"),
    ],
)
def test_a_table_of_places_that_is_none_is_refused(prepare, tmp_path, table, reason):
    (tmp_path / "t.toml").write_text(table, encoding="utf-8")
    prepare("edival", "-o", tmp_path / "data", "--sources", tmp_path / "t.toml", code=2, says=reason)


def test_a_lock_is_read_as_it_was_written(tmp_path):
    file = DatasetFile('a "b"/ü.bin', "https://example.org/ü", "r", 3, "0" * 64, unpack=True)
    lock = DownloadLock("edival", (file,), "c" * 40)
    lock.write(tmp_path)
    assert read_lock(tmp_path) == lock


def published(place: Path) -> Path:
    """Complex-Edit as it lies on the hub, small."""
    for split in ("real", "syn"):
        folder = place / "test" / split
        photographs(folder / "images", count=2, side=32)
        rows = []
        for name in ("chelsea", "astronaut"):
            steps = [{"name": "Add Text", "instruction": f"Write {name} {level}."} for level in range(8)]
            compound = [{"compound_instruction": f"Write {name} C{level}."} for level in range(8)]
            rows.append({"file_name": f"images/{name}.png", "edit": {"sequence": steps, "compound": compound}})
        write_lines(folder / "metadata.jsonl", rows)
    return place


def test_pictures_beside_their_instructions_become_the_columns_that_the_suite_reads(tmp_path):
    convert_imagefolder(published(tmp_path / "published"), tmp_path / "data", lambda text: None)
    for split in ("test_real", "test_syn"):
        suite = ComplexEdit(tmp_path / "data", split=split)
        assert (len(suite.items), list(suite.problems)) == (16, [])
        assert suite.items[0].sample.instruction == "Write astronaut C0."


def test_every_command_looks_for_data_where_prepare_puts_it(editcritic, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "gedit").mkdir(parents=True)
    assert default_data("gedit?sources=input_image_raw") == Path("data/gedit")
    assert (default_data("edival"), default_data("module:Suite?data=1")) == (None, None)
    (tmp_path / "made").mkdir()
    folders = ("--outputs", "made", "-o", "out")
    for command in (
        ("bench", "run", "gedit", *folders),
        ("bench", "generate", "gedit", "--editor-url", "http://127.0.0.1:9", "-o", "out"),
        ("bench", "prepare", "gedit", "--stats"),
        ("judge", "label", "gedit", "--outputs", "mine=made", "-o", "labels.jsonl"),
    ):
        assert "data/gedit" in editcritic(*command, code=2).stderr, command
