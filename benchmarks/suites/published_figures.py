"""Published figures of the papers: for comparison, and to test our arithmetic."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

PUBLISHED_FILE = "published_figures.json"


@cache
def published_figures(suite: str) -> dict[str, Any]:
    """The figures of a suite's paper. suite: its folder, e.g. `complexedit`.

    `about` and `source` cite the paper, `unit` is the unit, `tables` has the figures by table number, and `notes` lists
    contradictions in the paper and chosen interpretations. None of them was measured by editcritic.
    """
    text = files(__package__).joinpath(f"{suite}/{PUBLISHED_FILE}").read_text(encoding="utf-8")
    figures: dict[str, Any] = json.loads(text)
    return figures
