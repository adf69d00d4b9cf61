"""A run as plain data: typed on the command line, written to files, sent to other machines, and built there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from ...reward import Expert, default_experts, load_experts
from ...reward.queries.specs import Spec
from ...reward.strict_json import MAX_INTEGER
from ..common.defaults import BOOTSTRAP_SAMPLES
from ..common.errors import InputError
from ..suites.suite import Suite
from .run_config import RunConfig
from .suite_loading import load_suite

MAX_BOOTSTRAP_SAMPLES = 100_000
"""Ten million numbers for a hundred cases."""


@dataclass(frozen=True)
class RunSpec:
    """The serializable form of a `RunConfig`.

    suite: its spec. data: path of its data, None for built-in suites. experts: as in `load_experts`, or role -> spec.
    Other fields as in `RunConfig`.
    """

    suite: Spec
    data: Path | None
    outputs: Path
    editor: str
    experts: tuple[str, ...] | Mapping[str, Spec] = ()
    protocol: str | None = None
    metrics: tuple[str, ...] = ()
    reproducible: bool = False
    bootstrap_samples: int = BOOTSTRAP_SAMPLES
    seed: int = 0

    def to_json(self, out: Path) -> dict[str, Any]:
        """The `invocation` of `run.json`: paths are relative to the result folder."""
        return {
            "suite": self.suite,
            "data": None if self.data is None else relative_path(self.data, out),
            "outputs": relative_path(self.outputs, out),
            "experts": self.experts if isinstance(self.experts, Mapping) else list(self.experts),
            "metrics": list(self.metrics),
        }

    def build(self, experts: Mapping[str, Expert] | None = None, suite: Suite | None = None) -> RunConfig:
        """experts, suite: those of the spec, if they are built already: runs that share experts load each model once.

        Raises `InputError` or `SpecError` if it cannot be built.
        """
        for name, value, limit in (
            ("bootstrap samples", self.bootstrap_samples, MAX_BOOTSTRAP_SAMPLES),
            ("the seed", self.seed, MAX_INTEGER),
        ):
            if type(value) is not int or not 0 <= value <= limit:
                raise InputError(f"{name}: expected an integer of 0 to {limit:,}, got {value!r:.80}")
        bound = load_experts(self.experts, default_experts()) if experts is None else experts
        return RunConfig(
            load_suite(self.suite, self.data) if suite is None else suite,
            self.outputs,
            self.editor,
            bound,
            self.protocol,
            self.metrics,
            self.reproducible,
            self.bootstrap_samples,
            self.seed,
        )


def option_tables(metrics: Sequence[Any]) -> list[dict[str, str]]:
    """The options of metrics from a file, as `require_trusted` reads them."""
    texts = [text.partition("?")[2] for text in metrics if isinstance(text, str)]
    return [{"use": "", **dict(parse_qsl(query))} for query in texts]


def relative_path(path: Path, start: Path) -> str:
    """A path relative to a folder; absolute if there is none, as between drives."""
    try:
        return Path(os.path.relpath(path.resolve(), start.resolve())).as_posix()
    except ValueError:
        return str(path.resolve())
