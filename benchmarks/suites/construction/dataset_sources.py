"""Where the suites' data is published: places, revisions, sizes, digests and licences, as far as they are known.

Nothing here is fetched unless `editcritic bench prepare` is told to. What could not be verified says so in `notes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from ...reward.toml import tomllib
from ..inputs import InputError


@dataclass(frozen=True, slots=True)
class File:
    """One file. path: where it goes, under the folder of the data. sha256: hex, empty where nobody has recorded it.

    unpack: whether it is a zip whose content readers want as files.
    """

    path: str
    url: str
    revision: str = ""
    size: int | None = None
    sha256: str = ""
    unpack: bool = False


@dataclass(frozen=True, slots=True)
class Repository:
    """A data set on the Hugging Face hub, taken whole into `folder`.

    revision: a full commit, or a branch, of which the commit is recorded when it is downloaded first.
    """

    name: str
    revision: str
    folder: str = ""

    @property
    def pinned(self) -> bool:
        return len(self.revision) == 40


@dataclass(frozen=True, slots=True)
class Source:
    """Where the data of a suite comes from. opens: specs of the suite that must be able to read it."""

    suite: str
    licence: str
    page: str
    opens: tuple[str, ...]
    files: tuple[File, ...] = ()
    repository: Repository | None = None
    notes: tuple[str, ...] = ()


_EDIVAL = "583d3efe2daf81afb0a13ee2c4df06cdaad1b554"
_EDIVAL_CODE = "fa0759334706b93cb470dd99a1206a68713cfad5"

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "edival": Source(
            "edival",
            "MIT and CC BY-SA 4.0, by the badges of the authors' repository",
            "https://huggingface.co/datasets/C-Tianyu/EdiVal",
            ("edival", "edival?mode=singlepass"),
            (
                File(
                    "oai_instruction_generation_output.csv",
                    f"https://raw.githubusercontent.com/TianyuCodings/EdiVal/{_EDIVAL_CODE}/"
                    "oai_instruction_generation_output.csv",
                    _EDIVAL_CODE,
                    872_227,
                    "1c17f9f579c5337d3846f45714153f87f27cc0f85119d897dcb62e5301351555",
                ),
                File(
                    "input_images_resize_512.zip",
                    f"https://huggingface.co/datasets/C-Tianyu/EdiVal/resolve/{_EDIVAL}/input_images_resize_512.zip",
                    _EDIVAL,
                    51_709_607,
                    "c15d9010ab50dd6ddaed81c3ef0f573591149ee31ca266124e39f4e8518d0c79",
                ),
            ),
            notes=(
                (
                    "The digest of the instructions was checked against a copy of them. That of the pictures is what "
                    "another user of this revision has recorded; the authors publish none."
                ),
            ),
        ),
        "complex-edit": Source(
            "complex-edit",
            "CC BY-NC 4.0, by the data set's card",
            "https://huggingface.co/datasets/UCSC-VLAA/Complex-Edit",
            ("complex-edit", "complex-edit?split=test_syn"),
            repository=Repository("UCSC-VLAA/Complex-Edit", "b0b8a81d740ae413d52572281a23dc975c4b4b91", "published"),
            notes=(
                (
                    "Published as pictures beside their instructions (test/real, test/syn); two parquet files with "
                    "the columns `image` and `edit`, as `datasets` gives them, are made of these."
                ),
                "Size and digests are not known: digests are recorded when it is downloaded first.",
            ),
        ),
        "dlebench": Source(
            "dlebench",
            "Apache-2.0, by the data set's card",
            "https://huggingface.co/datasets/SPUH/DLEBench",
            ("dlebench?mode=plain",),
            repository=Repository("SPUH/DLEBench", "main"),
            notes=(
                (
                    "The full commit of the current revision could not be verified: the commit that `main` means at "
                    "the first download is recorded, and later ones are held to it. Size and digests are not known."
                ),
                (
                    "Whether boxes are in data.jsonl could not be verified either: oracle mode needs them, there or in "
                    "a file of annotations (`dlebench?annotations=…`)."
                ),
            ),
        ),
    }
)
"""By suite."""

BY_HAND: Mapping[str, str] = MappingProxyType(
    {
        "sceneedit": "sceneedit is built in: there is nothing to prepare",
        "i2ibench": "I2I-Bench's prompts are not published: give a folder of pictures and --judge to build a suite of "
        "them, as in `editcritic bench prepare i2ibench PICTURES --judge … -o DATA`",
    }
)


def source_of(suite: str, places: Path | None = None) -> Source:
    """Where the data of a suite is. places: a TOML file with other places of it, as a mirror's. Raises `InputError`."""
    found = SOURCES.get(suite)
    if found is None:
        raise InputError(BY_HAND.get(suite, f"no suite {suite!r} is known here: there are {', '.join(_KNOWN)}"))
    if places is None:
        return found
    files = read_files(places)
    notes = (f"From the places that {places} names.",)
    return Source(suite, found.licence, found.page, found.opens, files, None, notes)


_KNOWN = (*SOURCES, *BY_HAND)


def read_files(path: Path) -> tuple[File, ...]:
    """The files that a TOML file lists: `[[file]]` with `path`, `url`, and, where known, `sha256`, `size`, `revision`,
    `unpack`. Raises `InputError`.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    rows = table.get("file")
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path} lists no files: write [[file]] with path and url")
    found = []
    for number, row in enumerate(rows, start=1):
        try:
            file = File(**row)
            _check(file)
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}, file {number}: {error}") from None
        found.append(file)
    return tuple(found)


def _check(file: File) -> None:
    for name, kind in (("path", str), ("url", str), ("revision", str), ("sha256", str), ("unpack", bool)):
        if not isinstance(getattr(file, name), kind):
            raise ValueError(f"{name} is {kind.__name__}, got {getattr(file, name)!r}")
    size: object = file.size
    if size is not None and not (isinstance(size, int) and size >= 0):
        raise ValueError(f"size is a number of bytes, got {file.size!r}")
    inside(file.path)
    if file.url and urlsplit(file.url).scheme not in ("http", "https"):
        raise ValueError(f"url is an http or https address, got {file.url!r}")
    if file.sha256 and (len(file.sha256) != 64 or set(file.sha256.lower()) - set("0123456789abcdef")):
        raise ValueError(f"sha256 is 64 hexadecimal digits, got {file.sha256!r}")


def inside(name: str) -> tuple[str, ...]:
    """The parts of a relative path. Raises ValueError for one that leads out of its folder, or to nothing."""
    parts = tuple(part for part in name.replace("\\", "/").split("/") if part not in ("", "."))
    if not parts or name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name:
        raise ValueError(f"{name!r} leads out of its folder")
    return parts
