"""Our prompts contain the criteria of the papers: docs/prompts/<package>.md maps each criterion to our sentence.

Tables and prompts agree: no sentence of a table is missing in its prompt, and no sentence of a prompt is without a row.
Slots in braces, list numbers and punctuation need no row.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
HEADER = ["prompt", "paper", "criterion", "our sentence"]


class Row(NamedTuple):
    """One criterion: its prompt, its place in the paper, its description, and our sentence."""

    prompt: str
    paper: str
    criterion: str
    sentence: str


class Problem(NamedTuple):
    """A problem of a prompt: `words` are missing in it, have no row, or (without words) it does not exist."""

    prompt: str
    what: str
    words: str = ""


def rows_of(markdown: str) -> Iterator[Row]:
    """The rows of all tables with our header. Raises ValueError for a row with another number of cells."""
    inside = False
    for line in markdown.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if cells == HEADER:
            inside = True
        elif not cells:
            inside = False
        elif inside and not re.fullmatch(r"[|\s:-]+", line):
            if len(cells) != len(HEADER) or "" in cells:
                raise ValueError(f"a row needs {len(HEADER)} non-empty cells: {line}")
            yield Row(cells[0].strip("`"), *cells[1:])


def collapsed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def words_of(prompt: Path) -> str:
    """The text of a prompt without the lines that say which part is the system's."""
    return re.sub(r"^=== (system|user) ===\n", "", prompt.read_text(encoding="utf-8"), flags=re.MULTILINE)


def problems(rows: Sequence[Row], prompts: Mapping[str, str]) -> list[Problem]:
    """Problems of a table and its prompts (name -> text). Each row accounts for its sentence once."""
    result = [
        Problem(name, "there is no such prompt") for name in sorted({row.prompt for row in rows} - prompts.keys())
    ]
    for name, text in prompts.items():
        left = collapsed(text)
        for row in sorted((row for row in rows if row.prompt == name), key=lambda row: -len(row.sentence)):
            before, here, after = left.partition(collapsed(row.sentence))
            if here:
                left = f"{before}\0{after}"
            else:
                result.append(Problem(name, "lacks what a row says", row.sentence))
        rest = re.sub(r"(?<!\{)\{\w+\}(?!\})", "\0", left).split("\0")
        spoken = [words.strip() for words in rest if re.search(r"[^\W\d_]|\d(?![\d.)])", words)]
        result += [Problem(name, "says what no row has", words) for words in spoken]
    return result


def test_tables_and_prompts_say_the_same():
    """Each package with prompts has a table, and each table a package."""
    tables = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "prompts").glob("*.md")}
    folders = {
        path.parent.name: path
        for part in ("reward", "benchmarks")
        for path in (ROOT / part).glob("**/prompts")
        if any(path.glob("*.txt"))
    }
    assert tables.keys() == folders.keys()
    for package, folder in folders.items():
        prompts = {path.stem: words_of(path) for path in sorted(folder.glob("*.txt"))}
        rows = list(rows_of(tables[package]))
        assert len(rows) >= len(prompts), package
        assert problems(rows, prompts) == [], package
