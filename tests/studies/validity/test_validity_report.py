"""The report: one file that holds all it shows, the same numbers as JSON, and an exit code."""

import io
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from editcritic.benchmarks.sceneedit.experts.expert_noise import NoisyExpert
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from studies.validity import validity_report
from studies.validity.__main__ import main
from studies.validity.disagreements import PAPER
from studies.validity.release_checks import ReleaseCheck
from studies.validity.validity_run import ValidityResult, progress_total, run

SPECS = (PAPER, "edival-if?protocol=paper&dense=true", "edival-cc?protocol=fixed&similarity=l1", "guard-not-blank")


@pytest.fixture(scope="module")
def result() -> ValidityResult:
    return made()


def made() -> ValidityResult:
    """With a judge that errs, so that there is something to report."""
    experts = scene_experts()
    return run(18, 2, specs=SPECS, experts={**experts, "judge": NoisyExpert(experts["judge"], flips=0.5)})


@pytest.fixture(scope="module")
def page(result: ValidityResult, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "validity.html"
    validity_report.write_html(path, result, "python -m studies.validity --seed 2 '<&>'")
    return path.read_text(encoding="utf-8")


class Tags(HTMLParser):
    """Every start tag, and whether each is closed where it should be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.start_tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.start_tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.start_tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_but_itself(page: str) -> None:
    tags = Tags(page)
    assert not tags.open
    assert "script" not in {tag for tag, _ in tags.start_tags}
    assert not re.search(r"https?:|//[a-z]", re.sub(r'src="data:[^"]*"', "", page))
    sources = [attributes["src"] for tag, attributes in tags.start_tags if tag == "img"]
    assert sources
    assert all((source or "").startswith("data:image/jpeg;base64,") for source in sources)


def test_plots_keep_their_text_and_take_the_colour_of_the_page(page: str, result: ValidityResult) -> None:
    assert page.count("<svg") == page.count("</svg>") == page.count("<figcaption>") - 2 * _cards(page)
    assert ">noise level<" in page
    assert "#010203" not in page
    assert "currentColor" in page


def _cards(page: str) -> int:
    return page.count("<article>")


def test_every_disagreement_is_listed_with_its_pictures(page: str, result: ValidityResult) -> None:
    wrong = result.verdicts[PAPER].disagreements
    assert wrong
    assert _cards(page) == len(wrong)
    for one in wrong:
        assert result.study.cases[one.case_index].sample.id in page


def test_the_page_says_how_it_was_made(page: str) -> None:
    assert "python -m studies.validity --seed 2 &#39;&lt;&amp;&gt;&#39;" in page
    assert f"editcritic {validity_report.versions()['editcritic']}" in page
    assert "scoring" in page


def test_the_json_has_the_same_numbers(result: ValidityResult) -> None:
    data = json.loads(json.dumps(validity_report.to_json(result, "c"), allow_nan=False))
    assert list(data["metrics"]) == list(SPECS)
    assert data["metrics"][PAPER]["value"] == result.study.main_statistic(result.study.metrics[0])
    assert data["cases"] == 18
    assert data["extra_cases"] == {"compound": 1, "composition": 1}
    assert sum(data["metrics"][PAPER]["statuses"].values()) == 18 + 2
    assert data["metrics"][PAPER]["system"] == "EdiVal"
    verdicts = data["verdicts"][PAPER]
    assert verdicts["cases"] - verdicts["agreements"] == len(verdicts["disagreements"])
    assert {one["cause"] for one in verdicts["disagreements"]} <= {"expert", "rule"}
    assert {(one["kind"], one["level"]) for one in data["metrics"][PAPER]["noise"]} >= {("flips", 0.0), ("bias", 0.4)}
    assert [check["name"] for check in data["checks"]] == [check.name for check in result.checks]


def test_the_terminal_shows_metrics_and_checks(result: ValidityResult) -> None:
    console = Console(width=160, file=io.StringIO(), record=True)
    console.print(validity_report.terminal_tables(result))
    text = console.export_text()
    for one in result.study.metrics:
        assert one.name in text
    for check in result.checks:
        assert check.name.split()[0] in text


def test_a_failed_check_is_an_exit_code(result: ValidityResult) -> None:
    def ending(*checks: ReleaseCheck) -> tuple[int, str]:
        one = ValidityResult(0, result.study, 27, (), {}, checks, None, (), None)
        return one.exit_code, validity_report.checks_summary(one)

    good, bad = ReleaseCheck("good", 1.0, 0.5, False), ReleaseCheck("bad", 0.0, 0.5, False)
    assert ending(good, good) == (0, "All 2 checks passed.")
    assert ending(good, bad) == (1, "1 of 2 checks failed.")
    assert ending() == (0, "No check was run.")


@pytest.mark.slow
def test_two_runs_find_the_same(result: ValidityResult) -> None:
    again = validity_report.to_json(made(), "c")
    first = validity_report.to_json(result, "c")
    assert {**again, "seconds": None} == {**first, "seconds": None}


def test_a_step_is_told_for_all_that_takes_time() -> None:
    steps: list[int] = []
    run(9, 0, specs=["guard-not-a-copy"], step=lambda: steps.append(1))
    assert len(steps) == progress_total(9, noise=True)


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_the_report_and_prints_the_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "v.html"
    arguments = ["--num-cases", "9", "--no-noise-sweep", "--reward", "guard-not-a-copy", "--out", str(out)]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "guard-not-a-copy" in shown
    assert str(out) in shown
    assert "guard-not-a-copy" in out.read_text(encoding="utf-8")
    assert main([*arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["exit_code"], data["cases"], data["noise"], data["report"]) == (0, 9, None, str(out))
    options = "--num-cases 9 --seed 0 --reward guard-not-a-copy --no-noise-sweep"
    assert data["command"] == f"python -m studies.validity {options}"


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_missing_libraries_are_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "editcritic[bench]" in refused(["--out", str(tmp_path / "v.html")], capsys)
    assert not (tmp_path / "v.html").exists()


def test_a_reward_that_cannot_be_compared_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = refused(["--reward", "edvial-if", "--out", str(tmp_path / "v.html")], capsys)
    assert "did you mean edival-if" in shown
    assert not (tmp_path / "v.html").exists()
