"""Tables told to a person: each statistic with what it is, its n, and its interval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table as Drawn
from rich.text import Text

from ..suites.figures import DRAWS, draws
from ..suites.tables import Cell, Computed, Table
from ..terminal import document, say, show


def computed(tables: Iterable[Table], count: int = DRAWS, seed: int = 0) -> list[Computed]:
    """With intervals; of a table whose figures rest on one case, without."""
    found = []
    for table in tables:
        cases = next(figure.cases for row in table.rows.values() for figure in row.values())
        found.append(Computed.of(table, draws(cases, count, seed=seed) if cases > 1 else None))
    return found


def drawn(one: Computed) -> Drawn:
    """A line a number."""
    table = Drawn(title=Text(one.table.title, style="bold"), title_justify="left")
    for name in ("of", "statistic", "value", "95 % interval", "n", "without"):
        table.add_column(name, justify="left" if name in ("of", "statistic") else "right")
    for row, cells in one.cells.items():
        for number, (column, cell) in enumerate(cells.items()):
            words = ["" if number else row, column, *_numbers(cell, one.table.digits)]
            table.add_row(*(Text(word) for word in words))
        table.add_section()
    return table


def words_below(all_computed: Sequence[Computed], meaning: Mapping[str, str]) -> Iterator[str]:
    """What the statistics are, each once, and what intervals are."""
    for name in dict.fromkeys(column for one in all_computed for column in one.table.columns):
        if name in meaning:
            yield f"{name}: {meaning[name]}"
    yield "95 % intervals: percentiles of the bootstrap, cases (pictures that items belong to) drawn with replacement"


def write(all_computed: Sequence[Computed], folder: Path) -> list[Path]:
    """Each table as Markdown, CSV and LaTeX. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for one in all_computed:
        for suffix, text in ((".md", one.markdown()), (".csv", one.csv()), (".tex", one.latex())):
            path = folder / f"{_file(one.table.name)}{suffix}"
            path.write_text(text, encoding="utf-8")
            found.append(path)
    return found


def tell(
    found: Sequence[Computed], meaning: Mapping[str, str], out: Path | None, as_json: bool, **more: object
) -> None:
    """On standard output, as a document where that is wanted; and into a folder. Raises OSError."""
    words = list(words_below(found, meaning))
    if out is not None:
        write(found, out)
    if as_json:
        document({"schema": 1, **more, "tables": [one.to_json() for one in found], "meaning": words})
        return
    for one in found:
        show(drawn(one))
        for note in one.table.notes:
            say(f"  {note}", stderr=False)
    for line in words:
        say(line, stderr=False)
    if out is not None:
        say(f"written to {out}", stderr=False)


def _numbers(cell: Cell, digits: int) -> list[str]:
    if cell.value is None:
        return ["none", "", str(cell.count), str(cell.without)]
    interval = "" if cell.low is None or cell.high is None else f"{cell.low:.{digits}f} to {cell.high:.{digits}f}"
    return [f"{cell.value:.{digits}f}", interval, str(cell.count), str(cell.without)]


def _file(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name).strip(".") or "table"
