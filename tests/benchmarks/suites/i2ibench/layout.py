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

from ..tiny_suite import Replying, picture

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


def sure(says: Callable[[str, str], float]) -> Replying:
    """Gives the first answer of a question's form with the probability that a function of topic and instruction says,
    and the last one with the rest."""

    def reply(query: Judge) -> Reply:
        share = says(query.topic, dict(query.slots)["instruction"])
        options = query.form.options if isinstance(query.form, Levels) else ("yes", "no")
        return Reply(options[0 if share >= 0.5 else -1], probabilities={options[0]: share, options[-1]: 1 - share})

    return Replying(reply)


def judged(suite: Suite, folder: Path, judge: Expert, protocol: str | None = None, out: Path | None = None) -> Results:
    """What a run finds."""
    return run_suite(suite, folder, experts={"judge": judge}, protocol=protocol, out=out)
