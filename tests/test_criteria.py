"""Our prompts contain the criteria of the papers: docs/prompts/<package>.md maps each criterion to our sentence.

Tables and prompts agree: no sentence of a table is missing in its prompt, and no sentence of a prompt is without a row.
Slots in braces, list numbers and punctuation need no row.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

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


FOLDERS = {
    path.parent.name: path
    for part in ("reward", "benchmarks")
    for path in sorted((ROOT / part).glob("**/prompts"))
    if any(path.glob("*.txt"))
}


def texts(package: str) -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDERS[package].glob("*.txt"))}


PACKAGES = sorted(FOLDERS)
TABLES = {path.stem: path for path in sorted((ROOT / "docs" / "prompts").glob("*.md"))}
ROWS = {package: list(rows_of(path.read_text(encoding="utf-8"))) for package, path in TABLES.items()}


def test_each_package_with_prompts_has_a_table_and_each_table_a_package():
    assert sorted(TABLES) == PACKAGES


@pytest.mark.parametrize("package", TABLES)
def test_a_table_and_its_prompts_say_the_same(package):
    assert problems(ROWS[package], texts(package)) == []


@pytest.mark.parametrize("package", TABLES)
def test_a_criterion_taken_out_of_a_prompt_is_missed(package):
    prompts = texts(package)
    for row in ROWS[package]:
        whole, sentence = collapsed(prompts[row.prompt]), collapsed(row.sentence)
        for place in re.finditer(re.escape(sentence), whole):
            changed = whole[: place.start()] + "\0" + whole[place.end() :]
            if problems(ROWS[package], {**prompts, row.prompt: changed}) == [
                Problem(row.prompt, "lacks what a row says", row.sentence)
            ]:
                break
        else:
            pytest.fail(f"the removal of {row} is not detected")


TABLE = [
    Row("a", "1", "one", "See a cup."),
    Row("a", "2", "two", "See {it} in {{x}}."),
    Row("b", "-", "frame", "Say 7."),
]
GOOD = {"a": "See a\n cup. See {it} in {{x}}. {more}\n1. ", "b": "Say 7."}


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        (GOOD, []),
        ({**GOOD, "a": "See {it} in {{x}}."}, [Problem("a", "lacks what a row says", "See a cup.")]),
        ({**GOOD, "b": "Say 7. And 8"}, [Problem("b", "says what no row has", "And 8")]),
        ({**GOOD, "b": "Say 7. Say 7."}, [Problem("b", "says what no row has", "Say 7.")]),
        ({**GOOD, "c": "New"}, [Problem("c", "says what no row has", "New")]),
        ({"a": GOOD["a"]}, [Problem("b", "there is no such prompt")]),
    ],
)
def test_what_is_wrong_is_found(prompts, expected):
    assert problems(TABLE, prompts) == expected


def test_only_tables_with_our_header_are_read_and_no_row_is_passed_over():
    text = "| x | y |\n|---|---|\n| 1 | 2 |\n\n| prompt | paper | criterion | our sentence |\n|---|---|---|---|\n"
    assert list(rows_of(text + "| `a` | 1 | one | See a cup. |\n")) == TABLE[:1]
    with pytest.raises(ValueError, match="4 non-empty cells"):
        list(rows_of(text + "| `a` | 1 | See a cup. |\n"))
