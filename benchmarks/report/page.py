"""The report of a suite as one HTML page that holds all it shows, or, for many samples, with a folder beside it."""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from ..inputs import InputError
from ..suites.paired import facts
from . import crossed, curves, outcomes, scale, standing, tradeoffs
from .browsing import embedded, parts_of, rows_of
from .charts import Chart, swatch
from .material import Material, Section
from .pictures import Album
from .svg import Markup

IN_ONE_FILE = 2000
"""Rows (an item of an editor each) up to which the page holds its pictures itself."""

_SECTIONS: Sequence[Callable[[Material], Section | None]] = (
    standing.leaderboard,
    standing.differences,
    standing.others,
    standing.radars,
    curves.turns,
    curves.levels,
    tradeoffs.pareto,
    tradeoffs.latency,
    scale.scale,
    outcomes.labels,
    crossed.light,
    crossed.shapes,
    crossed.categories,
    crossed.sources,
    outcomes.statuses,
)


def sections(material: Material) -> Iterator[Section]:
    """Those that the suite and its results have something for."""
    for make in _SECTIONS:
        if (found := make(material)) is not None:
            yield found


def folder_of(path: Path) -> Path:
    """Where the pictures of a page lie that does not hold them itself."""
    return path.with_name(f"{path.stem}_files")


def write_page(
    path: Path, material: Material, command: str = "", *, inside: bool | None = None,
    step: Callable[[], None] = lambda: None,
) -> Path | None:  # fmt: skip
    """Write it. inside: keep everything in one file; by default, up to `IN_ONE_FILE` rows. step: after each row.

    Returns the folder beside it, if there is one. Raises `InputError` where that is a folder of somebody else's,
    OSError.
    """
    data = rows_of(material)
    apart = not (len(data["rows"]) <= IN_ONE_FILE if inside is None else inside)
    folder = _fresh(folder_of(path)) if apart else None
    album = Album(folder)
    parts = []
    for number, part in enumerate(parts_of(material, data["rows"], album, step)):
        if folder is None:
            parts.append(embedded(part))
        else:
            text = f"editcritic.part({number}, {embedded(part)});\n"
            (folder / f"part{number}.js").write_bytes(text.encode("utf-8", errors="replace"))
    data["folder"] = None if folder is None else folder.name
    script = _file("page.js")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    provenance = material.results[0].provenance
    stream = environment.from_string(_file("page.html")).stream(
        suite=material.suite,
        title=f"{material.suite.about.title or material.suite.name}: {_counted(material)}",
        sections=list(sections(material)),
        is_chart=lambda block: isinstance(block, Chart),
        swatch=swatch,
        style=_plain(_file("page.css")),
        script=_plain(script),
        allowed=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        folder=folder is not None,
        data=_plain(embedded(data)),
        parts=[_plain(part) for part in parts],
        pictures=_plain(embedded(album.kept)),
        provenance=_facts(provenance),
        problems=[str(problem) for problem in material.suite.problems],
        command=command,
    )
    with path.open("wb") as opened:
        stream.dump(opened, encoding="utf-8", errors="replace")
    return folder


def _counted(material: Material) -> str:
    return material.editors[0] if len(material.editors) == 1 else f"{len(material.editors)} editors"


def _fresh(folder: Path) -> Path:
    """The folder, emptied of what an earlier page has left there."""
    if folder.is_dir():
        if any(path.suffix not in (".webp", ".js") for path in folder.iterdir()):
            raise InputError(f"{folder} holds other files: give the report another name, or move them away")
        shutil.rmtree(folder)
    folder.mkdir()
    return folder


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _plain(text: str) -> Markup:
    """Text that stands in the page as it is: our own, or JSON without `<`."""
    return Markup(text)


def _facts(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in facts(provenance) if not name.startswith("about.")]
