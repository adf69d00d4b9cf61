"""Figures of an audit: what is read is what was written, and what a stranger wrote is checked."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.audit.figures import read_figures, write_figures
from editcritic.benchmarks.audit.page import write_figures_page
from editcritic.benchmarks.audit.report_text import cost_rows, finding_cells, sensitivity_rows, verdict, verdict_of
from editcritic.benchmarks.common.errors import InputError
from editcritic.reward import EditSample
from editcritic.reward.audit import AuditReport, audit, select_families

from ...reward.audit.audit_cases import photographs

HOSTILE = "</title><img src=x onerror=alert(1)><script>alert(1)</script>\"'&"


def contrast(samples: Sequence[EditSample]) -> list[float]:
    return [float(sample.edited.pixels.std()) / 128 for sample in samples]


@pytest.fixture(scope="module")
def report() -> AuditReport:
    families = select_families(("blurred", "over-saturated", "reencoded", "sample-id", "broken-file"))
    return audit(contrast, photographs()[:2], families=families)


def written(report: AuditReport, folder: Path, **changed: Any) -> Path:
    path = folder / "audit.json"
    write_figures(path, report, "editcritic audit demo")
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changed}), encoding="utf-8")
    return path


def test_what_is_read_is_what_was_written(report: AuditReport, tmp_path: Path) -> None:
    stored = read_figures(written(report, tmp_path))
    assert verdict_of(stored, has_scores=stored.has_scores, num_sources=stored.num_sources) == verdict(report)
    assert list(map(finding_cells, stored.findings)) == list(map(finding_cells, report.findings))
    assert sensitivity_rows(stored) == sensitivity_rows(report)
    assert list(cost_rows(stored)) == list(cost_rows(report))
    facts = dict(stored.facts)
    assert (facts["edits"], facts["variants"]) == ("2 of 1 sources", f"{len(report.trials)} of 5 families, seed 0")
    assert stored.command == "editcritic audit demo"


def test_a_page_of_figures_has_the_table_and_no_pictures(report: AuditReport, tmp_path: Path) -> None:
    stored = read_figures(written(report, tmp_path, reward=HOSTILE, identity=HOSTILE, command=HOSTILE))
    page = tmp_path / "audit.html"
    write_figures_page(page, stored)
    text = page.read_text(encoding="utf-8")
    assert "over-saturated" in text
    assert [
        word for word in ("<img", "<script", "<image", 'id="worst"', 'id="gallery"', "#worst") if word in text
    ] == []


def test_the_largest_gains_can_be_drawn(report: AuditReport, tmp_path: Path) -> None:
    families = report.to_json()["families"]
    for family, sign in zip(families, (1, -1) * len(families), strict=False):
        family["gain"] = {"mean": sign * 1e100, "low": -1e100, "high": 1e100}
    write_figures_page(tmp_path / "audit.html", read_figures(written(report, tmp_path, families=families)))
    assert (tmp_path / "audit.html").stat().st_size < 2**20


def test_an_audit_without_scores_has_a_page(tmp_path: Path) -> None:
    families = select_families(("blurred", "broken-file"))
    nothing = audit(lambda samples: [None] * len(samples), photographs()[:1], families=families)
    stored = read_figures(written(nothing, tmp_path))
    write_figures_page(tmp_path / "audit.html", stored)
    assert "no edit has a score" in (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert dict(stored.facts)["edits without a score"] == "1, not compared"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"schema": 2}, "schema: Input should be less than or equal to 1"),
        ({"families": []}, "families: List should have at least 1 item"),
        ({"overall": {"violations": 3, "trials": 2, "low": 0.0, "high": 1.0}}, "3 violations of 2 trials"),
        ({"overall": {"violations": 0, "trials": 2, "low": 0.0, "high": 7.0}}, "overall.high"),
        ({"scale": 1e200}, "scale"),
        ({"scale": "1"}, "scale: Input should be a valid number"),
        ({"reward": "x" * 1000}, "reward: String should have at most 200 characters"),
        ({"trials": 3}, "trials: Input should be a valid list"),
    ],
)
def test_other_figures_are_named(report: AuditReport, tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=r"audit\.json has no figures of an audit") as caught:
        read_figures(written(report, tmp_path, **changed))
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": NaN}', "[" * 100_000])
def test_what_is_no_audit_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"other\.json has no figures of an audit"):
        read_figures(path)
