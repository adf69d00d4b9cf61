"""Experts by tables: a judge that says what stands there for a topic, a detector that knows where phrases are."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import cv2
import skimage.data

from editcritic.reward import Box, Expert
from editcritic.reward.queries import Detect, Detections, Failure, Judge, Reply
from editcritic.reward.queries.answers import Outcome

Says = str | Failure | Callable[[Judge], "str | Failure"]

_FIELDS = ("object", "color", "material", "text", "count", "foreground")
_LISTED = {
    "denim blue jacket": ("jacket", "blue", "denim", None, 1, True),
    "metal yellow sign": ("sign", "yellow", "metal", "SLOW", 1, False),
    "wicker basket": ("basket", None, "wicker", None, 3, True),
}
LISTING = json.dumps(
    {name: dict(zip(_FIELDS, values, strict=True)) for name, values in _LISTED.items()}
    | {"All Objects": "".join(f"{name}. " for name in _LISTED).strip()}
)


def sentence(judge: Judge) -> str:
    """Moves the first object to the second, or counts the first whose number differs."""
    slots = dict(judge.slots)
    names = slots["objects"].split(", ")
    if "count" in slots:
        name = next(one for one in names if one != "wicker basket" or slots["count"] != "3")
        return f'"Change the count of [{name}] to [{slots["count"]}]"'
    return f"Change the position of [{names[0]}] to [left] of [{names[1]}]"


EDIVAL: Mapping[str, Says] = {
    "making/edival/objects": LISTING,
    "making/edival/replace": "New object name: Harbour Crane.",
    "making/edival/material": "stone",
    "making/edival/position": sentence,
    "making/edival/count": sentence,
    "making/edival/text": '"FRESH BREAD"',
    "making/edival/color": lambda judge: "Purple" if "blue" in dict(judge.slots)["color"] else "blue",
    "making/edival/add": "a barrel",
    "making/edival/background": "Meadow.",
}


class Script(Expert):
    """Replies from a table by topic or `topic#draw`, and counts queries."""

    id = "script@1"
    kinds: ClassVar = (Judge,)

    def __init__(self, table: Mapping[str, Says] | None = None) -> None:
        self.table = {**EDIVAL, **(table or {})}
        self.queries: Counter[str] = Counter()

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Judge) -> Outcome:
        self.queries[query.digest] += 1
        says = self.table.get(f"{query.topic}#{query.draw}", self.table.get(query.topic, Failure("not in the table")))
        reply = says(query) if callable(says) else says
        return reply if isinstance(reply, Failure) else Reply(reply)


class Places(Expert):
    """Detects each phrase once, in a small box of its own; `boxes` overrides the detections."""

    id = "places@1"
    kinds: ClassVar = (Detect,)

    def __init__(self, boxes: Mapping[str, tuple[Box, ...]] | None = None) -> None:
        self.boxes = dict(boxes or {})

    def __call__(self, queries: Sequence[Detect]) -> Sequence[Outcome]:
        return [
            Detections(self.boxes.get(phrase, (Box(0.5, 0.5, 0.2, 0.3, 0.8, phrase),)))
            for query in queries
            for phrase in query.phrases
        ]


def lines(path: Path) -> list[dict[str, Any]]:
    """Of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path: Path, rows: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def photographs(folder: Path, count: int = 3, side: int = 96) -> Path:
    """Real photographs, small, under names of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("astronaut", "chelsea", "coffee", "rocket")[:count]:
        pixels = cv2.resize(getattr(skimage.data, name)(), (side, side * 3 // 4), interpolation=cv2.INTER_AREA)
        cv2.imwrite(str(folder / f"{name}.png"), pixels[:, :, ::-1])
    return folder
