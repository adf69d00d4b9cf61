"""ImgEdit-Bench in its published layouts, small, and a judge whose grades follow from the question."""

import json
from pathlib import Path

from editcritic.reward.metrics.imgedit.metrics import CRITERIA, EDIT_TYPES
from editcritic.reward.queries import Judge, Reply

from ..tiny_suite import Replying, picture

PER_TYPE = 2
FOLDERS = ("animal", "style", "daily object")
TURNS = ("Make everything from now on green", "Add a cup", "Undo that, and add a jug")


def basic_rows(per_type: int = PER_TYPE) -> dict[str, dict[str, str]]:
    """As in `basic_edit.json`. Some rows share a picture."""
    kinds = [kind for kind in EDIT_TYPES for _ in range(per_type)]
    return {
        str(1000 + number): {
            "id": f"{FOLDERS[number // 2 % 3]}/{number // 6:09}.jpg",
            "prompt": f"Edit number {number}, of the type {kind}.",
            "edit_type": kind,
        }
        for number, kind in enumerate(kinds)
    }


def uge_rows(count: int = 4) -> dict[str, dict[str, str]]:
    """As in `UGE_edit.json`."""
    return {str(number): {"id": f"{number:09}.jpg", "prompt": f"Hard edit {number}."} for number in range(1, count + 1)}


def turn_rows(count: int = 2) -> list[dict[str, str]]:
    """As in `annotation.json` of a kind of conversations: two or three turns."""
    return [
        {
            "id": f"{number:09}.jpg",
            **{f"turn{turn}": text for turn, text in enumerate(TURNS[: 3 - number % 2], start=1)},
        }
        for number in range(count)
    ]


def draw(folder: Path, *names: str) -> None:
    """Write pictures: another one for each name."""
    for name in dict.fromkeys(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        picture(*name.encode()).pil().save(path, quality=95)


def repository(folder: Path) -> Path:
    """The files of instructions as in the authors' repository, beside the pictures of their archive."""
    basic, uge = basic_rows(), uge_rows()
    folder.mkdir(parents=True)
    (folder / "basic_edit.json").write_text(json.dumps(basic, indent=4))
    (folder / "UGE_edit.json").write_text(json.dumps(uge))
    draw(folder / "Benchmark" / "singleturn", *(row["id"] for row in basic.values()))
    draw(folder / "Benchmark" / "hard", *(row["id"] for row in uge.values()))
    return folder


def archive(folder: Path) -> Path:
    """`Benchmark/` as extracted from the published archive."""
    top = folder / "Benchmark"
    basic = basic_rows()
    draw(top / "singleturn", *(row["id"] for row in basic.values()))
    (top / "singleturn" / "singleturn.json").write_text(json.dumps(basic))
    for kind in ("content_memory", "content_understand", "version_backtrace"):
        place = top / "multiturn" / kind
        rows = turn_rows()
        draw(place, *(row["id"] for row in rows))
        (place / "annotation.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def reply_to(query: Judge) -> Reply:
    """Grades by the digest of the question."""
    topic = query.topic.partition("/")[2]
    number = int(query.digest[:8], 16)
    if topic == "uge":
        areas = "changed" if number % 2 else "unchanged"
        return Reply(f"Brief reasoning: drawn\nNon-edited areas: {areas}\nScore: {1 + number // 2 % 5}")
    kind = next(kind for kind in EDIT_TYPES if kind == topic)
    grades = [1 + number // 5**place % 5 for place in range(3)]
    lines = [f"{name}: {grade}" for name, grade in zip(CRITERIA[kind], grades, strict=True)]
    return Reply("\n".join(["Brief reasoning: drawn", *lines]))


def grading(failing: str = "") -> Replying:
    """Grades as `reply_to`; with words alone to one instruction."""

    def reply(query: Judge) -> Reply:
        return Reply("I cannot judge this.") if dict(query.slots)["instruction"] == failing else reply_to(query)

    return Replying(reply)
