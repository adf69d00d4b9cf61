"""Sources of the suites' data: URLs, revisions, sizes, digests and licences, as far as known.

Only `editcritic bench prepare --download` downloads them. `notes` lists what could not be verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from ....reward.toml_files import read_toml
from ...common.errors import InputError


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """One file. path: target path under the data folder. sha256: hex, empty if unknown.

    unpack: whether it is a zip to extract.
    """

    path: str
    url: str
    revision: str = ""
    size: int | None = None
    sha256: str = ""
    unpack: bool = False


@dataclass(frozen=True, slots=True)
class DatasetRepository:
    """A data set on the Hugging Face hub, downloaded completely into `folder`.

    revision: a full commit, or a branch, whose commit is recorded at the first download.
    """

    name: str
    revision: str
    folder: str = ""

    @property
    def pinned(self) -> bool:
        return len(self.revision) == 40


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """Source of a suite's data. suite_specs: suite specs that have to be able to read it."""

    suite: str
    licence: str
    homepage: str
    suite_specs: tuple[str, ...]
    files: tuple[DatasetFile, ...] = ()
    repository: DatasetRepository | None = None
    notes: tuple[str, ...] = ()


_EDIVAL = "583d3efe2daf81afb0a13ee2c4df06cdaad1b554"
_EDIVAL_CODE = "fa0759334706b93cb470dd99a1206a68713cfad5"

SOURCES: Mapping[str, DatasetSource] = {
    "edival": DatasetSource(
        "edival",
        "MIT and CC BY-SA 4.0, by the badges of the authors' repository",
        "https://huggingface.co/datasets/C-Tianyu/EdiVal",
        ("edival", "edival?mode=singlepass"),
        (
            DatasetFile(
                "oai_instruction_generation_output.csv",
                f"https://raw.githubusercontent.com/TianyuCodings/EdiVal/{_EDIVAL_CODE}/"
                "oai_instruction_generation_output.csv",
                _EDIVAL_CODE,
                872_227,
                "1c17f9f579c5337d3846f45714153f87f27cc0f85119d897dcb62e5301351555",
            ),
            DatasetFile(
                "input_images_resize_512.zip",
                f"https://huggingface.co/datasets/C-Tianyu/EdiVal/resolve/{_EDIVAL}/input_images_resize_512.zip",
                _EDIVAL,
                51_709_607,
                "c15d9010ab50dd6ddaed81c3ef0f573591149ee31ca266124e39f4e8518d0c79",
            ),
        ),
        notes=(
            (
                "The digest of the instructions was checked against a copy of them. That of the images was "
                "recorded by another user of this revision; the authors publish none."
            ),
        ),
    ),
    "complex-edit": DatasetSource(
        "complex-edit",
        "CC BY-NC 4.0, by the data set's card",
        "https://huggingface.co/datasets/UCSC-VLAA/Complex-Edit",
        ("complex-edit", "complex-edit?split=test_syn"),
        repository=DatasetRepository("UCSC-VLAA/Complex-Edit", "b0b8a81d740ae413d52572281a23dc975c4b4b91", "published"),
        notes=(
            (
                "Published as images with their instructions (test/real, test/syn); they are converted to two "
                "parquet files with the columns `image` and `edit`, as returned by `datasets`."
            ),
            "Size and digests are unknown: digests are recorded at the first download.",
        ),
    ),
    "dlebench": DatasetSource(
        "dlebench",
        "Apache-2.0, by the data set's card",
        "https://huggingface.co/datasets/SPUH/DLEBench",
        ("dlebench?mode=plain",),
        repository=DatasetRepository("SPUH/DLEBench", "main"),
        notes=(
            (
                "The full commit of the current revision could not be verified: the commit of `main` at the first "
                "download is recorded, and later downloads use it. Size and digests are unknown."
            ),
            (
                "Whether data.jsonl contains boxes could not be verified either: oracle mode needs them, there or "
                "in a file of annotations (`dlebench?annotations=…`)."
            ),
        ),
    ),
    "gedit": DatasetSource(
        "gedit",
        "MIT, by the data set's card",
        "https://huggingface.co/datasets/stepfun-ai/GEdit-Bench",
        ("gedit",),
        repository=DatasetRepository("stepfun-ai/GEdit-Bench", "58159f3de6689982b1df7f1a6c557ded16548a24"),
        notes=(
            (
                "Published as Arrow files, by the hub's label: they are read as `save_to_disk` writes them, and so "
                "are the parquet files that the hub converts them to. The names of the files could not be verified."
            ),
            "Size and digests are unknown: digests are recorded at the first download.",
        ),
    ),
}
"""By suite."""

MANUAL_SUITES: Mapping[str, str] = {
    "sceneedit": "sceneedit is built in: there is nothing to prepare",
    "i2ibench": "I2I-Bench's prompts are not published: build a suite of your own images, e.g. "
    "`editcritic bench build i2ibench IMAGES --judge … -o DATA`",
    "imgedit": "ImgEdit-Bench is prepared by hand: put Benchmark/Basic/basic_edit.json and "
    "Benchmark/UGE/UGE_edit.json of the repository PKU-YuanGroup/ImgEdit on GitHub into DATA, and extract there "
    "Benchmark.tar of the data set sysuyy/ImgEdit on the hub, whose digest is not known here",
}


def find_source(suite: str, alternatives: Path | None = None) -> DatasetSource:
    """The source of a suite's data. alternatives: a TOML file with other URLs, e.g. a mirror's. Raises `InputError`."""
    source = SOURCES.get(suite)
    if source is None:
        raise InputError(
            MANUAL_SUITES.get(suite, f"unknown suite {suite!r}: expected one of {', '.join(_KNOWN_SUITES)}")
        )
    if alternatives is None:
        return source
    notes = (f"From the URLs in {alternatives}.",)
    return replace(source, files=read_files(alternatives), repository=None, notes=notes)


_KNOWN_SUITES = (*SOURCES, *MANUAL_SUITES)


def read_files(path: Path) -> tuple[DatasetFile, ...]:
    """The files of a TOML file: `[[file]]` with `path`, `url`, and optionally `sha256`, `size`, `revision`, `unpack`.

    Raises `InputError`.
    """
    try:
        table = read_toml(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    rows = table.get("file")
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path} lists no files: write [[file]] with path and url")
    files = []
    for number, row in enumerate(rows, start=1):
        try:
            file = DatasetFile(**row)
            _check(file)
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}, file {number}: {error}") from None
        files.append(file)
    return tuple(files)


def _check(file: DatasetFile) -> None:
    for name, kind in (("path", str), ("url", str), ("revision", str), ("sha256", str), ("unpack", bool)):
        if not isinstance(getattr(file, name), kind):
            raise ValueError(f"{name} is {kind.__name__}, got {getattr(file, name)!r}")
    size: object = file.size
    if size is not None and not (isinstance(size, int) and size >= 0):
        raise ValueError(f"size is a number of bytes, got {file.size!r}")
    safe_path_parts(file.path)
    if file.url and urlsplit(file.url).scheme not in ("http", "https"):
        raise ValueError(f"url is an http or https address, got {file.url!r}")
    if file.sha256 and (len(file.sha256) != 64 or set(file.sha256.lower()) - set("0123456789abcdef")):
        raise ValueError(f"sha256 is 64 hexadecimal digits, got {file.sha256!r}")


def safe_path_parts(name: str) -> tuple[str, ...]:
    """The parts of a relative path. Raises ValueError for an empty path, or one that leaves its folder."""
    parts = tuple(part for part in name.replace("\\", "/").split("/") if part not in ("", "."))
    if not parts or name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name:
        raise ValueError(f"{name!r} leaves its folder")
    return parts
