"""A run that is built from its settings, and the provenance of its results: everything that determines the numbers."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...reward import Expert, SpecError, default_experts, load_experts, spec_of
from ...reward.metrics import Metric
from ...reward.queries import ExpertDown
from ...reward.queries.identity import metric_digest, signature_with_identity
from ...reward.queries.prompts import Prompts
from ..suites.results import RANGES_ENTRY, ResultRow
from ..suites.suite import Suite
from .editor_outputs import outputs_digest
from .run_settings import RunSettings
from .suite_loading import MetricSet, load_suite

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


@dataclass(frozen=True)
class RunConfig:
    """A run that can start: its settings, the suite as its protocol reads it, and the experts of the roles."""

    settings: RunSettings
    suite: Suite
    experts: Mapping[str, Expert]

    @staticmethod
    def build(
        settings: RunSettings, experts: Mapping[str, Expert] | None = None, suite: Suite | None = None
    ) -> RunConfig:
        """experts, suite: those of the settings, if they are built already: runs that share experts load each model
        once. Raises `InputError` or `SpecError` if it cannot be built."""
        bound = load_experts(settings.experts, default_experts()) if experts is None else experts
        if suite is None:
            assert settings.suite is not None
            suite = load_suite(settings.suite, settings.data)
        return RunConfig(settings, suite.under(settings.protocol), bound)

    @property
    def outputs(self) -> Path:
        """The folder of the editor's images."""
        return self.settings.outputs or Path()

    @cached_property
    def metric_set(self) -> MetricSet:
        """Raises `InputError`; see `MetricSet.select`."""
        return MetricSet.select(self.suite, self.experts, self.settings.protocol, self.settings.metrics)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What has to be equal to resume from a journal, as plain JSON. Output images are not in it: rows have their
        digests."""
        metrics = self.metric_set.metrics
        identity = {
            "suite": self.suite.name,
            "suite_options": dict(self.suite.options),
            "data_digest": self.suite.digest,
            "editor": self.settings.editor,
            "protocol": self.settings.protocol,
            "metrics": dict(self.metric_set.specs),
            RANGES_ENTRY: {name: list(metric.card.range) for name, metric in metrics.items()},
            "metric_signatures": {name: metric_signature(metric) for name, metric in metrics.items()},
            "experts": {role: describe_expert(expert) for role, expert in sorted(self.experts.items())},
            "prompts": prompt_digests(metrics.values()),
            "reproducible": self.settings.reproducible,
        }
        plain: dict[str, Any] = json.loads(json.dumps(identity, default=str))
        return plain

    def provenance(self, rows: Sequence[ResultRow], complete: bool) -> dict[str, Any]:
        """The provenance in `result.json`: identity, digest of the outputs, versions, and the suite's citation."""
        info = self.suite.info
        return {
            **self.identity,
            "outputs_digest": outputs_digest((row.id, row.edited) for row in rows if row.edited),
            "score_signatures": {
                name: sorted({score.metric for row in rows if (score := row.scores.get(name)) is not None})
                for name in self.metric_set.metrics
            },
            "skipped_metrics": dict(self.metric_set.skipped),
            "bootstrap": {"samples": self.settings.bootstrap_samples, "seed": self.settings.seed},
            "complete": complete,
            "versions": library_versions(),
            "suite_info": {name: getattr(info, name) for name in ("title", "citation", "licence", "url")},
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
            module = getattr(part, "__module__", None) or type(part).__module__
            package = str(module).rpartition(".")[0]
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


def _nested_parts(value: Any, visited: set[int]) -> Iterator[Any]:
    if id(value) in visited or isinstance(value, str | int | float | bool | bytes | type(None)):
        return
    visited.add(id(value))
    if isinstance(value, Mapping):
        children: Iterable[Any] = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        children = value
    else:
        yield value
        fields = getattr(type(value), "__dataclass_fields__", None)
        children = [getattr(value, name) for name in (getattr(value, "__dict__", ()) if fields is None else fields)]
    for child in children:
        yield from _nested_parts(child, visited)


def _texts(package: str) -> dict[str, bytes]:
    if not package:
        return {}
    try:
        folder = files(package) / "prompts"
        return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(".txt")}
    except (ImportError, OSError, TypeError, ValueError):
        return {}
