"""The report: one file that holds all it shows, the same numbers as JSON, and an exit code."""

import io
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from editcritic.benchmarks.sceneedit.critics import experts as scene_experts
from editcritic.benchmarks.sceneedit.experts.noise import Noisy
from editcritic.benchmarks.validity import report
from editcritic.benchmarks.validity.checks import Check
from editcritic.benchmarks.validity.disagreements import PAPER
from editcritic.benchmarks.validity.run import Validity, run, steps_of

from ..conftest import Command

SPECS = (PAPER, "edival-if?protocol=paper&dense=true", "edival-cc?protocol=fixed&similarity=l1", "guard-not-blank")


@pytest.fixture(scope="module")
def found() -> Validity:
    return made()


def made() -> Validity:
    """With a judge that errs, so that there is something to report."""
    experts = scene_experts()
    return run(27, 2, specs=SPECS, experts={**experts, "judge": Noisy(experts["judge"], flips=0.5)})


@pytest.fixture(scope="module")
def page(found: Validity, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "validity.html"
    report.write_html(path, found, "editcritic bench validity --seed 2 '<&>'")
    return path.read_text(encoding="utf-8")


class Tags(HTMLParser):
    """Every start tag, and whether each is closed where it should be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_but_itself(page: str) -> None:
    tags = Tags(page)
    assert not tags.open
    assert "script" not in {tag for tag, _ in tags.found}
    assert not re.search(r"https?:|//[a-z]", re.sub(r'src="data:[^"]*"', "", page))
    sources = [attributes["src"] for tag, attributes in tags.found if tag == "img"]
    assert sources
    assert all((source or "").startswith("data:image/jpeg;base64,") for source in sources)


def test_plots_keep_their_text_and_take_the_colour_of_the_page(page: str, found: Validity) -> None:
    assert page.count("<svg") == page.count("</svg>") == page.count("<figcaption>") - 2 * _cards(page)
    assert ">share of answers spoilt<" in page
    assert "#010203" not in page
    assert "currentColor" in page


def _cards(page: str) -> int:
    return page.count("<article>")


def test_every_disagreement_is_listed_with_its_pictures(page: str, found: Validity) -> None:
    wrong = found.judged[PAPER].disagreements
    assert wrong
    assert _cards(page) == len(wrong)
    for one in wrong:
        assert found.study.cases[one.case].sample.id in page


def test_the_page_says_how_it_was_made(page: str) -> None:
    assert "editcritic bench validity --seed 2 &#39;&lt;&amp;&gt;&#39;" in page
    assert f"editcritic {report.versions()['editcritic']}" in page
    assert "scoring" in page


def test_the_json_has_the_same_numbers(found: Validity) -> None:
    data = json.loads(json.dumps(report.to_json(found, "c"), allow_nan=False))
    assert list(data["metrics"]) == list(SPECS)
    assert data["metrics"][PAPER]["value"] == found.study.main(found.study.tried[0])
    assert data["cases"] == 27
    assert data["besides"] == {"compound": 2, "composition": 2}
    assert sum(data["metrics"][PAPER]["statuses"].values()) == 27 + 4
    assert data["metrics"][PAPER]["system"] == "EdiVal"
    verdicts = data["verdicts"][PAPER]
    assert verdicts["cases"] - verdicts["agree"] == len(verdicts["disagreements"])
    assert {one["cause"] for one in verdicts["disagreements"]} <= {"expert", "rule"}
    assert {(one["kind"], one["level"]) for one in data["metrics"][PAPER]["noise"]} >= {("flips", 0.0), ("bias", 0.4)}
    assert [check["what"] for check in data["checks"]] == [check.what for check in found.checks]


def test_the_terminal_shows_metrics_and_checks(found: Validity) -> None:
    console = Console(width=160, file=io.StringIO(), record=True)
    console.print(report.table(found))
    text = console.export_text()
    for one in found.study.tried:
        assert one.name in text
    for check in found.checks:
        assert check.what.split()[0] in text


def test_a_failed_check_is_an_exit_code(found: Validity) -> None:
    def ending(*checks: Check) -> tuple[int, str]:
        one = Validity(0, found.study, 27, (), {}, checks, None, None, None)
        return one.exit_code, report.headline(one)

    good, bad = Check("good", 1.0, 0.5, False), Check("bad", 0.0, 0.5, False)
    assert ending(good, good) == (0, "All 2 checks passed.")
    assert ending(good, bad) == (1, "1 of 2 checks failed.")
    assert ending() == (0, "No check was made.")


@pytest.mark.slow
def test_two_runs_find_the_same(found: Validity) -> None:
    again = report.to_json(made(), "c")
    first = report.to_json(found, "c")
    assert {**again, "seconds": None} == {**first, "seconds": None}


def test_a_step_is_told_for_all_that_takes_time() -> None:
    steps: list[int] = []
    run(9, 0, specs=["guard-changed"], step=lambda: steps.append(1))
    assert len(steps) == steps_of(9, noise=True)


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_the_report_and_prints_the_numbers(
    editcritic: Command,
    tmp_path: Path,
) -> None:
    out = tmp_path / "v.html"
    given = ("bench", "validity", "--cases", 18, "--no-sweep", "--reward", "guard-changed", "--out", out)
    shown = editcritic(*given)
    assert shown.exit_code == 0, shown.stderr
    assert "guard-changed" in shown.stdout
    assert str(out) in shown.stdout
    assert "guard-changed" in out.read_text(encoding="utf-8")
    data = json.loads(editcritic(*given, "--json").stdout)
    assert (data["exit_code"], data["cases"], data["noise"], data["report"]) == (0, 18, None, str(out))
    assert data["command"] == "editcritic bench validity --cases 18 --seed 0 --reward guard-changed --no-sweep"


def test_missing_libraries_are_told_before_the_work(
    editcritic: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused = editcritic("bench", "validity", "--out", tmp_path / "v.html")
    assert refused.exit_code == 2
    assert "editcritic[bench]" in refused.stderr
    assert not (tmp_path / "v.html").exists()


def test_a_reward_that_cannot_be_compared_is_refused(editcritic: Command, tmp_path: Path) -> None:
    refused = editcritic("bench", "validity", "--reward", "edvial-if", "--out", tmp_path / "v.html")
    assert refused.exit_code == 2
    assert "did you mean edival-if" in refused.stderr
    assert not (tmp_path / "v.html").exists()
