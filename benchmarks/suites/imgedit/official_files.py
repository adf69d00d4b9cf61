"""The files of ImgEdit-Bench's released scripts, made of the same replies, in the folder `imgedit`.

`result.json` has the judge's reply by key, as the released script that asks the judge writes it: the scripts that
compute the means can be run on it. `average_score.json` and, of the basic suite, `typescore.json` have what these
write, but of this run's own values: in protocol `official` they are equal to theirs, in `fixed` they are the values
that count. Failed scores are in none of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....reward.metrics.imgedit.metrics import GRADES
from ..results import Results

FOLDER = "imgedit"
"""In the result folder, which has a `result.json` of its own."""


def write_official_files(results: Results, metric: str, folder: Path) -> list[Path]:
    """Write the files and return their paths."""
    replies: dict[str, str] = {}
    averages: dict[str, float] = {}
    by_type: dict[str, list[float]] = {}
    for row in results.rows:
        score = row.score(metric)
        if score is None or score.value is None:
            continue
        replies[row.id] = next((item.text for item in score.evidence if item.what == GRADES), "")
        averages[row.id] = round(score.value, 2)
        by_type.setdefault(str(row.labels.get("type", "")), []).append(averages[row.id])
    folder = folder / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Mapping[str, Any]] = {"result.json": replies, "average_score.json": averages}
    if "" not in by_type:
        # In the words of the released script: `fmean` would round one mean in 600 to another last digit.
        files["typescore.json"] = {kind: round(sum(values) / len(values), 2) for kind, values in by_type.items()}
    paths = []
    for name, content in files.items():
        path = folder / name
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        paths.append(path)
    return paths
