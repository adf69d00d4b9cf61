"""Without an extra: scores, ranks, audits and replays by what needs no model; all else says what to install."""

import json
from pathlib import Path

from .commands import BOXES, INSTRUCTION, WITHOUT_OCR, draw, editcritic

draw()
pair = ["before.png", "after.png", INSTRUCTION, "--boxes", BOXES]
assert "1.00" in editcritic("score", *pair, "--reward", WITHOUT_OCR, "--picture", "result.png")
assert Path("result.png").read_bytes().startswith(b"\x89PNG")
editcritic("score", "samples.jsonl", "--reward", WITHOUT_OCR, "-o", "scores.jsonl", "--record", "run.db")
(row,) = map(json.loads, Path("scores.jsonl").read_text(encoding="utf-8").splitlines())
assert row["value"] > 0.95, row
editcritic("dev", "replay", "-", "run.db")
candidates = ["inverted.png", "after.png", "--source", "before.png", "--instruction", INSTRUCTION, "--boxes", BOXES]
ranking = editcritic("rank", *candidates, "--reward", WITHOUT_OCR, "-o", "sheet.html")
assert ranking.index(" after ") < ranking.index(" inverted "), ranking
assert "<html" in Path("sheet.html").read_text(encoding="utf-8").lower()
families = ["--family", "blank", "--family", "unchanged-source"]
editcritic("audit", "samples.jsonl", "--reward", WITHOUT_OCR, *families, "-o", "audit.html")
assert "<html" in Path("audit.html").read_text(encoding="utf-8").lower()
labels = ["judge", "label", "samples.jsonl", "-o", "labels.jsonl"]
editcritic(*labels, "--sheet", "sheet", "--annotator", "ann")
assert "questions.csv" in {path.name for path in Path("sheet").iterdir()}
assert "how it can be gamed" in editcritic("rewards", "any-edit")

# Each of these needs an extra, and says which.
for extra, code, command in [
    ("ocr", 1, ["score", *pair]),
    ("ocr", 1, ["doctor", "--experts", "cpu"]),
    ("app", 2, ["app"]),
    ("app", 2, labels),
    ("serve", 2, ["serve"]),
    ("bench", 2, ["audit", "demo"]),
    ("diffusers", 2, ["edit", "before.png", "--instruction", INSTRUCTION, "--pipeline", "sceneedit", "-o", "out"]),
]:
    said = editcritic(*command, code=code)
    assert f"editcritic[{extra}]" in said, said
    assert "Traceback" not in said, said
