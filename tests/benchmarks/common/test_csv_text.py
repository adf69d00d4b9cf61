"""CSV: no cell is a formula, numbers stay numbers, and what was written is read."""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.common.csv_text import cell, csv_text


def text_of(written):
    """As the module's docstring says that a reader gets a text back."""
    return written[1:] if re.match(r"'+[=+\-@\t\r\n]", written) else written


@pytest.mark.parametrize(
    "text", ["=1+1", "=cmd|'/c calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "-", "'=1", "-0.5x", "-inf"]
)
def test_a_formula_gets_an_apostrophe(text):
    assert cell(text) == f"'{text}"
    assert text_of(f"'{text}") == text


@pytest.mark.parametrize("value", [-0.5, -3, None, "-0.5", "+2", "-1e-9", "", "a", "'a", "a=b", "'", "0-1"])
def test_numbers_and_words_stay(value):
    assert cell(value) == value


@given(st.lists(st.lists(st.text(alphabet="'=+-@\t\r\n,\"a0.5", max_size=5), min_size=2, max_size=3), max_size=4))
def test_what_is_written_is_read(rows):
    written = list(csv.reader(io.StringIO(csv_text(rows), newline="")))
    assert [[text_of(item) for item in row] for row in written] == rows
    assert not any(item[:1] in ("=", "@", "\t", "\r") for row in written for item in row)
