"""Replies in which a judge gives no answer of its own are not read, and those in which it does are.

`replies/adversarial.jsonl` and `replies/honest.jsonl` were written by somebody who had not read the parser; it was
developed on one half of each. `python -m tests.reward.queries.test_reply_text` prints what is misread.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from editcritic.reward.metrics.dlebench.labels import CONSISTENCY, FOLLOWING
from editcritic.reward.metrics.dlebench.verdict_parsing import parse_verdict
from editcritic.reward.queries import Failure, Grade, Json, Levels, YesNo
from editcritic.reward.queries.parsing import parse_integer, parse_json, parse_option, parse_yes_no
from editcritic.reward.queries.reply_text import answer_start, quotations
from editcritic.reward.queries.response_formats import ResponseFormat, parse_reply

HALVES = ("development", "held-back")


def rows(name: str, half: str) -> Iterator[dict[str, Any]]:
    with (Path(__file__).parent / "replies" / f"{name}.jsonl").open(encoding="utf-8") as lines:
        yield from (row for row in map(json.loads, lines) if row["half"] == half)


def form_of(row: dict[str, Any]) -> ResponseFormat:
    match row["form"]:
        case "yes_no":
            return YesNo()
        case "levels":
            return Levels(tuple(row["options"]), tuple(map(float, range(len(row["options"])))))
        case "grade":
            return Grade(row["low"], row["high"], criterion=row.get("criterion") or "")
        case _:
            return Json.from_schema(row["schema"])


def read(row: dict[str, Any]) -> Any:
    """What is read in a reply, as its row says it; None where nothing is."""
    try:
        if row["form"] == "verdict":
            return parse_verdict(
                next(scale for scale in (FOLLOWING, CONSISTENCY) if scale.labels[0] in row["options"]), row["text"]
            )
        form = form_of(row)
        reply = parse_reply(form, row["text"], finished=row["finish"] != "length")
        if isinstance(reply, Failure):
            return None
        return reply.text if isinstance(form, Levels) else form.reply_value(reply)
    except ValueError:
        return None


def read_bare(row: dict[str, Any]) -> Any:
    """The same by the parsers themselves."""
    form, text = form_of(row), row["text"]
    bare: Callable[[], Any] = {
        "yes_no": lambda: parse_yes_no(text),
        "levels": lambda: parse_option(row["options"], text),
        "grade": lambda: parse_integer(text, row["low"], row["high"], row.get("criterion") or ""),
        "json": lambda: parse_json(form.schema if isinstance(form, Json) else "", text),
    }[row["form"]]
    try:
        return bare()
    except ValueError:
        return None


def misread(half: str) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """Replies of a half that are misread, with what is read in them, by what they are."""
    adversarial, honest = list(rows("adversarial", half)), list(rows("honest", half))
    return {
        "adversarial": [(row, value) for row in adversarial if (value := read(row)) is not None],
        "honest": [(row, value) for row in honest if (value := read(row)) != row["value"]],
        "honest, bare": [
            (row, value)
            for row in honest
            if row["form"] != "verdict" and "</think" not in row["text"] and (value := read_bare(row)) != row["value"]
        ],
    }


if __name__ == "__main__":
    for name, wrong in misread(sys.argv[1] if len(sys.argv) > 1 else "development").items():
        print(f"{name}: {len(wrong)} misread")
        for row, value in wrong:
            print(f"  {row['id']} {row['kind']}: {row['text']!r} is read as {value!r}, not {row.get('value')!r}")
