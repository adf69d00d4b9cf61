"""CSV: no cell is a formula, numbers stay numbers, and what was written is read."""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.common.csv_text import cell, csv_text, plain

FORMULAS = ("=1+1", "=cmd|'/c calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t1", "\r1", "-", "'=1", "-0.5x", "-inf")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        *((text, f"'{text}") for text in FORMULAS),
        ("a;=1+1", "a;'=1+1"),
        ("a\t@x;-x", "a\t'@x;'-x"),
        ("a\n=1", "a\n'=1"),
        (";'=1", ";''=1"),
        ("=1;=1", "'=1;'=1"),
        ("\t=1", "'\t'=1"),
    ],
)
def test_no_cell_is_a_formula_where_lists_are_separated_by_semicolons_or_tabs(text, written):
    assert cell(text) == written
    assert plain(written) == text


@pytest.mark.parametrize("value", [-0.5, -3, None, "-0.5", "+2", "-1e-9", "", "a", "'a", "a=b", "'", "0-1"])
def test_numbers_and_words_stay(value):
    assert cell(value) == value


@given(st.lists(st.lists(st.text(alphabet="'=+-@;\t\r\n,\"a0.5", max_size=5), min_size=2, max_size=3), max_size=4))
def test_what_is_written_is_read(rows):
    written = list(csv.reader(io.StringIO(csv_text(rows), newline="")))
    assert [[plain(item) for item in row] for row in written] == rows
    assert not any(re.search(r"(\A|[;\t\r\n])[=@]|\A[\t\r]", item) for row in written for item in row)
