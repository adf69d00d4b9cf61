"""The finds of a search for hacks, on the page of an audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...reward import Image
from ...reward.audit import AuditReport, TrialMaker
from ...reward.audit.hack_search.search_result import Find, SearchResult
from ..report.charts import Chart, Point, Series, line_chart
from .pictures import Album, Example, Shot, part_rows, shortened, value_text
from .report_text import search_lines, signed

MAX_FINDS = 12
"""Finds on the page, those furthest above their edit."""


@dataclass(frozen=True, slots=True)
class SearchSection:
    """What is shown of a search: its result in lines, its curve, its finds."""

    lines: tuple[str, ...]
    chart: Chart | None
    finds: tuple[Example, ...]
    num_finds: int


def search_section(
    report: AuditReport, maker: TrialMaker, album: Album, remix: Callable[[Find], Image | None] | None
) -> SearchSection:
    """Of a report with a search. remix: makes the picture of a find again; None: finds are shown without it."""
    search = report.search
    assert search is not None
    finds = search.finds[:MAX_FINDS]
    return SearchSection(
        tuple(search_lines(search)),
        _curve(search),
        tuple(_example(search, find, maker, album, None if remix is None else remix(find)) for find in finds),
        len(search.finds),
    )


def _curve(search: SearchResult) -> Chart | None:
    points = [Point(float(number), value) for number, value in enumerate(search.curve, start=1) if value is not None]
    if len(points) < 2:
        return None
    series = Series("best so far", points)
    title = "Gain of the best mixture so far"
    return line_chart(title, [series], "evaluations of an edit", "mean gain, of the scale", marks=False)


def _example(search: SearchResult, find: Find, maker: TrialMaker, album: Album, picture: Image | None) -> Example:
    sample, score = maker.samples[find.sample], find.candidate.score
    caption = f"find {value_text(score)}"
    shots = (
        album.shot("source", sample.source),
        album.shot(f"edit {value_text(find.edit)}", sample.edited),
        Shot(caption, note="is not made again") if picture is None else album.shot(caption, picture),
    )
    parts = tuple(part_rows(find.edit, score))
    text = search.recipe_text(find.candidate.recipe)
    return Example(text, sample.id, sample.instruction, shots, parts, signed(find.gain), shortened(score.reason))
