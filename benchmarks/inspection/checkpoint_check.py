"""Compare a local model with published scores.

References are TOML files in `references`: the source of the numbers, and for each image the query and the score.
Nothing is downloaded: missing files are reported with their source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from rich.console import Group, RenderableType
from rich.text import Text

from ...reward import Box, Expert, Image
from ...reward.digests import sha256
from ...reward.experts.loading.local_expert import LocalExpert
from ...reward.file_specs import require_trusted
from ...reward.queries import Detect, Detections, Embed, Embeddings, ExpertDown, Failure, Measurement, Rate, Region
from ...reward.queries.kinds import EmbedText, Query
from ...reward.toml_files import read_toml, tomllib
from ..common.errors import InputError
from ..common.inputs import IMAGE_SUFFIXES
from ..common.terminal import plain_table
from .local_weights import find_weights, hub_offline
from .model_requirements import bind_experts, registry_name, weight_owner

_FOLDER = "references"
Tolerance = Annotated[float, Field(gt=0)]


class ReferenceItem(BaseModel):
    """One query and its published result. query: `rate` (value: the rating of `quality` for `prompt`), `detect` (value:
    the score of the box for `label`, one of `phrases`, at `box`: left, top, right, bottom in pixels), `similarity`
    (value: the cosine of image and `text`) or `embed` (values: the first numbers of the class token). tolerance:
    maximum difference; box_tolerance: the same for the sides of a box, in pixels. url: of the image, if it is not below
    `images_url`. sha256: of its file, if known."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    image: str
    query: Literal["rate", "detect", "similarity", "embed"] = "rate"
    sources: tuple[str, ...] = ()
    prompt: str = ""
    quality: str = "preference"
    phrases: tuple[str, ...] = ()
    label: str = ""
    box: tuple[float, float, float, float] | None = None
    box_tolerance: Tolerance = 2.0
    text: str = ""
    value: float | None = None
    values: tuple[float, ...] = ()
    tolerance: Tolerance
    url: str = ""
    sha256: str = ""

    @model_validator(mode="after")
    def _whole(self) -> ReferenceItem:
        missing = {
            "rate": self.value is None and "value",
            "detect": (not self.phrases and "phrases") or (self.value is None and "value"),
            "similarity": (not self.text and "text") or (self.value is None and "value"),
            "embed": not self.values and "values",
        }[self.query]
        if missing:
            raise ValueError(f"an item of {self.image} with the query {self.query} needs {missing}")
        if self.label and self.label not in self.phrases:
            raise ValueError(f"the label {self.label!r} is not one of the phrases {list(self.phrases)}")
        return self


class ModelReference(BaseModel):
    """Published scores of a model. expert: its spec. source: of the numbers. images_url: URL prefix of the image names.
    note: known reasons of differences."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    expert: str
    source: str
    images_url: str = ""
    note: str = ""
    item: tuple[ReferenceItem, ...] = Field(min_length=1)


def references() -> dict[str, str]:
    """Texts of the package's references by name."""
    folder = files(__package__ or "") / _FOLDER
    return {
        file.name.removesuffix(".toml"): file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".toml")
    }


def read_reference(name: str) -> ModelReference:
    """A reference by its name, or from a TOML file. Raises `InputError`, and `SpecError` for a file whose expert names
    what is neither installed nor trusted (see `file_specs`)."""
    if name.endswith(".toml"):
        try:
            table = read_toml(name)
        except OSError as error:
            raise InputError(f"cannot read {name}: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"{name} is not TOML: {error}") from None
    else:
        available = references()
        if name not in available:
            raise InputError(
                f"there is no reference {name!r}: there are {', '.join(available)}; or give your own TOML file"
            )
        table = tomllib.loads(available[name])
    try:
        reference = ModelReference.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        raise InputError(f"{name} is not a reference: {f'{location}: ' if location else ''}{first['msg']}") from None
    if name.endswith(".toml"):
        require_trusted(f"checked={reference.expert}", name, inside="experts")
    return reference


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One number, or the one of several with the largest difference. verdict: `agrees`, `differs` or `failed`."""

    image: str
    query: str
    expected: str
    actual: str
    difference: float | None
    tolerance: float
    verdict: str


@dataclass(frozen=True)
class ModelCheck:
    """The comparison with a reference."""

    reference: ModelReference
    expert: str
    rows: tuple[CheckRow, ...]

    @property
    def exit_code(self) -> int:
        """1 if a score differs or failed."""
        return int(any(row.verdict != "agrees" for row in self.rows))

    def to_json(self) -> dict[str, Any]:
        description = {name: getattr(self.reference, name) for name in ("model", "source", "note")}
        return {**description, "expert": self.expert, "rows": [asdict(row) for row in self.rows]}


def check_model(name: str, images: Path, experts: Sequence[str] = ()) -> ModelCheck:
    """Query the model as the reference describes. experts: one expert to use instead of the reference's. Raises
    `InputError` for missing files and invalid references."""
    reference = read_reference(name)
    bound = bind_experts(experts or [f"checked={reference.expert}"])
    if len({id(expert) for expert in bound.values()}) != 1:
        raise InputError(f"--check-model compares one expert, got {len(bound)}: {', '.join(bound)}")
    expert = next(iter(bound.values()))
    images_by_name, missing = _load_images(reference, images)
    missing += _weights(expert)
    if missing:
        raise InputError("; ".join(missing))
    queries = [_query(item, images_by_name) for item in reference.item]
    with hub_offline():
        try:
            outcomes = _answers(expert, [query for item_queries in queries for query in item_queries])
            expert_id = expert.id
        except ExpertDown as error:
            raise InputError(f"{reference.model} cannot be queried: {error}") from None
    outcome_iterator = iter(outcomes)
    rows = [
        row
        for item, item_queries in zip(reference.item, queries, strict=True)
        for row in _compare_item(item, [next(outcome_iterator) for _ in item_queries], images_by_name[item.image])
    ]
    return ModelCheck(reference, expert_id, tuple(rows))


def _load_images(reference: ModelReference, folder: Path) -> tuple[dict[str, Image], list[str]]:
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}")
    images: dict[str, Image] = {}
    missing: dict[str, str] = {}
    for item in reference.item:
        for name in (item.image, *item.sources):
            if name in images or name in missing:
                continue
            named = folder / name
            candidates = (named, *(named.with_suffix(suffix) for suffix in sorted(IMAGE_SUFFIXES)))
            path = next((candidate for candidate in candidates if candidate.is_file()), None)
            url = item.url or (f"{reference.images_url.rstrip('/')}/{name}" if reference.images_url else "")
            if path is None:
                missing[name] = f"{name}{f' from {url}' if url else ''}"
            elif item.sha256 and name == item.image and sha256(path) != item.sha256:
                raise InputError(f"{path} differs from the scored image: its sha256 is {sha256(path)}")
            else:
                images[name] = Image.of(path)
    message = f"images are missing in {folder}: {', '.join(missing.values())}"
    return images, [message] if missing else []


def _weights(expert: Expert) -> list[str]:
    expert, _ = weight_owner(expert)
    if not isinstance(expert, LocalExpert):
        return []
    with hub_offline():
        weights = find_weights(expert.name, expert.revision, expert.weights_file)
    if weights.is_complete:
        return []
    if weights.source in ("folder", "file", "nowhere"):
        reason = weights.problem or f"{weights.path} lacks {', '.join(weights.missing_files)}"
        return [f"weights are missing: {reason}"]
    entry = registry_name(expert.name)
    file = "" if expert.weights_file == "config.json" else f" {expert.weights_file}"
    terms = f" ({entry.licence}{', gated: accept its terms there first' if entry.gated else ''})" if entry else ""
    return [f"weights of {expert.name} are not local: hf download {expert.name}{file}{terms}"]


def _query(item: ReferenceItem, images: Mapping[str, Image]) -> list[Query[Any]]:
    image = images[item.image]
    match item.query:
        case "rate":
            return [Rate(image, item.prompt, item.quality, tuple(images[name] for name in item.sources))]
        case "detect":
            return [Detect(image, item.phrases)]
        case "similarity":
            return [Embed(image, (Region("cls"),)), EmbedText(item.text)]
        case "embed":
            return [Embed(image, (Region("cls"),))]


def _answers(expert: Expert, queries: Sequence[Query[Any]]) -> list[Any]:
    """Outcomes in the order of the queries; the expert gets one kind per call, in batches."""
    unsupported = {type(query) for query in queries} - set(expert.kinds)
    if unsupported:
        names = ", ".join(sorted(kind.kind for kind in unsupported))
        raise ExpertDown(f"{type(expert).__name__} does not answer {names}")
    expert.load()
    answers: dict[int, Any] = {}
    for kind in dict.fromkeys(map(type, queries)):
        indices = [index for index, query in enumerate(queries) if type(query) is kind]
        for start in range(0, len(indices), expert.batch):
            chunk = indices[start : start + expert.batch]
            answers |= dict(zip(chunk, expert([queries[index] for index in chunk]), strict=True))
    return [answers[index] for index in range(len(queries))]


def _compare_item(item: ReferenceItem, outcomes: Sequence[Any], image: Image) -> list[CheckRow]:
    query = {"rate": item.quality, "detect": _label(item), "similarity": item.text, "embed": "first features"}[
        item.query
    ]
    failure = next((first for first in outcomes if not isinstance(first, Measurement | Detections | Embeddings)), None)
    if failure is not None:
        reason = failure.reason if isinstance(failure, Failure) else getattr(failure, "reason", repr(failure))
        return [CheckRow(item.image, query, _numbers(item), reason, None, item.tolerance, "failed")]
    match item.query:
        case "rate":
            return [_row(item, query, outcomes[0].value)]
        case "similarity":
            first, second = (outcome.values[0].astype(float) for outcome in outcomes)
            return [_row(item, query, float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second))))]
        case "embed":
            return [_list_row(item, query, outcomes[0].values[0][: len(item.values)])]
        case "detect":
            return _boxes(item, outcomes[0], image)


def _row(item: ReferenceItem, query: str, actual: float) -> CheckRow:
    assert item.value is not None
    difference = abs(actual - item.value)
    verdict = "agrees" if difference <= item.tolerance else "differs"
    return CheckRow(item.image, query, f"{item.value:.4g}", f"{actual:.4g}", difference, item.tolerance, verdict)


def _list_row(item: ReferenceItem, query: str, actual: Any) -> CheckRow:
    difference = (
        float(np.abs(np.array(item.values) - actual).max()) if len(actual) == len(item.values) else float("inf")
    )
    verdict = "agrees" if difference <= item.tolerance else "differs"
    shown = ", ".join(f"{number:.4g}" for number in actual)
    return CheckRow(item.image, query, _numbers(item), shown, difference, item.tolerance, verdict)


def _boxes(item: ReferenceItem, detections: Detections, image: Image) -> list[CheckRow]:
    """Rows for the box nearest to the published one, or for the highest score if no box is published."""
    label = _label(item)
    of_label = [box for box in detections.boxes if box.label == label]
    if not of_label:
        return [CheckRow(item.image, label, _numbers(item), "no box", None, item.tolerance, "failed")]
    if item.box is None:
        return [_row(item, label, max(box.score for box in of_label))]
    expected_corners = np.array(item.box)
    distance, box = min(
        ((float(np.abs(expected_corners - _corners(box, image)).max()), box) for box in of_label),
        key=lambda pair: pair[0],
    )
    verdict = "agrees" if distance <= item.box_tolerance else "differs"
    expected, actual = (
        ", ".join(f"{side:.0f}" for side in sides) for sides in (expected_corners, _corners(box, image))
    )
    box_row = CheckRow(item.image, f"{label}: box", expected, actual, distance, item.box_tolerance, verdict)
    return [_row(item, label, box.score), box_row]


def _corners(box: Box, image: Image) -> Any:
    """Left, top, right, bottom in pixels; not clipped to the image."""
    width, height = image.size
    return np.array([box.x0 * width, box.y0 * height, box.x1 * width, box.y1 * height])


def _label(item: ReferenceItem) -> str:
    return item.label or (item.phrases[0] if item.phrases else "")


def _numbers(item: ReferenceItem) -> str:
    return ", ".join(f"{number:.4g}" for number in (item.values or (item.value,)) if number is not None)


def table(check: ModelCheck) -> RenderableType:
    """The comparison as a table, for a terminal of at least 80 columns."""
    columns = ("image", "query", "expected", "actual", "difference", "tolerance", "")
    grid = plain_table(f"{check.reference.model} by {check.expert}", *columns)
    for row in check.rows:
        difference = "" if row.difference is None else f"{row.difference:.3g}"
        style = {"agrees": "green", "differs": "red", "failed": "red"}[row.verdict]
        grid.add_row(
            *map(Text, (row.image, row.query, row.expected, row.actual, difference, f"{row.tolerance:.2g}")),
            Text(row.verdict, style),
        )
    lines = [f"\nPublished: {check.reference.source}"]
    if check.reference.note:
        lines.append(check.reference.note)
    return Group(grid, *map(Text, lines))
