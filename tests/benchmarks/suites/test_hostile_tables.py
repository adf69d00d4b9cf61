"""Tables with names that a stranger chose: a cell stays a cell, in Markdown, CSV, LaTeX and on the terminal."""

import csv
import io
import re

import numpy as np
import pytest

from editcritic.benchmarks.suites.bootstrap import Statistic
from editcritic.benchmarks.suites.leaderboards import format_tables
from editcritic.benchmarks.suites.tables import ComputedTable, Table

NAMES = (
    *("=1+1", "+1+1", "-1+2", "@SUM(A1)", "a | b", "a\nb", "a\r\nb", "a \\", "<script>x</script>", "<img src=x>"),
    *("[x](javascript:x)", "![x](http://127.0.0.1/x)", "[x][y]", "[y]: http://127.0.0.1", "\x1b[2J", "\\input{x}"),
    *("a_b^c~d%e&f#g$h{i}", "%\n\\end{tabular}", '"', "'=1", '=HYPERLINK("http://127.0.0.1")', "\u202eabc"),
)


@pytest.fixture
def table():
    value = Statistic.mean(np.array([-0.5]), np.array([0]), 1)
    rows = {name: dict.fromkeys(NAMES, value) for name in NAMES}
    return ComputedTable.compute(Table("=t", "a\n<b>", NAMES, rows, notes=["<i>\n# x", "=1"]), None)


def test_in_csv_no_cell_is_a_formula_and_every_name_is_read_again(table):
    for text, names in ((table.csv(), 2), (format_tables([table], "csv"), 3)):
        rows = list(csv.reader(io.StringIO(text, newline="")))[1:]
        assert len(rows) == len(NAMES) ** 2
        assert not any(re.match(r"[=+@\t\r\n]|-\D", cell) for row in rows for cell in row)
        assert {float(row[names]) for row in rows} == {-0.5}
        read = [re.sub(r"^'('*[=+\-@\t\r\n])", r"\1", row[names - 1]) for row in rows[: len(NAMES)]]
        assert tuple(read) == NAMES


def test_in_markdown_there_is_neither_html_nor_a_link_nor_another_cell(table):
    text = table.markdown()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == len(NAMES) + 2
    cells = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in lines}
    assert cells == {len(NAMES) + 2}
    assert not re.search(r"<\w|</|(?<!\\)\]\(|(?<!\\)\]\[|(?<!\\)\]:", text)
    assert text.isprintable() or {letter for letter in text if not letter.isprintable()} == {"\n"}
    assert len(text.splitlines()) == text.count("\n")


def test_in_latex_there_are_no_commands(table):
    text = format_tables([table], "latex")
    known = {"begin", "end", "toprule", "midrule", "bottomrule", "textbackslash", "textasciitilde", "textasciicircum"}
    assert set(re.findall(r"\\([a-zA-Z]+)", text.partition("\n")[2])) == known
    assert text.count("\\end{tabular}") == 1
    assert len(text.splitlines()) == len(NAMES) + 7 + len(table.table.notes)
    rows = text.split("\\midrule")[1].split("\\bottomrule")[0]
    unescaped = [letter for letter in re.findall(r"(?<!\\)[&%$#_]", rows) if letter != "&"]
    assert unescaped == []
