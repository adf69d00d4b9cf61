"""Rows of results, and their lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...reward import Score
from ..suites.results import Row
from ..suites.suite import Item


def row_of(item: Item, edited: str, scores: Mapping[str, Score]) -> Row:
    """Of an item that was judged. edited: digest of its picture."""
    return Row(item.id, item.case, item.labels, scores, "", edited, item.sample.instruction)


def missing_row(item: Item, why: str) -> dict[str, Any]:
    """Of an item that was not, as JSON."""
    return Row(item.id, item.case, item.labels, {}, why, "", item.sample.instruction).to_json()


def line_of(row: Mapping[str, Any]) -> str:
    """As in `scores.jsonl`, without its end."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False)
