"""`editcritic app`: a page to score, rank, audit, compare and label, for this machine only."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.terminal import echo, exit_code_command, print_json
from .options import DEFAULT_REWARD, AnswerCache, Experts, Json, RewardSpec, Trust

if TYPE_CHECKING:
    from ..benchmarks.human_eval.annotation_session import AnnotationSession

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 picks a free one.")]
OpenPage = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")]


@exit_code_command
def web_app(
    paths: list[Path] | None = typer.Argument(
        None, help="Sample files, results, folders of them or of pictures: what the page may open."
    ),
    reward: RewardSpec = DEFAULT_REWARD,
    experts: Experts = None,
    cache: AnswerCache = None,
    labels: Path | None = typer.Option(
        None, help="Label file of the tab Label, which then asks about PATHS. Existing labels count."
    ),
    question: list[str] | None = typer.Option(
        None, help="With --labels: KIND:DIMENSION as in `judge label`. Repeatable."
    ),
    port: Port = 0,
    open_page: OpenPage = False,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Open a page for this machine only: score and rank edits, audit a reward, compare results, label. Ctrl-C stops it.

    The page reads what is dropped on it and what was named here, and nothing else. Answers of experts are kept in
    --cache, labels in the file that is chosen on the page: started again, it goes on where it was. --reward and
    --experts are chosen at the start; the page offers every installed reward and bundle beside them.

    Example: editcritic app results/ edits/samples.jsonl --experts cpu --cache answers.db
    """
    from ..benchmarks.common.optional_imports import require_app

    require_app()
    for path in paths or ():
        if not path.exists():
            raise InputError(f"{path} does not exist: name files and folders that the page may open")
    if question and labels is None:
        raise InputError("--question is for --labels, the file that the answers are written to")
    session = None if labels is None else _session(paths or [], labels, question or [])

    def announce(url: str) -> None:
        echo("the page, for this machine only (Ctrl-C stops it):", stderr=as_json)
        echo(url, stderr=as_json)
        if as_json:
            print_json({"address": url})
            sys.stdout.flush()

    serve_page(announce, paths or (), reward, experts, cache, session=session, port=port, open_page=open_page)
    return 0


def _session(paths: list[Path], labels: Path, questions: list[str]) -> AnnotationSession:
    from ..benchmarks.human_eval.annotation_schedule import QuestionType
    from ..benchmarks.human_eval.annotation_session import AnnotationSession
    from ..benchmarks.human_eval.question_pools import open_paths

    if not paths:
        raise InputError("--labels needs what is asked about: result folders of one suite, or samples")
    echo(f"editcritic: opening {', '.join(map(str, paths))}")
    source = open_paths(paths)
    questions_asked = source.pool.questions([QuestionType.parse(text) for text in questions] or source.default_types)
    return AnnotationSession(source.pool, questions_asked, labels, score_sources=source.scores)


def serve_page(
    announce: Callable[[str], None],
    paths: Sequence[Path] = (),
    reward: str = DEFAULT_REWARD,
    experts: Sequence[str] | None = None,
    cache: Path | None = None,
    *,
    session: AnnotationSession | None = None,
    port: int = 0,
    open_page: bool = False,
) -> None:
    """Serve the page until Ctrl-C. announce: called with its address. Raises `SpecError`, and `InputError` for a taken
    port."""
    bindings = " ".join(experts or ["cpu"])
    echo(f"editcritic: starting the page with {', '.join([reward, bindings, *map(str, paths)])}")
    from ..benchmarks.web_app.open_files import OpenFiles
    from ..benchmarks.web_app.server import serving
    from ..benchmarks.web_app.settings import AppSettings, Scorers

    with ExitStack() as stack:
        scorers = Scorers(cache)
        stack.callback(scorers.close)
        scorers.reward(reward, bindings)  # fail before the page is opened
        settings = AppSettings(OpenFiles(tuple(paths)), scorers, reward, bindings, session)
        try:
            url = stack.enter_context(serving(settings, port))
        except OSError as error:
            raise InputError(f"cannot listen on port {port}: {error.strerror}; --port 0 picks a free one") from None
        announce(url)
        if open_page:
            import webbrowser

            webbrowser.open(url)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            echo("editcritic: stopped; answers and labels are kept")
