"""The report of a suite: one self-contained HTML page, or, for many samples, a page with a folder beside it."""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from ..common.errors import InputError
from ..suites.setting_differences import flatten_provenance
from . import leaderboard_sections, pareto_sections, status_sections
from .charts import Chart, legend_mark
from .report_data import ReportData, ReportSection
from .sample_browser import ThumbnailStore, browser_rows, escape_json_for_script, thumbnail_chunks
from .svg import Markup

SINGLE_FILE_ROWS = 1500  # number of rows (an item of an editor each) up to which images are embedded in the page

_SECTION_BUILDERS: Sequence[Callable[[ReportData], ReportSection | None]] = (
    leaderboard_sections.leaderboard_section,
    leaderboard_sections.difference_section,
    leaderboard_sections.table_sections,
    leaderboard_sections.radar_section,
    status_sections.turn_section,
    status_sections.level_section,
    pareto_sections.pareto_section,
    pareto_sections.latency_section,
    pareto_sections.size_section,
    status_sections.label_section,
    status_sections.luminance_section,
    status_sections.shape_section,
    status_sections.category_section,
    status_sections.source_count_section,
    status_sections.status_section,
)


def build_sections(report: ReportData) -> Iterator[ReportSection]:
    """The non-empty sections of the report."""
    for builder in _SECTION_BUILDERS:
        if (section := builder(report)) is not None:
            yield section


def thumbnail_folder(path: Path) -> Path:
    """Folder of the images of a page that does not embed them."""
    return path.with_name(f"{path.stem}_files")


def write_page(
    path: Path, report: ReportData, command: str = "", *, single_file: bool | None = None,
    step: Callable[[], None] = lambda: None,
) -> Path | None:  # fmt: skip
    """Write the page. single_file: embed the images; default: up to `SINGLE_FILE_ROWS` rows. step: after each row.
    Returns the folder beside the page, if there is one. Raises `InputError` if that folder holds other files, and
    OSError."""
    data = browser_rows(report)
    has_folder = not (len(data["rows"]) <= SINGLE_FILE_ROWS if single_file is None else single_file)
    folder = _empty_folder(thumbnail_folder(path)) if has_folder else None
    thumbnails = ThumbnailStore(folder)
    chunks = []
    for number, chunk in enumerate(thumbnail_chunks(report, data["rows"], thumbnails, step)):
        if folder is None:
            chunks.append(escape_json_for_script(chunk))
        else:
            text = f"editcritic.addChunk({number}, {escape_json_for_script(chunk)});\n"
            (folder / f"chunk{number}.js").write_bytes(text.encode("utf-8", errors="replace"))
    data["folder"] = None if folder is None else folder.name
    script = _file("page.js")
    stream = (
        page_templates()
        .get_template("page.html")
        .stream(
            suite=report.suite,
            title=f"{report.suite.info.title or report.suite.name}: {_counted(report)}",
            sections=list(build_sections(report)),
            style=page_style(),
            # What is not escaped is our own, or JSON without `<`.
            script=Markup(script),
            allowed=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            folder=folder is not None,
            data=Markup(escape_json_for_script(data)),
            chunks=[Markup(chunk) for chunk in chunks],
            images=Markup(escape_json_for_script(thumbnails.kept)),
            provenance=[(one.editor, provenance_facts(one.provenance)) for one in report.results],
            problems=[str(problem) for problem in report.suite.problems],
            command=command,
        )
    )
    with path.open("wb") as file:
        stream.dump(file, encoding="utf-8", errors="replace")
    return folder


def page_templates(*folders: Path) -> jinja2.Environment:
    """The templates of pages, with what their tables and charts need. folders: of others than those of reports."""
    loader = jinja2.FileSystemLoader([Path(__file__).parent, *folders])
    templates = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    templates.globals.update(is_chart=lambda block: isinstance(block, Chart), swatch=legend_mark)
    return templates


def page_style() -> Markup:
    """The style sheet of pages."""
    return Markup(_file("page.css"))


def _counted(report: ReportData) -> str:
    return report.editors[0] if len(report.editors) == 1 else f"{len(report.editors)} editors"


def _empty_folder(folder: Path) -> Path:
    if folder.is_dir():
        if any(path.suffix not in (".webp", ".js") for path in folder.iterdir()):
            raise InputError(f"{folder} holds other files: rename the report, or move these files")
        shutil.rmtree(folder)
    folder.mkdir()
    return folder


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def provenance_facts(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The entries of a provenance as text, nested ones under dotted names."""
    return [(name, str(value)) for name, value in flatten_provenance(provenance) if not name.startswith("about.")]
