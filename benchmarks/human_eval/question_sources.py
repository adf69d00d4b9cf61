"""Which questions are asked: from a suite, result folders, or samples of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...reward.file_specs import require_trusted
from ...reward.queries.specs import entry_point_names
from ...reward.strict_json import read_json
from ..common.errors import InputError
from ..run.suite_loading import SUITES, load_suite
from ..suites.results import RESULT_FILE, RUN_FILE
from .annotation_plan import QuestionType
from .question_pools import QuestionPool, SamplePool, SuitePool


@dataclass(frozen=True, slots=True)
class QuestionSource:
    """pool: what is asked about. scores: result folders whose scores labels are compared with."""

    pool: QuestionPool
    scores: tuple[str, ...] = ()

    @property
    def default_types(self) -> list[QuestionType]:
        """What is asked unless the user says it: pairs where there are two edits of an item."""
        pool = self.pool
        if isinstance(pool, SuitePool):
            if len(pool.editors) > 1:
                return [QuestionType("pair", "overall")]
            if pool.editors:
                return [QuestionType("yes-no", "following")]
            if any(item.sample.reference is not None for item in pool.suite.items):
                return [QuestionType("reference", "reference")]
            return [QuestionType("boxes", "target")]
        groups = [sample.group for sample in pool.samples.values()] if isinstance(pool, SamplePool) else []
        return [
            QuestionType("pair", "overall") if len(set(groups)) < len(groups) else QuestionType("yes-no", "following")
        ]


@dataclass(frozen=True, slots=True)
class _RecordedRun:
    """What a result folder records."""

    suite: str
    data: Path | None
    editor: str
    outputs: Path


def open_source(name: str, data: Path | None = None, outputs: Sequence[str] = ()) -> QuestionSource:
    """name: a suite's spec, a result folder, or samples as `SampleSource` opens them.

    outputs: NAME=FOLDER of an editor, or further result folders. Raises `InputError` and `SpecError`.
    """
    path = Path(name)
    is_suite = name.partition("?")[0] in entry_point_names(SUITES) or not path.exists()
    if is_suite or (path / RESULT_FILE).is_file():
        return _suite_source(name, data, outputs)
    if data is not None or outputs:
        raise InputError(f"{name} holds samples, which have their pictures: --data and --outputs are for suites")
    return QuestionSource(SamplePool.open(path))


def open_paths(paths: Sequence[Path], may_read: Callable[[Path], bool] = lambda _: True) -> QuestionSource:
    """Result folders of one suite, or one file or folder of samples.

    may_read: whether the data and outputs that results record may be opened. Raises `InputError` and `SpecError`.
    """
    runs = [path for path in paths if (path / RESULT_FILE).is_file()]
    if runs and len(runs) == len(paths):
        for run in map(_recorded_run, runs):
            for folder in filter(None, (run.data, run.outputs)):
                if not may_read(folder):
                    raise InputError(
                        f"the results of {run.editor} lead to {folder}: start the app with that folder, too"
                    )
        return _suite_source(str(runs[0]), None, [str(path) for path in runs[1:]])
    if len(paths) == 1:
        return open_source(str(paths[0]))
    raise InputError("labels are of result folders of one suite, or of one file or folder of samples: give either")


def _suite_source(name: str, data: Path | None, outputs: Sequence[str]) -> QuestionSource:
    editors: dict[str, Path] = {}
    scores: list[str] = []
    spec = name
    if (Path(name) / RESULT_FILE).is_file():
        run = _recorded_run(Path(name))
        spec, data, editors[run.editor] = run.suite, data or run.data, run.outputs
        scores.append(name)
    for text in outputs:
        if "=" not in text and (Path(text) / RESULT_FILE).is_file():
            run = _recorded_run(Path(text))
            editor, folder = run.editor, run.outputs
            scores.append(text)
        else:
            editor, _, folder_name = text.partition("=")
            if not (editor and folder_name):
                raise InputError(f"--outputs is NAME=FOLDER, or a result folder, got {text!r}")
            folder = Path(folder_name)
        if editor in editors:
            raise InputError(f"two outputs folders have the name {editor!r}: rename one, as in other=FOLDER")
        editors[editor] = folder
    return QuestionSource(SuitePool(load_suite(spec, data), editors), tuple(scores))


def _recorded_run(folder: Path) -> _RecordedRun:
    """Raises `InputError`, and `SpecError` for a suite that is not trusted."""
    try:
        head, invocation = read_json(folder / RESULT_FILE), read_json(folder / RUN_FILE)["invocation"]
        data = None if invocation["data"] is None else (folder / invocation["data"]).resolve()
        run = _RecordedRun(invocation["suite"], data, head["editor"], (folder / invocation["outputs"]).resolve())
    except OSError as error:
        raise InputError(f"{folder} is not a result folder: {error.strerror} ({error.filename})") from None
    except (ValueError, LookupError, TypeError):
        raise InputError(f"{folder} does not record its outputs folder: give SUITE, --data and --outputs") from None
    require_trusted(run.suite, folder, inside="suite")
    return run
