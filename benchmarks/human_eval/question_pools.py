"""What annotators can be asked about: editors' outputs for a suite, or edits of one's own; and how a user names it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from ...reward import EditSample
from ...reward.file_specs import require_trusted
from ...reward.queries.specs import entry_point_names
from ...reward.strict_json import read_json
from ..common.errors import InputError
from ..common.inputs import SampleSource
from ..run.editor_outputs import Outputs, UnnamedOutputs
from ..run.suite_loading import SUITES, default_data, load_suite
from ..suites.human_labels import LabelKind
from ..suites.results import RESULT_FILE, RUN_FILE, ResultRow, Results
from ..suites.suite import Suite, SuiteItem
from .annotation_schedule import LabelQuestion, QuestionType, editor_sets

MAX_QUESTIONS = 100_000  # of a session: the pairs of a large group are many, and nobody answers more
_DATASET_KINDS: frozenset[LabelKind] = frozenset({"boxes", "reference"})

T = TypeVar("T")


class QuestionPool(Protocol):
    """All possible questions, and the pictures that they are about. title: what is labelled, for display. scale: name
    of the suite whose levels are asked for, or "". skipped: what cannot be asked about, with the reason."""

    @property
    def title(self) -> str: ...

    @property
    def scale(self) -> str: ...

    @property
    def skipped(self) -> Sequence[str]: ...

    def sample(self, editor: str, name: str) -> EditSample:
        """The labelled edit, as `LabelQuestion.item_keys` names it. Raises `MissingOutput` and `ImageError`."""
        ...

    def questions(
        self, question_types: Sequence[QuestionType], *, items: int | None = None, seed: int = 0
    ) -> list[LabelQuestion]:
        """Every question with images, of `items` items of each type sampled by seed (all: None). Raises `InputError`
        for none."""
        ...

    def unscored_results(self) -> list[Results]:
        """A row without scores for whatever can be labelled, to compare labels with each other."""
        ...


@dataclass
class SuitePool:
    """Outputs of editors for the items of a suite. editors: name -> outputs folder. editors_per_dimension: for pairs of
    edits of one source, each dimension compares another set of so many editors, drawn by seed (I2I-Bench, section 3.3:
    four of nine). None: all."""

    suite: Suite
    editors: Mapping[str, Path]
    editors_per_dimension: int | None = None
    skipped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._outputs = {name: Outputs(self.suite, folder) for name, folder in self.editors.items()}

    @property
    def title(self) -> str:
        return self.suite.info.title

    @property
    def scale(self) -> str:
        return self.suite.name

    def sample(self, editor: str, name: str) -> EditSample:
        """The item with that editor's output; the plain item if `editor` is empty. Raises `MissingOutput`."""
        item = self.suite.by_id[name]
        return self._outputs[editor].sample(item) if editor else item.sample

    def questions(
        self, question_types: Sequence[QuestionType], *, items: int | None = None, seed: int = 0
    ) -> list[LabelQuestion]:
        of = self._of
        if self.editors_per_dimension is not None:
            single = [item for item in self.suite.items if len(item.sample.sources) == 1]
            dimensions = [
                one.dimension
                for one in question_types
                if one.kind == "pair" and any(self.suite.asks_about(one.dimension, item) for item in single)
            ]
            sets = editor_sets(dimensions, list(self.editors), self.editors_per_dimension, seed)
            of = partial(self._of, sets=sets)

        def sampled(question_type: QuestionType) -> Sequence[SuiteItem]:
            asked = [item for item in self.suite.items if self.suite.asks_about(question_type.dimension, item)]
            return _sampled(asked, items, seed)

        return _questions(of, question_types, sampled, self.skipped)

    def unscored_results(self) -> list[Results]:
        rows = [ResultRow(item.id, item.case, item.labels) for item in self.suite.items]
        return [Results(editor, rows) for editor in (*self.editors, "")]

    def unnamed_outputs(self) -> dict[str, str]:
        """Editor -> the pictures among its outputs that no item names, in words; those that have some."""
        texts = {name: str(UnnamedOutputs.of(self.suite, folder)) for name, folder in self.editors.items()}
        return {name: text for name, text in texts.items() if text}

    def _of(
        self, question_type: QuestionType, item: SuiteItem, sets: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> list[LabelQuestion]:
        kind_of_turn = item.labels.get("kind") if item.previous else None  # a first turn has nothing to remember
        if question_type.about_conversation and kind_of_turn != question_type.dimension:
            return []
        if question_type.kind in _DATASET_KINDS:
            if question_type.kind == "reference" and item.sample.reference is None:
                self.skipped.append(f"{item.id} has no reference")
                return []
            return [LabelQuestion(question_type, (("", item.id),))]
        compared: Sequence[str] = list(self.editors)
        if question_type.kind == "pair" and len(item.sample.sources) == 1:
            compared = sets.get(question_type.dimension, compared)
        editors = [name for name in compared if self._has(name, item)]
        if question_type.kind == "pair":
            return [LabelQuestion(question_type, ((a, item.id), (b, item.id))) for a, b in combinations(editors, 2)]
        return [LabelQuestion(question_type, ((name, item.id),)) for name in editors]

    def _has(self, editor: str, item: SuiteItem) -> bool:
        step: SuiteItem | None = item
        while step is not None:
            if self.suite.find_output(self.editors[editor], step) is None:
                self.skipped.append(f"{editor} has no image {step.output_path}")
                return False
            step = self.suite.by_id[step.previous] if step.previous else None
        return True


@dataclass
class SamplePool:
    """Edits of one's own: the samples of a file or folder, as `editcritic score` takes them. Labels have no editor. An
    item is a source with an instruction; the pairs of an item are its edits, two at a time."""

    path: Path
    samples: Mapping[str, EditSample]
    skipped: list[str] = field(default_factory=list)
    scale: str = ""

    @staticmethod
    def open(path: Path) -> SamplePool:
        """Raises `InputError` for what holds no samples. Lines that are none are `skipped`."""
        samples: dict[str, EditSample] = {}
        skipped = []
        for entry in SampleSource.open(path).read():
            if entry.sample is None:
                skipped.append(f"{entry.location}: {entry.problem}")
            else:
                samples[entry.sample.id] = entry.sample
        if not samples:
            raise InputError(f"{path} has no sample that can be read; {skipped[0]}")
        return SamplePool(path, samples, skipped)

    @property
    def title(self) -> str:
        return f"{len(self.samples)} edits"

    def sample(self, editor: str, name: str) -> EditSample:
        """The sample of an id; `editor` is empty."""
        return self.samples[name]

    def questions(
        self, question_types: Sequence[QuestionType], *, items: int | None = None, seed: int = 0
    ) -> list[LabelQuestion]:
        groups: dict[str, list[EditSample]] = {}
        for sample in self.samples.values():
            groups.setdefault(sample.group, []).append(sample)
        sampled = _sampled(list(groups.values()), items, seed)
        return _questions(self._of, question_types, lambda _: sampled, self.skipped)

    def unscored_results(self) -> list[Results]:
        rows = [ResultRow(name, sample.source.digest, {}) for name, sample in self.samples.items()]
        return [Results("", rows)]

    def _of(self, question_type: QuestionType, group: Sequence[EditSample]) -> Iterator[LabelQuestion]:
        if question_type.about_conversation:
            return
        if question_type.kind == "pair":
            for first, second in combinations(group, 2):
                yield LabelQuestion(question_type, (("", first.id), ("", second.id)))
        elif question_type.kind == "boxes":  # of the source, which all of them share
            yield LabelQuestion(question_type, (("", group[0].id),))
        elif question_type.kind == "reference":
            if group[0].reference is None:
                self.skipped.append(f"{group[0].id} has no reference")
            else:
                yield LabelQuestion(question_type, (("", group[0].id),))
        else:
            for sample in group:
                yield LabelQuestion(question_type, (("", sample.id),))


def _sampled(items: Sequence[T], count: int | None, seed: int) -> Sequence[T]:
    if count is None or count >= len(items):
        return items
    indices = set(random.Random(seed).sample(range(len(items)), count))
    return [item for number, item in enumerate(items) if number in indices]


def _questions(
    of: Callable[[QuestionType, T], Iterable[LabelQuestion]],
    question_types: Sequence[QuestionType],
    items_of: Callable[[QuestionType], Sequence[T]],
    skipped: Sequence[str],
) -> list[LabelQuestion]:
    """Of each type, those about each item. Raises `InputError` for none and for too many."""
    every = (
        question
        for question_type in question_types
        for item in items_of(question_type)
        for question in of(question_type, item)
    )
    questions = list(islice(every, MAX_QUESTIONS + 1))
    if len(questions) > MAX_QUESTIONS:
        raise InputError(f"there are more than {MAX_QUESTIONS:,} questions: give --num-items to ask about fewer")
    if not questions:
        hint = f"; {skipped[0]}" if skipped else ""
        dimensions = ", ".join(question_type.dimension for question_type in question_types)
        raise InputError(f"there is nothing to ask about {dimensions}{hint}")
    return questions


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
        has_pairs = len(set(groups)) < len(groups)
        return [QuestionType("pair", "overall") if has_pairs else QuestionType("yes-no", "following")]


class _RecordedRun(NamedTuple):
    suite: str
    data: Path | None
    editor: str
    outputs: Path


def open_source(name: str, data: Path | None = None, outputs: Sequence[str] = ()) -> QuestionSource:
    """name: a suite's spec, a result folder, or samples as `SampleSource` opens them. outputs: NAME=FOLDER of an
    editor, or further result folders. Raises `InputError` and `SpecError`."""
    path = Path(name)
    is_suite = name.partition("?")[0] in entry_point_names(SUITES) or not path.exists()
    if is_suite or (path / RESULT_FILE).is_file():
        return _suite_source(name, data, outputs)
    if data is not None or outputs:
        raise InputError(f"{name} holds samples, which have their pictures: --data and --outputs are for suites")
    return QuestionSource(SamplePool.open(path))


def open_paths(paths: Sequence[Path], may_read: Callable[[Path], bool] = lambda _: True) -> QuestionSource:
    """Result folders of one suite, or one file or folder of samples. may_read: whether the data and outputs that
    results record may be opened. Raises `InputError` and `SpecError`."""
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
    return QuestionSource(SuitePool(load_suite(spec, data or default_data(spec)), editors), tuple(scores))


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
