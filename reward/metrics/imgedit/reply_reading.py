"""Reading a judge's reply to ImgEdit-Bench's questions, strictly and as the released code does.

A reply has a line of reasons and then one line for each grade, `Criterion: n`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from ...queries.parsing import shorten

LOWEST, HIGHEST = 1, 5
"""Of every grade."""

SCORE, NON_EDITED = "Score", "Non-edited areas"
"""The lines of a reply on a hard instruction."""

_NAME_MARKS = " \t*_`#>-•"
_VALUE_MARKS = " \t*_`."
_GRADE = re.compile(rf"([{LOWEST}-{HIGHEST}])(?:\s*/\s*{HIGHEST})?")
_NUMBER = re.compile(r"[-+]?[0-9]+(?:[.,][0-9]+)?(?:\s*/\s*[0-9]+)?")
_MAX_DIGITS = 9


def read_grades(text: str, criteria: Sequence[str]) -> tuple[int, ...]:
    """The grade of each criterion, from 1 to 5: an integer, alone or out of 5, on a line that begins with its name.

    Case, `&` for `and`, and marks of emphasis do not matter. Raises ValueError if a criterion has no such line or two
    of them, and for any other line with a number behind a colon: which grade it is would be a guess.
    """
    known = {_plain(criterion): criterion for criterion in criteria}
    grades: dict[str, int] = {}
    for name, value, line in _labelled_lines(text):
        if name in known:
            grade = _GRADE.fullmatch(value)
            if grade is None:
                raise ValueError(
                    f"expected {known[name]!r} as an integer from {LOWEST} to {HIGHEST}, got {shorten(line)}"
                )
            if name in grades:
                raise ValueError(f"expected one line {known[name]!r}, got several")
            grades[name] = int(grade[1])
        elif _NUMBER.fullmatch(value):
            raise ValueError(f"expected grades of {', '.join(criteria)} only, got {shorten(line)}")
    if missing := [criterion for name, criterion in known.items() if name not in grades]:
        raise ValueError(f"expected a line for each of {', '.join(criteria)}, {', '.join(missing)} missing")
    return tuple(grades[name] for name in known)


def read_damage(text: str) -> bool:
    """Whether the judge found that areas changed which were not to be edited. Raises ValueError unless one line says
    `Non-edited areas: changed` or `unchanged`.
    """
    found = [value.casefold() for name, value, _ in _labelled_lines(text) if name == _plain(NON_EDITED)]
    if len(found) != 1 or found[0] not in ("changed", "unchanged"):
        got = shorten(", ".join(found)) if found else "none"
        raise ValueError(f"expected one line '{NON_EDITED}: changed' or '{NON_EDITED}: unchanged', got {got}")
    return found[0] == "changed"


def _labelled_lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, value and text of each line with a colon."""
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield _plain(name.strip(_NAME_MARKS)), value.strip(_VALUE_MARKS), line


def _plain(name: str) -> str:
    return " ".join(name.casefold().replace("&", " and ").split())


@dataclass(frozen=True, slots=True)
class ReleasedGrade:
    """A sample's grade as released: the mean of `numbers`, rounded to two decimals. numbers: in the order of lines."""

    numbers: tuple[int, ...]

    @property
    def value(self) -> float:
        return round(fmean(self.numbers), 2)

    @property
    def out_of_range(self) -> int:
        """How many numbers are no grade."""
        return sum(not LOWEST <= number <= HIGHEST for number in self.numbers)


def released_grade(text: str) -> ReleasedGrade:
    """A reply as the released code reads it: every line that is anything, a colon, a blank and digits alone.

    So `4/5` and `4.5` are passed over, a missing criterion is left out of the mean, and any number counts, whatever
    its name and size. Raises ValueError for a reply without such a line, which the released code leaves out of all
    means, and for digits that are no number of up to nine digits, on which it stops or exceeds all scales.
    """
    numbers = []
    for line in text.splitlines():
        fields = line.strip().split(": ")
        if len(fields) != 2 or not fields[1].isdigit():
            continue
        if len(fields[1]) > _MAX_DIGITS or not fields[1].isdecimal():
            raise ValueError(f"expected a grade, got {shorten(line)}")
        numbers.append(int(fields[1]))
    if not numbers:
        raise ValueError(f"expected lines 'Criterion: n', got {shorten(text)}")
    return ReleasedGrade(tuple(numbers))
