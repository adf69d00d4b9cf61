"""Replays: scores from recorded answers, without models and without images. A recording (`recordings.py`) replays with
its own reward, and then every score has to equal the recorded one, or with another reward on the same answers. Golden
cases are of EdiVal's instruction following."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ...reward import AnswerLog, EditSample, Expert, Reward, Score
from ...reward.boxes import Box
from ...reward.engine.engine import Engine
from ...reward.file_specs import require_trusted
from ...reward.image import Image
from ...reward.metrics.edival.following import InstructionFollowing
from ...reward.plain_text import one_line
from ...reward.queries import Abstention, Failure
from ...reward.queries.answers import Detections, Outcome, RecognizedText
from ...reward.queries.expert import rewrites_queries
from ...reward.queries.kinds import Detect, Judge, Query, ReadText
from ...reward.queries.response_formats import Reply
from ...reward.queries.specs import spec_of
from ...reward.regular_files import open_regular
from ...reward.sample import TASK_TYPES, Task
from ...reward.sample_files import sample_of_stranger, sample_problem, sample_to_json
from ...reward.strict_json import json_lines, parse_json
from ..common.errors import InputError, input_errors
from ..common.inputs import SampleEntry, load_reward, spec_argument
from ..suites.edival.reader import parse_turn
from .scoring_run import ScoringReport, score_entries

Call = tuple[str, str, float]
"""A detector call: image (`source` or `edited`), phrase, threshold."""

_SIZE = (512, 512)


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """A JSON line of the file. detections: image -> phrase -> [cx, cy, w, h, score]. vlm: question -> image or phrase
    -> answer. calls: the detector calls of the released code, in order. expected: its verdict, 0 or 1."""

    id: str
    instruction: str
    detections: Mapping[str, Mapping[str, Sequence[Sequence[float]]]]
    vlm: Mapping[str, Mapping[str, str]]
    calls: tuple[Call, ...]
    expected: int
    task: Task | None = None

    def picture(self, name: str) -> Image:
        """The source or edited image, without pixels."""
        return Image.from_digest(hashlib.sha256(f"{self.id} {name}".encode()).hexdigest(), _SIZE)

    @property
    def sample(self) -> EditSample:
        pictures = (self.picture("source"),), self.picture("edited")
        return EditSample(self.id, self.instruction, *pictures, task=self.task)


def read_cases(path: Path) -> Iterator[GoldenCase]:
    """The cases in a file. Raises ValueError for an invalid line."""
    for number, data in json_lines(path):
        try:
            if isinstance(data, ValueError):
                raise data
            calls = tuple((call["image"], call["phrase"], call["threshold"]) for call in data["detector_calls"])
            yield GoldenCase(
                data["id"],
                data["instruction"],
                data["detections"],
                data["vlm"],
                calls,
                int(data["expected"]),
                parse_turn(data["task_type"], data["instruction"], form) if (form := _form(data)) else None,
            )
        except KeyError as error:
            raise ValueError(f"{path}, line {number}: not a golden case: it has no {error}") from None
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {number}: not a golden case ({type(error).__name__}: {error})") from None


def _form(data: Mapping[str, Any]) -> str:
    form = data.get("format_instruction", "")
    if not isinstance(form, str) or (form and data["task_type"] not in TASK_TYPES):
        raise ValueError(f"expected the text of a format_instruction of a known task_type, got {form!r:.80}")
    return form


class GoldenExpert(Expert):
    """Answers queries of all cases from the recording, by image; a query without a recorded answer fails."""

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Detect, Judge, ReadText)
    batch = 256

    def __init__(self, cases: Sequence[GoldenCase]) -> None:
        self.id = "golden edival-if"
        self._cases = {case.id: case for case in cases}
        self._pictures = {case.picture(name).digest: (case, name) for case in cases for name in ("source", "edited")}

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Add the case id to queries without an image: equal queries of different cases have different answers."""
        if isinstance(query, Judge) and not query.images and sample is not None:
            return dataclasses.replace(query, slots=(*query.slots, ("case", sample.id)))
        return query

    def __call__(self, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query[Any]) -> Outcome:
        try:
            match query:
                case Detect(image, (phrase,)):
                    case, name = self._pictures[image.digest]
                    rows = case.detections[name][phrase]
                    return Detections(tuple(Box(cx, cy, w, h, score, phrase) for cx, cy, w, h, score in rows))
                case ReadText(image):
                    while image.origin is not None:  # a crop: the recorded answer is the one about it
                        image = image.origin[0]
                    case, name = self._pictures[image.digest]
                    return RecognizedText.without_boxes(case.vlm["read_text"][name])
                case Judge():
                    topic, slots = query.topic.removeprefix("edival/"), dict(query.slots)
                    if not query.images:
                        return Reply(self._cases[slots["case"]].vlm[topic][slots["object"]])
                    case, name = self._pictures[query.images[-1].digest]
                    return Reply(case.vlm[topic]["pair" if len(query.images) == 2 else name])
                case _:
                    return Failure(f"nothing is recorded for {query.kind} queries like this")
        except KeyError as error:
            return Failure(f"no answer is recorded for {error}", infrastructure=True)


def detector_calls(score: Score, case: GoldenCase) -> tuple[Call, ...]:
    """The detector calls in order, from the evidence."""
    names = {case.picture(name).digest: name for name in ("source", "edited")}
    detections = (item for item in score.evidence if item.what.startswith("detect "))
    return tuple((names[item.image], item.text, item.numbers["threshold"]) for item in detections)


def replay_cases(path: Path, protocol: str) -> tuple[int, int, list[str]]:
    """Number of cases that match, number of cases, and the mismatches. Detector calls are compared for the `official`
    protocol only: the others make other calls. Raises ValueError for another kind of file, or an unknown protocol."""
    metric = InstructionFollowing(protocol)
    cases = list(read_cases(path))
    recorded = GoldenExpert(cases)
    experts = dict.fromkeys(metric.card.roles, recorded)
    disagreements = []
    with Engine() as engine:
        samples = (case.sample for case in cases)
        scores = engine.run(((metric(sample), sample) for sample in samples), experts)
        for case, score in zip(cases, scores, strict=True):
            calls = detector_calls(score, case)
            if score.value != case.expected or (protocol == "official" and calls != case.calls):
                disagreements.append(_mismatch(case, score, calls))
    return len(cases) - len(disagreements), len(cases), disagreements


def _mismatch(case: GoldenCase, score: Score, calls: tuple[Call, ...]) -> str:
    if score.value != case.expected:
        got = score.status if score.value is None else f"{score.value:g}"
        return f"{case.id}: expected {case.expected}, got {got} ({score.reason})"
    return f"{case.id}: expected detector calls {list(case.calls)}, got {list(calls)}"


NOT_RECORDED = "the recording has no answer to this query"

_MAX_VALUES = 1_000_000
"""Values in the JSON of one row, about: sample files allow fewer, Python code does not count."""


class RecordingWriter:
    """Writes what a replay needs into a log: open it with `AnswerLog(path, describe=True)` and pass it to the reward.
    Raises `InputError` if the log contains a run of another reward."""

    def __init__(self, log: AnswerLog, reward: Reward) -> None:
        self._log = log
        experts = {
            role: {"id": expert.id, "rewrites": rewrites_queries(expert)} for role, expert in reward.experts.items()
        }
        tables = {"spec": {"reward": spec_of(reward.metric)}, "experts": experts}
        rows = {key: json.dumps(table) for key, table in tables.items()}  # in order: that of a mean's terms counts
        for key, row in rows.items():
            if log.meta(key) not in (None, row):
                raise InputError(
                    f"{log.path} is a recording of another reward ({_name(log.meta('spec'))}), or with other experts: "
                    "give another file"
                )
        self._known = set(log.samples())
        for key, row in rows.items():
            log.meta(key, row)

    def add_sample(self, sample: EditSample) -> None:
        row = json.dumps(sample_to_json(sample))
        if row not in self._known:
            self._log.add_sample(row)

    def add_score(self, name: str, score: Score) -> None:
        """Record the score, for a replay to compare with."""
        self._log.meta(f"score:{name}", json.dumps(_value_and_status(score)))


class NotRecorded(LookupError):
    """A recording does not have what a replay asks for."""


class ReplayExpert(Expert):
    """Replaces an expert by its recorded answers. rewrites: whether that expert rewrites queries."""

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = tuple(Query.__subclasses__())

    def __init__(self, name: str, log: AnswerLog, rewrites: bool) -> None:
        self.id = name
        self._log = log
        self._rewrites = rewrites

    def __call__(self, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        return [Failure(NOT_RECORDED, infrastructure=True)] * len(queries)

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """As recorded for this sample. Raises `NotRecorded`."""
        rewritten = self._log.rewritten(self.id, sample, query) if self._rewrites else query
        if rewritten is None:
            raise NotRecorded(NOT_RECORDED)
        return rewritten


class RecordingReader:
    """Reads a recording of a stranger: samples without pixels, the metric's spec, experts, scores. Changes no file.
    Raises `InputError` for a file that is no recording, `LogError` for one that is no answer log, or damaged: what was
    recorded cannot be asked again."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(f"{path} {'is not a file' if path.exists() else 'does not exist'}: give a recording")
        if not _is_database(path):
            raise InputError(f"{path} is not a recording: `editcritic score --record` writes one")
        self.log = AnswerLog(path, read_only=True)
        with contextlib.ExitStack() as refused:
            refused.callback(self.log.close)
            self.log.verify(rows=False)
            self._rows = self.log.samples()
            if not self._rows:
                raise InputError(
                    f"{path} contains no samples: it is a cache, not written with --record, or its command ended early"
                )
            self._experts = self._table_of("experts")
            if any(isinstance(expert, str) for expert in self._experts.values()):
                raise InputError(
                    f"{path} was recorded by an earlier version, which did not store what the experts made of the "
                    "queries: record the samples again, in a new file"
                )
            self.log.verify()
            refused.pop_all()

    @property
    def spec(self) -> dict[str, Any]:
        """Spec of the recorded reward. Raises `InputError` if there is none."""
        return self._table_of("spec")

    def __len__(self) -> int:
        return len(self._rows)

    def samples(self) -> Iterator[EditSample]:
        """The recorded samples, without pixels. Raises `InputError` for one that cannot be read."""
        for number, row in enumerate(self._rows, start=1):
            try:
                yield sample_of_stranger(
                    parse_json(row, max_values=_MAX_VALUES), name=f"sample {number}", recorded=self.log.derived_digest
                )
            except ValueError as error:
                problem = sample_problem(error)
                raise InputError(f"sample {number} of {self.log.path} cannot be read: {problem}") from None

    def experts(self) -> dict[str, Expert]:
        """Replay experts by role, with the recorded ids. Raises `InputError`."""
        experts: dict[str, Expert] = {}
        for role, expert in self._experts.items():
            match expert:
                case {"id": str(name), "rewrites": bool(rewrites)}:
                    experts[role] = ReplayExpert(name, self.log, rewrites)
                case _:
                    raise InputError(
                        f"{self.log.path} is no recording of this version: its expert of {role!r:.80} is none"
                    )
        return experts

    def recorded_score(self, name: str) -> dict[str, Any] | None:
        """Recorded value and status of a sample; None if it was not scored. Raises `InputError`."""
        if self.log.meta(f"score:{name}") is None:
            return None
        match score := self._table_of(f"score:{name}"):
            case {"value": float() | int() | None, "status": str()}:
                return score
            case _:
                raise InputError(f"{self.log.path} is no recording of this version: its score of {name!r:.80} is none")

    def _table_of(self, key: str) -> dict[str, Any]:
        try:
            table = parse_json(self.log.meta(key) or "null", max_values=_MAX_VALUES)
        except ValueError as error:
            raise InputError(f"{self.log.path} is no recording of this version: {key!r:.80} is {error}") from None
        if not isinstance(table, dict):
            raise InputError(
                f"{self.log.path} is no recording of this version: {key!r:.80} is {type(table).__name__}, not a table"
            )
        return table


def _is_database(path: Path) -> bool:
    with open_regular(path) as file:
        return file.read(16) == b"SQLite format 3\0"


def same_score(score: Score, recorded: Mapping[str, Any]) -> bool:
    """Whether a replayed score equals the recorded one, to the last bit."""
    return _value_and_status(score) == recorded


def _value_and_status(score: Score) -> dict[str, Any]:
    return {"value": score.value, "status": score.status}


def _name(spec: str | None) -> str:
    try:
        reward = parse_json(spec or "{}")["reward"]
        return str(reward.get("name", reward.get("use", "?")))
    except (ValueError, LookupError, AttributeError, TypeError):
        return "?"


GOLDEN_REWARDS = ("edival", "edival-if")


@dataclass
class ReplayReport:
    """num_agreeing of num_compared scores equal the recorded ones. mismatches: messages for the others."""

    num_agreeing: int = 0
    num_compared: int = 0
    mismatches: list[str] = field(default_factory=list)
    report: ScoringReport = field(default_factory=ScoringReport)

    @property
    def exit_code(self) -> int:
        """0 if all scores agree, else 1; without scores to compare with, the exit code of scoring."""
        if self.report.interrupted or not self.num_compared:
            return self.report.exit_code
        return 1 if self.mismatches else 0


def is_golden(path: Path) -> bool:
    """Whether a file has JSON lines and is no recording. Raises `InputError` if it cannot be read."""
    try:
        with open_regular(path) as opened:
            return opened.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def replay_golden(name: str | None, path: Path, protocol: str | None) -> ReplayReport:
    """Replay golden cases of EdiVal-IF; `protocol` defaults to `official`, the source of their verdicts."""
    if name not in (None, *GOLDEN_REWARDS):
        raise InputError(
            f"{path} contains golden cases of edival, not of {name}: `editcritic dev replay edival {path}`"
        )
    with input_errors(ValueError):
        num_agreeing, total, mismatches = replay_cases(path, protocol or "official")
    return ReplayReport(num_agreeing, total, mismatches)


def replay_recording(
    name: str | None,
    recording: RecordingReader,
    protocol: str | None,
    *,
    write: Callable[[str, Score, str], None],
    on_problem: Callable[[str], None],
) -> ReplayReport:
    """Score the samples of a recording from its answers. write: called with id, score and the reward's signature.

    name: a reward as on the command line; None replays the recorded one and compares the scores. A query without a
    recorded answer fails the scores that need it.
    """
    spec = recording.spec if name is None else spec_argument(name)
    if name is None:  # of the recorded spec, only the metric is built
        require_trusted(spec["reward"] if isinstance(spec, Mapping) and "reward" in spec else spec, recording.log.path)
    reward = load_reward(spec, protocol, experts=recording.experts(), log=recording.log, on_failures="none")
    replay, signature = ReplayReport(), reward.known_signature
    compare = name is None and protocol is None

    def add_score(sample: str, score: Score) -> None:
        write(sample, score, signature)
        recorded = recording.recorded_score(sample) if compare else None
        if recorded is not None:
            replay.num_compared += 1
            replay.num_agreeing += same_score(score, recorded)
            if not same_score(score, recorded):
                replay.mismatches.append(
                    f"{sample}: recorded {_format_score(recorded)}, got {_format_score(score.to_json())}"
                )

    entries = (SampleEntry(f"{recording.log.path}, sample {sample.id}", sample) for sample in recording.samples())
    replay.report = score_entries(reward, entries, add_score, on_problem=on_problem)
    return replay


def _format_score(score: dict[str, object]) -> str:
    value = score["value"]
    reason = f" ({one_line(str(score['reason']))})" if score.get("reason") else ""
    return f"{value if value is not None else score['status']}{reason}"
