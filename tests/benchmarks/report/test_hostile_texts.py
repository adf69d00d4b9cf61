"""Every page that is written, with an attack in each text that a stranger can choose: no element and no attribute of
theirs is in it, no address to run or to fetch, and no word of theirs in what a browser takes as script or style."""

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest

import editcritic.reward
from editcritic.benchmarks.human_eval.annotation_schedule import QuestionType
from editcritic.benchmarks.human_eval.shown_questions import Feedback, ShownPicture, ShownQuestion
from editcritic.benchmarks.report import ranking, ranking_sheet
from editcritic.benchmarks.report.page import page_templates, write_page
from editcritic.benchmarks.report.report_data import ReportData
from editcritic.benchmarks.report.results_loading import LoadedResults
from editcritic.benchmarks.report.suites_page import Chapter, NotShown, SuiteReport, write_suites_page
from editcritic.benchmarks.suites.leaderboards import EditorComparison
from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.benchmarks.suites.rows import DataProblem
from editcritic.benchmarks.suites.suite import SuiteInfo
from editcritic.benchmarks.suites.tables import Table
from editcritic.benchmarks.web_app.question_view import PictureStore, feedback_html, question_html
from editcritic.benchmarks.web_app.source_view import plan_html
from editcritic.reward import Box, Card, EditSample, Evidence, Image, Score
from editcritic.verifiers import Candidate, Selection
from editcritic.verifiers.selection import Cost, NoiseSpec, Preview, Selections, TournamentMatch

from .synthetic_results import Drawn, outputs, scored, striped_image

MARK = "owned"
ATTACKS = (
    f"<script>{MARK}()</script>",
    f"</script><{MARK}-x onload={MARK}()>",
    f"</title></style></textarea></svg><{MARK}-x>",
    f"--><![CDATA[<{MARK}-x>]]>",
    f'" onmouseover="{MARK}()" {MARK}="',
    f"' onmouseover='{MARK}()' {MARK}='",
    f"x onfocus={MARK}() {MARK}=1",
    f"javascript:{MARK}()",
    f"}} body {{ background: url(//{MARK}) }} </style>",
    f"\\u003c/script>{MARK}\u2028{MARK}",
    f"{{{{ {MARK} }}}}{{% {MARK} %}}",
    f"<!--<script>{MARK}",
)
_SCRIPTS = {"", "text/javascript", "module"}


class Page(HTMLParser):
    """What a browser would make of a page, and what of it is an attack."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.seen = 0
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if MARK in tag:
            self.problems.append(f"the element {tag}")
        if tag in ("iframe", "object", "embed", "base") or (tag == "meta" and values.get("http-equiv") == "refresh"):
            self.problems.append(f"the element {tag}")
        for name, value in values.items():
            if name.startswith("on") or MARK in name:
                self.problems.append(f"the attribute {name} of {tag}")
            if name in ("href", "src", "action", "xlink:href", "srcset", "data") and not re.match(r"#|data:", value):
                self.problems.append(f"{name}={value} of {tag}")
            if name == "style" and MARK in value:
                self.problems.append(f"the style {value}")
            self.seen += value.count(MARK)
        if tag in ("script", "style"):
            self._inside = "data" if tag == "script" and values.get("type", "") not in _SCRIPTS else tag

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = ""

    def handle_data(self, data: str) -> None:
        self.seen += data.count(MARK)
        if MARK in data and self._inside in ("script", "style"):
            self.problems.append(f"words in a {self._inside}")
        if "<" in data and self._inside == "data":
            self.problems.append("a < in the data of a script")

    def handle_comment(self, data: str) -> None:
        if MARK in data:
            self.problems.append("a comment")

    def unknown_decl(self, data: str) -> None:
        self.problems.append(f"a declaration {data}")


def require_harmless(text: str, words: int) -> None:
    """No attack of a page, which shows so many texts that are one."""
    page = Page(text)
    assert page.problems == []
    assert page.seen >= words


Hostile = Callable[[str], str]


@pytest.fixture
def hostile() -> Hostile:
    """Makes a text an attack; each call the next one."""
    attacks = itertools.cycle(ATTACKS)
    return lambda text: f"{text}{next(attacks)}"


def everywhere(value: Any, hostile: Hostile, kept: Sequence[str]) -> Any:
    """JSON with an attack in each name and text, but under the names `kept`."""
    if isinstance(value, str):
        return hostile(value)
    if isinstance(value, list):
        return [everywhere(item, hostile, kept) for item in value]
    if isinstance(value, Mapping):
        return {
            (name if name in _FIELDS else hostile(name)): item if name in kept else everywhere(item, hostile, kept)
            for name, item in value.items()
        }
    return value


_FIELDS = {
    *("id", "case", "labels", "scores", "schema", "instruction", "edited_digest", "missing_reason", "value", "status"),
    *("reason", "parts", "credits", "evidence", "metric", "cause", "what", "image", "boxes", "text", "numbers"),
    *("turn", "type", "level", "category", "shape", "following", "consistency", "quality"),
}
_KEPT = ("schema", "status", "cause", "edited_digest", "image", "turn", "id", "case")


def hostile_score(hostile: Hostile) -> Score:
    boxes = (Box(0.5, 0.5, 0.2, 0.2, 0.9, hostile("cup")), Box(0.2, 0.2, 0.2, 0.2, 1.0, hostile("mug")))
    evidence = [Evidence(hostile("what"), hostile("image"), boxes, hostile("text"), {hostile("number"): 0.5})]
    part = Score.of(0.25, hostile("reason"), evidence=evidence)
    bad = Score.abstained(hostile("unknown"))
    return replace(
        Score.of(0.5, hostile("reason"), parts={hostile("part"): part, hostile("bad"): bad}), evidence=part.evidence
    )


def named(hostile: Hostile) -> Any:
    """A suite with hostile words about itself."""

    class Named(Drawn):
        info: ClassVar[SuiteInfo] = SuiteInfo(hostile("title"), hostile("source"), hostile("licence"), hostile("page"))
        problems: Sequence[DataProblem] = (DataProblem(hostile("where"), hostile("problem")),)

    return Named


def hostile_sample(hostile: Hostile, name: str, group: str = "") -> EditSample:
    return EditSample(
        id=name,
        instruction=hostile("Make it blue"),
        sources=(striped_image(1),),
        edited=striped_image(2),
        group=group,
        boxes={hostile("cup"): (Box(0.5, 0.5, 0.2, 0.2),)},
        metadata={hostile("name"): hostile("value")},
    )


def test_the_parser_sees_attacks() -> None:
    """Else the tests below would pass for any page."""
    for text in (*ATTACKS[:4], f"<p {ATTACKS[6]}>", f'<p title="{ATTACKS[4]}">', f"<p title='{ATTACKS[5]}'>"):
        assert Page(f"<title>x</title><p>{text}</p>").problems, text
    for text in (f'<a href="{ATTACKS[7]}">', f"<style>{ATTACKS[8]}", f"<script>{ATTACKS[9]}</script>"):
        assert Page(text).problems, text


@pytest.mark.parametrize("single_file", [True, False])
def test_a_report(single_file: bool, hostile: Hostile, tmp_path: Path) -> None:
    class Tables(named(hostile)):  # type: ignore[misc]
        name: ClassVar[str] = hostile("drawn")

        def tables(self, results: Results) -> list[Table]:
            first, *others = super().tables(results)
            columns = {name: hostile(name) for name in first.columns}
            rows = {
                hostile(row): {columns[name]: cell for name, cell in cells.items()} for row, cells in first.rows.items()
            }
            named = Table(hostile("t"), hostile("title"), list(columns.values()), rows, notes=[hostile("note")])
            return [first, named, *others]

    suite = Tables(count=6)
    results = []
    for number, skill in enumerate((0.9, 0.3)):
        plain = scored(suite, f"editor {number}", skill)
        rows = [ResultRow.from_json(everywhere(row.to_json(), hostile, _KEPT)) for row in plain.rows]
        provenance = {**plain.provenance, hostile("name"): {hostile("inner"): hostile("value")}, "protocol": ATTACKS[1]}
        results.append(Results(hostile(plain.editor), rows, provenance))
    folders = {one.editor: outputs(tmp_path / str(number), suite, 0.9) for number, one in enumerate(results)}
    data = ReportData(EditorComparison.of(suite, results, count=100), folders)
    path = tmp_path / "report.html"
    write_page(path, data, hostile("command"), single_file=single_file)
    require_harmless(path.read_text(encoding="utf-8"), 201)
    for script in tmp_path.glob("report_files/*.js"):
        text = script.read_text(encoding="utf-8")
        call, _, values = text.partition(", ")
        assert re.fullmatch(r"editcritic\.addChunk\(\d+", call)
        assert values.endswith(");\n")
        assert "<" not in values
        json.loads(values.removesuffix(");\n"))  # data and nothing else


def test_a_report_of_several_suites(hostile: Hostile, tmp_path: Path) -> None:
    chapters = []
    for name in ("one", "two"):
        suite, loaded = named(hostile)(count=5), []
        for number in range(2):
            plain = scored(suite, f"editor {number}", 0.5)
            rows = [ResultRow.from_json(everywhere(row.to_json(), hostile, _KEPT)) for row in plain.rows]
            experts = {"judge": {"id": hostile("judge")}, hostile("judge.other"): {"id": hostile("other")}}
            provenance = {**plain.provenance, "experts": experts, "protocol": hostile("protocol"), "complete": False}
            results = Results(hostile(plain.editor), rows, provenance)
            loaded.append(LoadedResults(Path(hostile("folder")), results, {}, hostile("date")))
        comparison = EditorComparison(suite, tuple(one.results for one in loaded), 100)
        chapters.append(Chapter(name, tuple(loaded), comparison, hostile("apart")))
    not_shown = NotShown(Results(hostile("e"), [], {"suite": hostile("s")}), Path(hostile("f")), hostile("reason"))
    path = tmp_path / "report.html"
    write_suites_page(path, SuiteReport(tuple(chapters), (not_shown,)), hostile("command"))
    require_harmless(path.read_text(encoding="utf-8"), 101)


def test_a_sheet_of_a_ranking(hostile: Hostile, tmp_path: Path) -> None:
    samples = [hostile_sample(hostile, hostile(name), "g") for name in "ab"]
    rankings = ranking.rank_candidates(samples, [hostile_score(hostile), Score.failed(hostile("x"))], 0.0)
    card = Card(hostile("name"), 1, hostile("summary"))
    ranking_sheet.write_sheet(tmp_path / "rank.html", rankings, card)
    require_harmless((tmp_path / "rank.html").read_text(encoding="utf-8"), 21)


def test_a_sheet_of_a_selection(hostile: Hostile, tmp_path: Path) -> None:
    request = hostile_sample(hostile, hostile("request"))
    preview = Preview(3, striped_image(2), hostile_score(hostile))
    made = []
    for step in (1, 2):
        sample, score = hostile_sample(hostile, hostile("made")), hostile_score(hostile)
        candidate = Candidate(
            hostile("id"), NoiseSpec(step), sample, score, Cost(8, 1, 0.1), previews=(preview,), step=step
        )
        made.append(replace(candidate, tiebreak_score=Score.abstained(hostile("tie")), parent=hostile("parent")))
    stopped = Candidate(hostile("stopped"), NoiseSpec(3), None, Score.abstained(hostile("no")), Cost(3), "stopped")
    match = TournamentMatch(made[0].id, made[1].id, Score.of(1.0, hostile("better")), Cost(0, 2))
    selection = Selection(
        request, made[1], hostile("because"), (*made, stopped), Cost(24), matches=(match,), steps=tuple(made),
        stop_reason=hostile("no time"), notes=(hostile("note"),),
    )  # fmt: skip
    path, card = tmp_path / "selection.html", Card(hostile("name"), 1, hostile("summary"))
    ranking_sheet.write_selection_sheet(path, Selections((selection,)), card, {hostile("fact"): hostile("value")})
    require_harmless(path.read_text(encoding="utf-8"), 21)


def test_the_plan_of_what_is_typed(hostile: Hostile) -> None:
    seen = 0
    for _ in ATTACKS:
        page = Page(plan_html(f'Write "{hostile("sale")}" on the sign'))
        assert page.problems == []
        seen += page.seen
    assert seen > 2


def test_a_question_for_people(tmp_path: Path, hostile: Hostile) -> None:
    image = Image.of(striped_image(1))
    pictures = tuple(ShownPicture(role, image) for role in ("source", "left", "right"))
    question = ShownQuestion(
        *(0, 3, 1, 1, 3),
        is_practice=True,
        question_type=QuestionType("pair", hostile("dimension")),
        definition=hostile("definition"),
        instruction=hostile("instruction"),
        hint=hostile("hint"),
        pictures=pictures,
        size=image.size,
        choices=(),
        previous_answer=None,
        note=hostile("note"),
        revision=0,
    )
    shown = question_html(question, hostile("ann"), PictureStore(str(tmp_path)))
    require_harmless(shown.replace('"gradio_api/file=', '"#'), 5)  # addresses of its own are those of pictures
    require_harmless(feedback_html(Feedback(False, (), hostile("note")), question), 1)


def test_items_of_a_comparison(tmp_path: Path, hostile: Hostile) -> None:
    item = {
        "id": hostile("id"),
        "instruction": hostile("instruction"),
        "delta": "+0.500",
        "pictures": [{"caption": hostile("caption"), "address": ""}],
        "sentence": hostile("sentence"),
        "reasons": [hostile("reason")],
        "parts": [(hostile("path"), hostile("first"), hostile("second"))],
        "words": [("A", hostile("part"), hostile("what"), hostile("text"))],
    }
    template = page_templates(_PACKAGE / "benchmarks" / "web_app").get_template("comparison_items.html")
    require_harmless(template.render(items=[item], total=1, order="largest gain", metric=hostile("metric")), 10)


_PACKAGE = Path(editcritic.reward.__file__).parents[1]
_PAGES = {
    "audit/audit.html",  # its texts are tested beside it
    *("report/blocks.html", "report/suites.html"),
    *("report/page.html", "report/templates/rank.html", "report/templates/selection.html"),
    "report/templates/parts.html",
    *("web_app/question.html", "web_app/comparison_items.html", "web_app/source.html", "web_app/plan.html"),
}


def test_every_page_is_known_here_and_no_script_makes_elements_of_texts() -> None:
    """A new page needs a test above."""
    pages = {path.relative_to(_PACKAGE / "benchmarks").as_posix() for path in (_PACKAGE / "benchmarks").rglob("*.html")}
    assert {page for page in pages if not page.startswith(("sceneedit/", "demo/"))} == _PAGES
    for script in (_PACKAGE / "benchmarks").rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            script
        )
    for source in (_PACKAGE / "benchmarks").rglob("*.py"):
        text = source.read_text(encoding="utf-8")
        assert text.count("jinja2.Environment(") == text.count("autoescape=True"), source
