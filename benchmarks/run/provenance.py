"""Provenance of results: everything that determines the numbers, and nothing that differs between equal runs."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

from ...reward import Expert, SpecError, spec_of
from ...reward.metrics import Metric
from ...reward.queries import ExpertDown
from ...reward.queries.identity import metric_digest, signature_with_identity
from ...reward.queries.prompts import Prompts
from ..suites.results import RANGES_ENTRY, ResultRow
from ..suites.suite import Suite
from .editor_outputs import outputs_digest
from .suite_metric import MetricSet

LIBRARIES = (
    "editcritic",
    "numpy",
    "pillow",
    "opencv-python-headless",
    "torch",
    "transformers",
    "diffusers",
    "accelerate",
    "llguidance",
    "onnxruntime",
    "openai",
    "rapidocr",
)
"""Libraries whose versions are recorded, if installed."""


def run_settings(
    suite: Suite,
    metric_set: MetricSet,
    experts: Mapping[str, Expert],
    editor: str,
    protocol: str | None,
    reproducible: bool,
) -> dict[str, Any]:
    """Settings that have to be equal to resume from a journal, as plain JSON.

    Output images are not included: rows have their digests.
    """
    settings = {
        "suite": suite.name,
        "suite_options": dict(suite.options),
        "data_digest": suite.digest,
        "editor": editor,
        "protocol": protocol,
        "metrics": dict(metric_set.specs),
        RANGES_ENTRY: {name: list(metric.card.range) for name, metric in metric_set.metrics.items()},
        "metric_signatures": {name: metric_signature(metric) for name, metric in metric_set.metrics.items()},
        "experts": {role: describe_expert(expert) for role, expert in sorted(experts.items())},
        "prompts": prompt_digests(metric_set.metrics.values()),
        "reproducible": reproducible,
    }
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return plain


def run_provenance(
    settings: Mapping[str, Any],
    suite: Suite,
    metric_set: MetricSet,
    rows: Sequence[ResultRow],
    bootstrap_samples: int,
    seed: int,
    complete: bool,
) -> dict[str, Any]:
    """The provenance in `result.json`: settings, digest of the outputs, versions, and the suite's citation."""
    info = suite.info
    return {
        **settings,
        "outputs_digest": outputs_digest((row.id, row.edited) for row in rows if row.edited),
        "score_signatures": {name: _signatures(name, rows) for name in metric_set.metrics},
        "skipped_metrics": dict(metric_set.skipped),
        "bootstrap": {"samples": bootstrap_samples, "seed": seed},
        "complete": complete,
        "versions": library_versions(),
        "suite_info": {
            "title": info.title,
            "citation": info.citation,
            "licence": info.licence,
            "url": info.url,
        },
    }


def metric_signature(metric: Metric) -> str:
    """The signature of a metric with digits of its digest, if it has one: without experts, which are listed apart."""
    try:
        return signature_with_identity(metric.card.signature, metric_digest(metric))
    except (SpecError, TypeError, ValueError):  # the last two: a class without a signature
        return metric.card.signature


def describe_expert(expert: Expert) -> dict[str, Any]:
    """Id (model, revision, options) and spec of an expert; null without a spec."""
    description: dict[str, Any] = {}
    try:
        description["id"] = expert.id
    except (ExpertDown, OSError) as error:
        description["id"] = f"unknown: {error}"
    try:
        description["spec"] = spec_of(expert)
    except (SpecError, TypeError, ValueError):  # the last two: a class without a signature
        description["spec"] = None
    return description


def prompt_digests(metrics: Iterable[Metric]) -> dict[str, str]:
    """Package -> digest of its prompts, with the overrides of a prompt pack."""
    digests_by_package: dict[str, set[str]] = {}
    for metric in metrics:
        for part in _nested_parts(metric, set()):
            package = _module(part).rpartition(".")[0]
            texts = _texts(package)
            pack = getattr(part, "prompt_pack", None)
            if isinstance(pack, Prompts):
                texts = texts | {f"{name}.txt": content for name, content in pack.contents.items()}
            if not texts:
                continue
            state = hashlib.sha256()
            for name in sorted(texts):
                state.update(name.encode() + b"\0" + texts[name] + b"\0")
            digests_by_package.setdefault(package, set()).add(state.hexdigest()[:16])
    return {package: "+".join(sorted(digests)) for package, digests in sorted(digests_by_package.items())}


def library_versions() -> dict[str, str]:
    """Versions of Python and of the installed libraries."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _signatures(name: str, rows: Sequence[ResultRow]) -> list[str]:
    return sorted({score.metric for row in rows if (score := row.scores.get(name)) is not None})


def _module(value: Any) -> str:
    module = getattr(value, "__module__", None) or type(value).__module__
    return str(module)


def _nested_parts(value: Any, visited: set[int]) -> Iterator[Any]:
    """A metric and all objects nested in it."""
    if id(value) in visited or isinstance(value, str | int | float | bool | bytes | type(None)):
        return
    visited.add(id(value))
    if isinstance(value, Mapping):
        children: Iterable[Any] = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        children = value
    else:
        yield value
        children = [getattr(value, name) for name in _fields(value)]
    for child in children:
        yield from _nested_parts(child, visited)


def _fields(value: Any) -> Iterable[str]:
    fields = getattr(type(value), "__dataclass_fields__", None)
    return fields if fields is not None else getattr(value, "__dict__", ())


def _texts(package: str) -> dict[str, bytes]:
    if not package:
        return {}
    try:
        folder = files(package) / "prompts"
        return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(".txt")}
    except (ImportError, OSError, TypeError, ValueError):
        return {}
