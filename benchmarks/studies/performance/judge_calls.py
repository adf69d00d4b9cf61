"""What a judge is asked, and how often: I2I-Bench over many outputs of one prompt, Complex-Edit in one pass a grade.

    python -m editcritic.benchmarks.perf.judged_work [--outputs 16] [--shapes tiny|half] [--json]

Counts, not times. A real vision-language model with random weights (`models`) sits behind the judge: it looks at every
picture and answers every form with options. What is to be written (question sets, segmentation commands, grades of
style) is written by rule, since random weights write nothing that can be read.

- I2I-Bench: every dimension of one source on `outputs` edits of one prompt, and every dimension of several sources on
  as many. `one by one`: each dimension of each edit for itself, nothing shared. `together`: all in one engine.
- Complex-Edit: the overall grade in mode `expected` of the same edits.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from ...reward import EditSample, Engine, Expert, Grade, Judge, Levels, Metric, Reply, YesNo
from ...reward.complexedit.overall import Overall
from ...reward.compose import signed
from ...reward.i2ibench.overall import PIPELINES
from ...reward.i2ibench.table import TABLE
from ...reward.models.local import LocalExpert
from ...reward.query import Outcome
from ..sceneedit import cases
from ..sceneedit.compositions import composition_cases
from ..sceneedit.critics import experts as scene_experts
from . import models

_WRITTEN: Mapping[str, Any] = {
    "segment_edited": "Please segment the red circle",
    "segment_unchanged": ["Please segment the background"],
    "segment_preserved_multi": [{"source_index": 0, "segmentation_prompt": "Please segment the background"}],
    "segment_details_multi": [{"source_index": 0, "segmentation_prompt": "Please segment the background"}],
    "text_style": {
        "style_requirement": "none",
        "position_requirement": "none",
        "image_observation": "letters",
        "reasoning": "as asked",
        "score": 4,
    },
}


class Clerk(Expert):
    """Lets a model answer what has options, writes the rest by rule, and notes every question that reaches it."""

    kinds = (Judge,)

    def __init__(self, model: LocalExpert[Any]) -> None:
        self.model = model
        self.id = f"clerk of {model.id}"
        self.batch = model.batch
        self.asked: list[Judge] = []

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        self.asked += queries
        answers = iter(self.model([query for query in queries if _has_options(query)]))
        return [next(answers) if _has_options(query) else self._written(query) for query in queries]

    @staticmethod
    def _written(query: Judge) -> Reply:
        name = query.topic.rpartition("/")[2]
        if name.startswith("questions_"):
            words: Any = {
                "questions": [f"Is part {number} of what {name} are about as it should be?" for number in "12345"]
            }
        else:
            words = _WRITTEN[name]
        return Reply(words if isinstance(words, str) else json.dumps(words))


def count(judge: Clerk, metrics: Sequence[Metric], samples: Sequence[EditSample], *, together: bool) -> dict[str, Any]:
    """Questions that reach the judge, and pictures it encodes, when all is scored in one engine or each by itself."""
    judge.asked.clear()
    judge.model.unload()
    experts = {**scene_experts(), "judge": judge}
    passes = judge.model.meter()
    statuses: Counter[str] = Counter()
    if together:
        with Engine() as engine:
            programs = [(signed(metric, sample), sample) for sample in samples for metric in metrics]
            statuses.update(score.status for score in engine.run(programs, experts))
    else:
        for metric in metrics:
            for sample in samples:
                with Engine() as engine:
                    statuses[engine.submit(signed(metric, sample), experts, sample).result().status] += 1
    seen = [question for question in judge.asked if _has_options(question)]
    spent = {name: number - passes.get(name, 0) for name, number in judge.model.meter().items()}
    return {
        "statuses": dict(statuses),
        "questions": len(judge.asked),
        "distinct": len({question.digest for question in judge.asked}),
        "topics": dict(sorted(Counter(question.topic for question in judge.asked).items())),
        "shown": sum(len(question.images) for question in seen),
        "pictures": len({image.digest for question in seen for image in question.images}),
        "image_passes": int(spent["image_passes"]),
        "forward_passes": int(spent["forward_passes"]),
    }


def _has_options(question: Judge) -> bool:
    return isinstance(question.form, YesNo | Levels | Grade)


def run(outputs: int, shapes: models.Shapes) -> dict[str, Any]:
    """What the script prints."""
    one = composition_cases(1)[0].sample
    given: dict[str, Any] = {"text": "OPEN", "hint": "as asked", "dimensions": None}  # so that every dimension applies
    single = [
        replace(case.sample, id=f"edit {number}", **given) for number, case in enumerate(cases.crowds(1)[0][:outputs])
    ]
    several = [replace(one, id=sample.id, edited=sample.edited, **given) for sample in single]
    with models.random_models(shapes, ["judge"], batch=1) as experts:
        judge = Clerk(experts["judge"])
        found: dict[str, Any] = {"outputs": len(single)}
        for name, multi, samples in (("one source", False, single), ("several sources", True, several)):
            metrics = [PIPELINES[known.pipeline](key) for key, known in TABLE.items() if known.multi == multi]
            found[name] = {
                "dimensions": len(metrics),
                "one by one": count(judge, metrics, samples, together=False),
                "together": count(judge, metrics, samples, together=True),
            }
        found["complex-edit expected"] = count(judge, [Overall(mode="expected")], single, together=True)
    return found


def main() -> None:
    """The command above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--outputs", type=int, default=16, help="edits of one prompt (at most 16)")
    parser.add_argument("--shapes", choices=models.SHAPES, default="tiny")
    parser.add_argument("--json", action="store_true", help="print numbers alone")
    options = parser.parse_args()
    found = run(options.outputs, options.shapes)
    console = Console(width=120, highlight=False)
    if options.json:
        console.print_json(data=found)
        return
    for name in ("one source", "several sources"):
        both = found[name]
        table = Table(box=None, title=f"I2I-Bench, {name}: {both['dimensions']} dimensions, {found['outputs']} edits")
        for column in ("", "one by one", "together"):
            table.add_column(column, justify="left" if not column else "right")
        for row, key in (
            ("questions that reached the judge", "questions"),
            ("of them different", "distinct"),
            ("pictures shown to the model", "shown"),
            ("of them different", "pictures"),
            ("pictures it encoded", "image_passes"),
        ):
            table.add_row(row, *(str(both[way][key]) for way in ("one by one", "together")))
        for topic, number in both["one by one"]["topics"].items():
            table.add_row(f"  {topic}", str(number), str(both["together"]["topics"].get(topic, 0)))
        console.print(table)
    edited = found["complex-edit expected"]
    console.print(
        f"\nComplex-Edit, mode expected, {found['outputs']} edits: {edited['questions']} questions, "
        f"{edited['forward_passes']} forward passes of the language model, {edited['image_passes']} pictures encoded, "
        f"{edited['pictures']} different"
    )


if __name__ == "__main__":
    main()
