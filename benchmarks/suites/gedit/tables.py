"""GEdit-Bench's tables: means by type over its edits, and the plain mean of the types, of each language and set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....reward.metrics.viescore.metrics import MAX_GRADE, overall
from ..bootstrap import Statistic, plain_mean
from ..results import ResultRow, Results
from ..tables import Table
from .reader import LANGUAGES, TYPES

AVERAGE = "Average"
COLUMNS = ("SC", "PQ", "O")
_UNIT = "grade 0-10"
_GRADES: Mapping[str, tuple[str, str]] = {
    "Success": ("sc", "success"),
    "No over-editing": ("sc", "no_overediting"),
    "Naturalness": ("pq", "naturalness"),
    "No artifacts": ("pq", "no_artifacts"),
}


def gedit_tables(results: Results, notes: Sequence[str] = ()) -> list[Table]:
    """The full set and the intersection subset of the languages, the single grades, and each by type (appendix)."""
    languages = [language for language in LANGUAGES if results.filter(language=language)]
    if not languages:
        return []
    full = {language: results.filter(language=language) for language in languages}
    subset = {language: results.filter(language=language, intersection=1) for language in languages}
    all_notes = ["O: root of SC x PQ of each edit; the average is the plain mean over the types.", *notes]
    above = sum(any((row.value(name) or 0) > MAX_GRADE for name in ("sc", "pq")) for row in results.rows)
    if above:
        edits = "edit has" if above == 1 else "edits have"
        all_notes.append(f"{above} {edits} a grade above {MAX_GRADE}, where the scale ends: as released, it counts.")
    all_notes += [note for language in languages if (note := _absent_types(language, full[language]))]
    tables = [_languages("leaderboard", "GEdit-Bench, full set", results, full, all_notes)]
    subset = {language: rows for language, rows in subset.items() if rows}
    if subset:
        tables.append(_languages("intersection", "GEdit-Bench, intersection subset", results, subset, all_notes[:1]))
    tables.append(_grades(results, full))
    for language, rows in full.items():
        tables.append(_types(f"types-{language}", f"GEdit-Bench by type, {LANGUAGES[language]}", results, rows))
    for language, rows in subset.items():
        title = f"GEdit-Bench by type, {LANGUAGES[language]}, intersection subset"
        tables.append(_types(f"types-{language}-intersection", title, results, rows))
    return tables


def value_of(column: str) -> Callable[[ResultRow], float | None]:
    """SC, PQ or O of a row; O needs both of the others."""

    def value(row: ResultRow) -> float | None:
        sc, pq = row.value("sc"), row.value("pq")
        if column != "O":
            return sc if column == "SC" else pq
        return None if sc is None or pq is None else overall(sc, pq)

    return value


def _languages(
    name: str, title: str, results: Results, rows: Mapping[str, Sequence[ResultRow]], notes: Sequence[str]
) -> Table:
    """One row, with the averages of each language."""
    figures = {
        f"{language.upper()} {column}": _average(results, language_rows, value_of(column))
        for language, language_rows in rows.items()
        for column in COLUMNS
    }
    headline = f"{next(iter(rows)).upper()} O"
    return Table(name, title, list(figures), {"all": figures}, unit=_UNIT, notes=notes, ranking_column=headline)


def _grades(results: Results, rows: Mapping[str, Sequence[ResultRow]]) -> Table:
    """The two grades of each question, of which the lower one counts."""
    figures = {
        LANGUAGES[language]: {
            column: _average(results, language_rows, lambda row, path=path: row.value(*path))  # type: ignore[misc]
            for column, path in _GRADES.items()
        }
        for language, language_rows in rows.items()
    }
    notes = ["SC is the lower of the first two grades of an edit, PQ that of the others."]
    return Table("grades", "GEdit-Bench, grades of the judge", list(_GRADES), figures, unit=_UNIT, notes=notes)


def _types(name: str, title: str, results: Results, rows: Sequence[ResultRow]) -> Table:
    figures: dict[str, dict[str, Statistic]] = {
        kind: {column: results.mean(kind_rows, value_of(column)) for column in COLUMNS}
        for kind, kind_rows in _by_type(rows).items()
    }
    figures[AVERAGE] = {column: _average(results, rows, value_of(column)) for column in COLUMNS}
    return Table(name, title, COLUMNS, figures, unit=_UNIT)


def _average(results: Results, rows: Sequence[ResultRow], value: Callable[[ResultRow], float | None]) -> Statistic:
    return Statistic.combine(plain_mean, *(results.mean(kind_rows, value) for kind_rows in _by_type(rows).values()))


def _by_type(rows: Sequence[ResultRow]) -> dict[str, list[ResultRow]]:
    """The rows of each type that has any, in the released order."""
    by_type = {kind: [row for row in rows if row.labels.get("type") == kind] for kind in TYPES}
    return {kind: kind_rows for kind, kind_rows in by_type.items() if kind_rows}


def _absent_types(language: str, rows: Sequence[ResultRow]) -> str:
    present = _by_type(rows)
    absent = [kind for kind in TYPES if kind not in present]
    if not absent:
        return ""
    return f"{LANGUAGES[language]}: the data have no edits of {', '.join(absent)}; the average is over {len(present)}."
