"""Where a result comes from: everything that decides its numbers, and nothing that differs between equal runs."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...reward import Expert, ExpertDown, Metric, SpecError, spec_of
from ..suites.results import Row
from ..suites.suite import Suite
from .judging import Judges
from .outputs import digest_of

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
    "vllm",
)
"""Whose versions are written beside a result, where they are installed."""


def settings_of(
    suite: Suite, judges: Judges, experts: Mapping[str, Expert], editor: str, protocol: str | None, reproducible: bool
) -> dict[str, Any]:
    """What has to be equal for a run to go on from another one's journal, as plain JSON.

    The pictures are not in it: rows say which pictures they are about.
    """
    found = {
        "suite": suite.name,
        "options": dict(suite.options),
        "data": suite.digest,
        "editor": editor,
        "protocol": protocol,
        "metrics": dict(judges.specs),
        "versions_of_metrics": {name: metric.card.signature for name, metric in judges.metrics.items()},
        "experts": {role: described(expert) for role, expert in sorted(experts.items())},
        "prompts": prompts_of(judges.metrics.values()),
        "reproducible": reproducible,
    }
    plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return plain


def provenance_of(
    settings: Mapping[str, Any],
    suite: Suite,
    judges: Judges,
    rows: Sequence[Row],
    draws: int,
    seed: int,
    complete: bool,
) -> dict[str, Any]:
    """What `result.json` says: the settings, the pictures, the versions, and whose suite it is."""
    about = suite.about
    return {
        **settings,
        "outputs": digest_of((row.id, row.edited) for row in rows if row.edited),
        "signatures": {name: _signatures(name, rows) for name in judges.metrics},
        "left_out": dict(judges.left_out),
        "bootstrap": {"draws": draws, "seed": seed},
        "complete": complete,
        "versions": versions(),
        "about": {
            "title": about.title,
            "citation": about.citation,
            "licence": about.licence,
            "url": about.url,
        },
    }


def described(expert: Expert) -> dict[str, Any]:
    """Its id (model, revision, options) and its spec, as far as it has one."""
    found: dict[str, Any] = {}
    try:
        found["id"] = expert.id
    except (ExpertDown, OSError) as error:
        found["id"] = f"unknown: {error}"
    try:
        found["spec"] = spec_of(expert)
    except (SpecError, TypeError, ValueError):  # the last two: a class without a signature
        found["spec"] = None
    return found


def prompts_of(metrics: Iterable[Metric]) -> dict[str, str]:
    """Package -> digest of its prompts as they are asked, a prompt pack laid over them where there is one."""
    found: dict[str, set[str]] = {}
    for metric in metrics:
        for part in _parts(metric, set()):
            package = _module(part).rpartition(".")[0]
            texts = _texts(package)
            pack = getattr(part, "prompts", None)
            if not texts and not isinstance(pack, str):
                continue
            if isinstance(pack, str):
                texts = texts | {path.name: path.read_bytes() for path in sorted(Path(pack).glob("*.txt"))}
            state = hashlib.sha256()
            for name in sorted(texts):
                state.update(name.encode() + b"\0" + texts[name] + b"\0")
            found.setdefault(package, set()).add(state.hexdigest()[:16])
    return {package: "+".join(sorted(digests)) for package, digests in sorted(found.items())}


def versions() -> dict[str, str]:
    """Of Python and of the libraries that are installed."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _signatures(name: str, rows: Sequence[Row]) -> list[str]:
    return sorted({score.metric for row in rows if (score := row.scores.get(name)) is not None})


def _module(thing: Any) -> str:
    found = getattr(thing, "__module__", None) or type(thing).__module__
    return str(found)


def _parts(thing: Any, seen: set[int]) -> Iterator[Any]:
    """A metric and everything of the kind that it keeps."""
    if id(thing) in seen or isinstance(thing, str | int | float | bool | bytes | type(None)):
        return
    seen.add(id(thing))
    if isinstance(thing, Mapping):
        inside: Iterable[Any] = thing.values()
    elif isinstance(thing, list | tuple | set | frozenset):
        inside = thing
    else:
        yield thing
        inside = [getattr(thing, name) for name in _fields(thing)]
    for one in inside:
        yield from _parts(one, seen)


def _fields(thing: Any) -> Iterable[str]:
    named = getattr(type(thing), "__dataclass_fields__", None)
    return named if named is not None else getattr(thing, "__dict__", ())


def _texts(package: str) -> dict[str, bytes]:
    if not package:
        return {}
    try:
        folder = files(package) / "prompts"
        return {one.name: one.read_bytes() for one in folder.iterdir() if one.name.endswith(".txt")}
    except (ImportError, OSError, TypeError, ValueError):
        return {}
