"""`editcritic judge label`: human labels collected in the app, or in a spreadsheet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar
from ..options import Data, Json, Trust

if TYPE_CHECKING:
    from ...benchmarks.human_eval.annotation_session import AnnotationSession


@exit_code_command
def label(
    suite: str = typer.Argument(
        metavar="SUITE|RESULTS|SAMPLES",
        help="Suite spec, a result folder whose outputs are shown, or samples as in `score`.",
    ),
    out: Path = typer.Option(..., "-o", "--out", help="Label file (JSONL); existing labels are kept and counted."),
    data: Data = None,
    outputs: list[str] | None = typer.Option(
        None, help="NAME=FOLDER of an editor's outputs, or another result folder. Repeatable."
    ),
    config: Path | None = typer.Option(
        None,
        help="TOML file with the design of a study: questions, num_items, seed, editors_per_dimension, "
        "practice_questions, gold_labels, recheck_share, definitions: docs/labels.md. Options come first.",
    ),
    question: list[str] | None = typer.Option(
        None,
        help="KIND:DIMENSION, e.g. pair:overall, yes-no:following, four-level:consistency, "
        "stars:realism, boxes:target, reference:reference. Repeatable. Default: pair:overall for several edits "
        "of a source, yes-no:following for one.",
    ),
    num_items: int | None = typer.Option(
        None,
        min=1,
        help="Number of randomly chosen items of each question; of samples, of sources with their instruction. "
        "Default: all.",
    ),
    check: Path | None = typer.Option(
        None,
        help="Ask about a random fifth (recheck_share) of each annotator's labels in this file, of each "
        "dimension, without practice. The answers are --gold-labels of `judge agreement`.",
    ),
    gold_labels: Path | None = typer.Option(
        None, help="Labels with known answers, for practice and for annotator checks."
    ),
    scores: list[str] | None = typer.Option(
        None,
        help="Scores that the page compares labels with: a file of `score -o`, EDITOR=FILE, or a result folder. "
        "Repeatable. Those of RESULTS are taken anyway.",
    ),
    imported: Path | None = typer.Option(
        None, "--import", help="Add the labels of a CSV or JSONL file, or an answered question sheet; no page."
    ),
    export: Path | None = typer.Option(None, help="Write all labels as FILE.csv or FILE.jsonl; no page."),
    sheet: Path | None = typer.Option(
        None, help="Write the unanswered questions of --annotator and their pictures to a new folder; no page."
    ),
    annotator: str | None = typer.Option(None, help="Who answers --sheet."),
    port: int = typer.Option(0, min=0, max=65535, help="Port; 0 picks a free one."),
    open_page: bool = typer.Option(False, "--open/--no-open", help="Open the page in a browser."),
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Collect human labels on a page served to this machine only. Ctrl-C stops; running the command again resumes.

    --sheet and --import collect them in a spreadsheet instead, without the extra `app`. With --json, the address of the
    page is on standard error, and the document is written in the end. Exit code 2 if rows of --import were left out.

    Example: editcritic judge label results/tiny -o labels.jsonl --question yes-no:following

    Example: editcritic judge label results/tiny -o labels.jsonl --sheet sheets/ann --annotator ann
    """
    from ...benchmarks.common.inputs import require_distinct_files
    from ...benchmarks.common.optional_imports import require_app
    from ...benchmarks.common.settings_files import read_settings
    from ...benchmarks.human_eval.annotation_schedule import QuestionType, known_answers, labels_to_check
    from ...benchmarks.human_eval.annotation_session import AnnotationSession
    from ...benchmarks.human_eval.label_sheets import labels_csv, labels_jsonl
    from ...benchmarks.human_eval.question_pools import SuitePool, open_source
    from ...benchmarks.suites.human_labels import read_labels
    from ...reward.atomic_files import write_atomically
    from ..command_settings import StudySettings

    has_page = imported is None and export is None and sheet is None
    given = {"questions": question, "num_items": num_items, "gold_labels": gold_labels}
    study = read_settings(StudySettings, config, given, files=["gold_labels"])
    read = {"config": config, "gold_labels": study.gold_labels, "check": check, "imported": imported}
    require_distinct_files(labels=out, export=export, **read)
    if not out.resolve().parent.is_dir():
        raise InputError(f"there is no folder {out.parent} for {out.name}: make it first")
    if export is not None and export.suffix.lower() not in (".csv", ".jsonl"):
        raise InputError(f"--export {export} is neither .csv nor .jsonl")
    if (sheet is None) != (annotator is None):
        raise InputError("--sheet FOLDER and --annotator NAME go together: each annotator has an order of their own")
    if has_page:
        require_app()
        echo(f"editcritic: opening {suite}")
    source = open_source(suite, data, outputs or ())
    pool = source.pool
    types = [QuestionType.parse(text) for text in study.questions] or source.default_types
    if study.editors_per_dimension is not None:
        if not isinstance(pool, SuitePool):
            raise InputError(f"{config}: editors_per_dimension is for editors of a suite, and samples have none")
        pool.editors_per_dimension = study.editors_per_dimension
    questions = pool.questions(types, items=study.num_items, seed=study.seed)
    if check is not None:
        keys = labels_to_check(read_labels([check]), study.recheck_share, study.seed)
        questions = [one for one in questions if one.key in keys]
        if not questions:
            raise InputError(f"--check {check} has no label of these questions: give those that it was made with")
        study = study.model_copy(update={"practice_questions": 0, "recheck_share": 0.0})
    gold = {} if study.gold_labels is None else known_answers(read_labels([study.gold_labels]))
    session = AnnotationSession(
        pool, questions, out, gold, study.seed, study.practice_questions, study.recheck_share, study.definitions,
        score_sources=(*source.scores, *(scores or ())),
    )  # fmt: skip
    if study.practice_questions and not session.num_practice and imported is None and export is None:
        echo(
            "editcritic: no practice questions: only those with known answers (--gold-labels) are practised, at most a "
            "third of all"
        )
    if pool.skipped:
        echo(f"editcritic: {len(pool.skipped)} images are missing, e.g. {pool.skipped[0]}")
        for editor, unnamed in pool.unnamed_outputs().items() if isinstance(pool, SuitePool) else ():
            echo(f"editcritic: {editor}: {unnamed}")
    document: dict[str, Any] = {"file": str(out), "questions": len(questions)}
    code = 0
    if imported is not None:
        code = _import(session, imported, document, as_json=as_json)
    if export is not None:
        text = labels_csv if export.suffix.lower() == ".csv" else labels_jsonl
        write_atomically(export, text(session.labels))
        document["export"] = str(export)
    if sheet is not None and annotator is not None:
        document |= {"sheet": str(sheet), "sheet_questions": _write_sheet(session, annotator, sheet)}
    if has_page:
        _serve(session, port, open_page=open_page, as_json=as_json)
    document |= {"labels": len(session.labels), "missing_images": len(pool.skipped)}
    checks = session.checks()
    if as_json:
        print_json({**document, "checks": [one.to_json() for one in checks]})
        return code
    if sheet is not None:
        echo(f"{document['sheet_questions']} questions are in {sheet / 'questions.csv'}", stderr=False)
    for one in checks:
        echo(str(one), stderr=False)
    return code


def _serve(session: AnnotationSession, port: int, *, open_page: bool, as_json: bool) -> None:
    from ..web_app import serve_page

    def announce(url: str) -> None:
        count = len(session.questions)
        echo(f"{count} questions; the page, for this machine only (Ctrl-C stops the server):", stderr=as_json)
        echo(url, stderr=as_json)

    serve_page(announce, session=session, port=port, open_page=open_page)


def _import(session: AnnotationSession, path: Path, document: dict[str, Any], *, as_json: bool) -> int:
    from ...benchmarks.human_eval.label_sheets import import_labels

    imported = import_labels(session, path)
    num_new = session.add_labels(imported.labels)
    for problem in imported.problems:
        echo(f"editcritic: {problem}")
    if left_out := imported.problems.total - len(imported.problems):
        echo(f"editcritic: {left_out:,} more rows were left out")
    if not as_json:
        known = len(imported.labels) - num_new
        echo(f"{num_new} labels added, {known} known, {imported.unanswered} rows without an answer", stderr=False)
    document |= {"added": num_new, "unanswered": imported.unanswered}
    document |= {"problems": list(imported.problems), "num_problems": imported.problems.total}
    return 2 if imported.problems.total else 0


def _write_sheet(session: AnnotationSession, annotator: str, folder: Path) -> int:
    from ...benchmarks.human_eval.annotation_session import AnnotationError
    from ...benchmarks.human_eval.label_sheets import write_question_sheet

    try:
        with progress_bar(None, "pictures") as (step, _):
            count, problems = write_question_sheet(session, annotator, folder, step)
    except AnnotationError as error:
        raise InputError(f"--annotator: {error}") from None
    if problems.total:
        echo(f"editcritic: {problems.total} questions are left out, e.g. {problems[0]}")
    return count
