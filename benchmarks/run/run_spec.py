"""A run in words: what is typed, written into files and sent to other machines, and made a run of there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...reward import load_experts, no_download
from ...reward.spec import Spec
from ..suites.figures import DRAWS
from .asked import Asked
from .loading import load_suite


@dataclass(frozen=True)
class Recipe:
    """What `Asked` is made of.

    suite: its spec. data: where its data lies, None for what is built in. experts: as `load_experts` takes them, or
    role -> spec. Other fields as in `Asked`.
    """

    suite: Spec
    data: Path | None
    outputs: Path
    editor: str
    experts: tuple[str, ...] | Mapping[str, Spec] = ()
    protocol: str | None = None
    metrics: tuple[str, ...] = ()
    reproducible: bool = False
    draws: int = DRAWS
    seed: int = 0

    def to_json(self, out: Path) -> dict[str, Any]:
        """What `run.json` keeps for doing it again: places relative to the folder of results."""
        return {
            "suite": self.suite,
            "data": None if self.data is None else relative(self.data, out),
            "outputs": relative(self.outputs, out),
            "experts": self.experts if isinstance(self.experts, Mapping) else list(self.experts),
            "metrics": list(self.metrics),
        }

    def asked(self) -> Asked:
        """Raises `InputError` or `SpecError` for what cannot be made."""
        experts = load_experts(self.experts, no_download())
        return Asked(
            load_suite(self.suite, self.data),
            self.outputs,
            self.editor,
            experts,
            self.protocol,
            self.metrics,
            self.reproducible,
            self.draws,
            self.seed,
        )


def relative(path: Path, to: Path) -> str:
    """The way from a folder to a path; the path itself where there is none, as between drives."""
    try:
        return Path(os.path.relpath(path.resolve(), to.resolve())).as_posix()
    except ValueError:
        return str(path.resolve())
