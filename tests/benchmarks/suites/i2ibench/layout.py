"""I2I-Bench's prompts as they lie on disk, small, and experts whose answers are known."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from editcritic.benchmarks.run.runner import run_suite
from editcritic.benchmarks.suites.i2ibench.reader import CATEGORIES
from editcritic.benchmarks.suites.results import Results
from editcritic.benchmarks.suites.suite import Suite
from editcritic.reward import Expert
from editcritic.reward.queries import Judge, Levels, Reply

from ..tiny_suite import picture

SCENES = 3

DIMENSIONS: Mapping[str, Sequence[str]] = {
    "object-manipulation": ("instruction-following", "object-manipulation"),
    "local-editing": ("Instruction Following (Macro)", "Local Attribute Accuracy"),
    "hybrid-editing": ("instruction-following", "object-manipulation", "local-attribute"),
    "text-rendering": ("instruction-following",),
    "world-knowledge": ("instruction-following", "world-knowledge"),
    "basic-combination": ("instruction-following", "spatial-accuracy"),
    "combination-content-editing": ("instruction-following", "spatial-accuracy"),
    "combination-text-rendering": ("instruction-following",),
    "combination-editing-text": ("instruction-following", "editing-artifacts"),
    "combination-reasoning": ("multi-world-knowledge",),
}


def row(scene: int, category: str) -> dict[str, Any]:
    sources = [f"images/{number}.png" for number in range(scene, scene + 1 + CATEGORIES[category].multi)]
    return {
        "id": f"{scene}-{category}",
        "category": category,
        "scene": str(scene),
        "sources": sources,
        "instruction": f"Do {category} to scene {scene}",
        "target_text": "OPEN" if CATEGORIES[category].text else None,
        "hint": "it is so" if CATEGORIES[category].hint else None,
        "dimensions": list(DIMENSIONS[category]),
    }


def rows() -> list[dict[str, Any]]:
    return [row(scene, category) for scene in range(SCENES) for category in CATEGORIES]


def written(folder: Path, lines: Sequence[Any]) -> Path:
    (folder / "images").mkdir(parents=True)
    for number in range(SCENES + 1):
        picture(number).pil().save(folder / "images" / f"{number}.png")
    text = "\n".join(json.dumps(line) for line in lines)
    (folder / "prompts.jsonl").write_text(text + "\n", encoding="utf-8")
    return folder


class Sure(Expert):
    """Gives the first answer of a question's form with the probability that a function of topic and instruction says,
    and the last one with the rest; records queries."""

    id = "sure@1"
    kinds = (Judge,)

    def __init__(self, says: Callable[[str, str], float]) -> None:
        self._says = says
        self.queries: list[str] = []

    def __call__(self, queries: Sequence[Judge]) -> list[Reply]:
        replies = []
        for query in queries:
            self.queries.append(query.topic)
            sure = self._says(query.topic, dict(query.slots)["instruction"])
            options = query.form.options if isinstance(query.form, Levels) else ("yes", "no")
            first, last = options[0], options[-1]
            replies.append(Reply(first if sure >= 0.5 else last, probabilities={first: sure, last: 1 - sure}))
        return replies


def judged(suite: Suite, folder: Path, judge: Expert, protocol: str | None = None, out: Path | None = None) -> Results:
    """What a run finds."""
    return run_suite(suite, folder, experts={"judge": judge}, protocol=protocol, out=out)
