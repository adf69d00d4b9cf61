"""Result rows and their JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...reward import Score
from ..suites.results import ResultRow
from ..suites.suite import SuiteItem


def result_row(item: SuiteItem, edited_digest: str, scores: Mapping[str, Score]) -> ResultRow:
    """The row of a scored item. edited_digest: of its output image."""
    return ResultRow(item.id, item.case, item.labels, scores, "", edited_digest, item.sample.instruction)


def missing_row(item: SuiteItem, reason: str) -> dict[str, Any]:
    """The row of an item that was not scored, as JSON."""
    return ResultRow(item.id, item.case, item.labels, {}, reason, "", item.sample.instruction).to_json()


def row_line(row: Mapping[str, Any]) -> str:
    """The line of `scores.jsonl`, without its line break."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False)
