"""`editcritic judge label`: human labels collected on a local page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...benchmarks.common.terminal import echo, exit_code_command, print_json
from ..options import Data, Json, Seed, Trust

if TYPE_CHECKING:
    from ...benchmarks.human_eval.annotation_plan import QuestionType
    from ...benchmarks.suites.suite import Suite


@exit_code_command
def label(
    suite: Annotated[
        str, typer.Argument(metavar="SUITE|RESULTS", help="Suite spec, or a result folder whose outputs are shown.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Label file (JSONL); existing labels are kept and counted.")],
    data: Data = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--outputs", help="NAME=FOLDER of an editor's outputs, or another result folder. Repeatable."),
    ] = None,
    question: Annotated[
        list[str] | None,
        typer.Option(
            "--question",
            help="KIND:DIMENSION, e.g. pair:overall, yes-no:following, four-level:consistency, boxes:target, "
            "reference:reference. Repeatable. Default: pair:overall for several editors, "
            "yes-no:following for one.",
        ),
    ] = None,
    num_items: Annotated[
        int | None, typer.Option("--num-items", min=1, help="Number of randomly chosen items. Default: all.")
    ] = None,
    gold_labels: Annotated[
        Path | None,
        typer.Option(
            "--gold-labels", help="Labels with known answers, for feedback during practice and for annotator checks."
        ),
    ] = None,
    definition: Annotated[
        list[str] | None, typer.Option("--definition", help="DIMENSION=TEXT shown to annotators. Repeatable.")
    ] = None,
    practice_questions: Annotated[
        int, typer.Option("--practice-questions", min=0, help="Number of practice questions.")
    ] = 30,
    recheck_share: Annotated[
        float,
        typer.Option("--recheck-share", min=0, max=1, help="Fraction of questions repeated to measure consistency."),
    ] = 0.2,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 picks a free one.")] = 0,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    seed: Seed = 0,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Collect human labels on a page served to this machine only. Ctrl-C stops; running the command again resumes.

    With --json, the address of the page is on standard error, and the document is written when the server stops.

    Example: editcritic judge label results/tiny -o labels.jsonl --question yes-no:following
    """
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.common.inputs import require_distinct_files
    from ...benchmarks.human_eval.annotation_plan import QuestionPool
    from ...benchmarks.human_eval.annotation_server import LabelServer
    from ...benchmarks.human_eval.annotation_session import AnnotationSession
    from ...benchmarks.human_eval.annotator_checks import check_annotators, known_answers
    from ...benchmarks.suites.human_labels import read_labels

    require_distinct_files(labels=out, gold_labels=gold_labels)
    if not out.resolve().parent.is_dir():
        raise InputError(f"there is no folder {out.parent} for {out.name}: make it first")
    loaded, editors = _load_suite_and_outputs(suite, data, outputs or ())
    pool = QuestionPool(loaded, editors)
    questions = pool.questions(_question_types(question, loaded, len(editors)), items=num_items, seed=seed)
    gold = {} if gold_labels is None else known_answers(read_labels([gold_labels]))
    definitions = dict(_pair("--definition", text, "DIMENSION=TEXT") for text in definition or ())
    session = AnnotationSession(pool, questions, out, gold, seed, practice_questions, recheck_share, definitions)
    with LabelServer(session, port) as server:
        if pool.skipped:
            echo(f"editcritic: {len(pool.skipped)} images are missing, e.g. {pool.skipped[0]}")
        echo(f"{len(questions)} questions; the page, for this machine only (Ctrl-C stops the server):", stderr=as_json)
        echo(server.url, stderr=as_json)
        if open_page:
            import webbrowser

            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            echo("editcritic: stopped; every answer is saved: run the same command again to resume")
    labels = read_labels([out])
    checks = check_annotators(labels, gold)
    if as_json:
        counts = {"questions": len(questions), "labels": len(labels), "missing_images": len(pool.skipped)}
        print_json({"file": str(out), **counts, "checks": [check.to_json() for check in checks]})
        return 0
    for check in checks:
        echo(str(check), stderr=False)
    return 0


def _load_suite_and_outputs(suite: str, data: Path | None, outputs: Sequence[str]) -> tuple[Suite, dict[str, Path]]:
    """The suite, and editor -> outputs folder. Raises `InputError`."""
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.run.suite_loading import load_suite
    from ...benchmarks.suites.results import RESULT_FILE

    editors: dict[str, Path] = {}
    if (Path(suite) / RESULT_FILE).is_file():
        spec, data_folder, name, folder = _locate_results(Path(suite))
        editors[name] = folder
    else:
        spec, data_folder = suite, data
    for text in outputs:
        if "=" not in text and (Path(text) / RESULT_FILE).is_file():
            name, folder = _locate_results(Path(text))[2:]
        else:
            name, folder_name = _pair("--outputs", text, "NAME=FOLDER, or a result folder")
            folder = Path(folder_name)
        if name in editors:
            raise InputError(f"two outputs folders have the name {name!r}: rename one, as in other=FOLDER")
        editors[name] = folder
    return load_suite(spec, data or data_folder), editors


def _locate_results(folder: Path) -> tuple[str, Path | None, str, Path]:
    """Suite, data, editor and outputs of a result folder, as recorded in it. Raises `InputError`."""
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.suites.results import RESULT_FILE, RUN_FILE
    from ...reward.file_specs import require_trusted
    from ...reward.strict_json import read_json

    try:
        head, invocation = read_json(folder / RESULT_FILE), read_json(folder / RUN_FILE)["invocation"]
        data = None if invocation["data"] is None else (folder / invocation["data"]).resolve()
        spec, editor, outputs = invocation["suite"], head["editor"], (folder / invocation["outputs"]).resolve()
    except OSError as error:
        raise InputError(f"{folder} is not a result folder: {error.strerror} ({error.filename})") from None
    except (ValueError, LookupError, TypeError):
        raise InputError(f"{folder} does not record its outputs folder: give SUITE, --data and --outputs") from None
    require_trusted(spec, folder, inside="suite")
    return spec, data, editor, outputs


def _question_types(texts: Sequence[str] | None, suite: Suite, editors: int) -> list[QuestionType]:
    from ...benchmarks.human_eval.annotation_plan import QuestionType

    if texts:
        return [QuestionType.parse(text) for text in texts]
    if editors > 1:
        return [QuestionType("pair", "overall")]
    if editors == 1:
        return [QuestionType("yes-no", "following")]
    if any(item.sample.reference is not None for item in suite.items):
        return [QuestionType("reference", "reference")]
    return [QuestionType("boxes", "target")]


def _pair(option: str, text: str, form: str) -> tuple[str, str]:
    from ...benchmarks.common.errors import InputError

    name, _, value = text.partition("=")
    if not (name and value):
        raise InputError(f"{option} is {form}, got {text!r}")
    return name, value
