"""Counts of judge queries: I2I-Bench over many outputs of one prompt, Complex-Edit in one pass per grade.

    python -m studies.performance.judge_calls [--outputs 16] [--shapes tiny|half] [--json]

Counts, not times. A real vision-language model with random weights (`random_models`) answers every query with options
and encodes every image. Free text (question sets, segmentation commands, style grades) is scripted, since random
weights write nothing that can be parsed.

- I2I-Bench: every dimension of one source on `outputs` edits of one prompt, and every dimension of several sources on
  as many. `one by one`: each dimension of each edit alone, nothing shared. `together`: all in one engine.
- Complex-Edit: the overall grade in mode `expected` of the same edits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from editcritic.benchmarks.common.terminal import print_json
from editcritic.benchmarks.sceneedit import cases
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import EditSample, Engine, Expert
from editcritic.reward.experts.loading.local_expert import LocalExpert
from editcritic.reward.metrics import Metric
from editcritic.reward.metrics.complexedit.metrics import ComplexEditOverall
from editcritic.reward.metrics.compose import score_with_signature
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS
from editcritic.reward.metrics.i2ibench.overall import PIPELINES
from editcritic.reward.queries import Grade, Judge, Levels, Reply, YesNo
from editcritic.reward.queries.answers import Outcome

from . import random_models
from .command import parser_of, show

_SCRIPTED_REPLIES: Mapping[str, Any] = {
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


class RecordingJudge(Expert):
    """A judge that answers queries with options by a model and others by script, and records all queries."""

    kinds = (Judge,)

    def __init__(self, model: LocalExpert[Any]) -> None:
        self.model = model
        self.id = f"clerk of {model.id}"
        self.batch = model.batch
        self.queries: list[Judge] = []

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        self.queries += queries
        answers = iter(self.model([query for query in queries if has_options(query)]))
        return [next(answers) if has_options(query) else self._written(query) for query in queries]

    @staticmethod
    def _written(query: Judge) -> Reply:
        name = query.topic.rpartition("/")[2]
        if name.startswith("questions_"):
            words: Any = {
                "questions": [f"Is part {number} of what {name} are about as it should be?" for number in "12345"]
            }
        else:
            words = _SCRIPTED_REPLIES[name]
        return Reply(words if isinstance(words, str) else json.dumps(words))


def count(
    judge: RecordingJudge, metrics: Sequence[Metric], samples: Sequence[EditSample], *, together: bool
) -> dict[str, Any]:
    """Queries that reach the judge, and images it encodes, with one engine for all or one for each score."""
    judge.queries.clear()
    judge.model.unload()
    experts = {**scene_experts(), "judge": judge}
    passes_before = judge.model.usage()
    statuses: Counter[str] = Counter()
    if together:
        with Engine() as engine:
            programs = [(score_with_signature(metric, sample), sample) for sample in samples for metric in metrics]
            statuses.update(score.status for score in engine.run(programs, experts))
    else:
        for metric in metrics:
            for sample in samples:
                with Engine() as engine:
                    statuses[engine.submit(score_with_signature(metric, sample), experts, sample).result().status] += 1
    model_queries = [query for query in judge.queries if has_options(query)]
    passes = {name: number - passes_before.get(name, 0) for name, number in judge.model.usage().items()}
    return {
        "statuses": dict(statuses),
        "queries": len(judge.queries),
        "distinct": len({query.digest for query in judge.queries}),
        "topics": dict(sorted(Counter(query.topic for query in judge.queries).items())),
        "shown": sum(len(query.images) for query in model_queries),
        "images": len({image.digest for query in model_queries for image in query.images}),
        "image_passes": int(passes["image_passes"]),
        "forward_passes": int(passes["forward_passes"]),
    }


def has_options(query: Judge) -> bool:
    """Whether the answer is one of given options, which random weights choose among in one pass."""
    return isinstance(query.form, YesNo | Levels | Grade)


def run(outputs: int, shapes: random_models.Shapes) -> dict[str, Any]:
    """The figures that the script prints."""
    composition = composition_cases(1)[0].sample
    fields: dict[str, Any] = {"target_text": "OPEN", "hint": "as asked", "dimensions": None}  # every dimension applies
    single = [
        replace(case.sample, id=f"edit {number}", **fields)
        for number, case in enumerate(cases.same_truth_groups(1)[0][:outputs])
    ]
    several = [replace(composition, id=sample.id, edited=sample.edited, **fields) for sample in single]
    with random_models.random_models(shapes, ["judge"], batch=1) as experts:
        judge = RecordingJudge(experts["judge"])
        figures: dict[str, Any] = {"outputs": len(single)}
        for name, multi, samples in (("one source", False, single), ("several sources", True, several)):
            metrics = [
                PIPELINES[dimension.pipeline](key) for key, dimension in DIMENSIONS.items() if dimension.multi == multi
            ]
            figures[name] = {
                "dimensions": len(metrics),
                "one by one": count(judge, metrics, samples, together=False),
                "together": count(judge, metrics, samples, together=True),
            }
        figures["complex-edit expected"] = count(judge, [ComplexEditOverall(mode="expected")], single, together=True)
    return figures


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--outputs", type=int, default=16, help="edits of one prompt (at most 16)")
    parser.add_argument("--shapes", choices=random_models.SHAPES, default="tiny")
    options = parser.parse_args()
    figures = run(options.outputs, options.shapes)
    if options.json:
        print_json(figures)
        return
    for name in ("one source", "several sources"):
        ways = {way: figures[name][way] for way in ("one by one", "together")}
        rows = [
            {"": title, **{way: counts[key] for way, counts in ways.items()}}
            for title, key in (
                ("queries that reached the judge", "queries"),
                ("of them different", "distinct"),
                ("images shown to the model", "shown"),
                ("of them different", "images"),
                ("images it encoded", "image_passes"),
            )
        ]
        topics = ways["one by one"]["topics"]
        rows += [{"": topic, **{way: ways[way]["topics"].get(topic, 0) for way in ways}} for topic in topics]
        show(f"I2I-Bench, {name}: {figures[name]['dimensions']} dimensions, {figures['outputs']} edits", rows)
    counts = {name: count for name, count in figures["complex-edit expected"].items() if isinstance(count, int)}
    show(f"Complex-Edit, mode expected, {figures['outputs']} edits", [counts])


if __name__ == "__main__":
    main()
