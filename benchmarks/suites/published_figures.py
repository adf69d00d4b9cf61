"""Figures that the papers print, kept with their suites: to compare with, and to test our arithmetic against."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

FILE = "published_figures.json"


@cache
def published_figures(suite: str) -> dict[str, Any]:
    """The figures of a suite's paper. suite: the folder, as in `complexedit`.

    `about` and `source` say whose they are, `unit` what they count, `tables` holds them by the number of the table, and
    `notes` says where the paper contradicts itself or a reading was chosen. None of them was measured by editcritic.
    """
    text = files(__package__).joinpath(f"{suite}/{FILE}").read_text(encoding="utf-8")
    figures: dict[str, Any] = json.loads(text)
    return figures
