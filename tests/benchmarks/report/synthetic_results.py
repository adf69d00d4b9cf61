"""A suite with data for every section of a report, and synthetic results of it."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.benchmarks.suites.suite import Suite, SuiteInfo, SuiteItem
from editcritic.benchmarks.suites.tables import Table
from editcritic.reward import Box, Evidence, Image, Score
from editcritic.reward.queries.specs import Spec
from editcritic.verifiers import edit_request

TYPES = ("color_alter", "count_change", "subject_add", "text_change")
LABELS = ("Flawless Execution", "Over Modification", "Wrong Action", "Localization Failure")
HOSTILE = '</script><script>document.title = "broken in"</script><img src=x onerror=alert(1)> & "quoted"'


def striped_image(*numbers: int, size: int = 32) -> Image:
    """An image with random stripes, seeded by the numbers."""
    rng = np.random.default_rng(numbers)
    rows = rng.integers(256, size=(size // 8, 1, 3)).repeat(8, axis=0).repeat(size, axis=1)
    return Image.of(rows.astype(np.uint8))


class Drawn(Suite):
    """Chains of turns with targets of growing area; every fifth case has two sources. `data` is unused."""

    name: ClassVar[str] = "drawn"
    info: ClassVar[SuiteInfo] = SuiteInfo("Drawn edits", "nobody: nothing", "none", "")

    def __init__(self, data: Path | None = None, *, count: int = 12, turns: int = 3, size: int = 32) -> None:
        self.count, self.turns, self.size = count, turns, size
        self.items: Sequence[SuiteItem] = [
            self._item(case, turn) for case in range(count) for turn in range(1, turns + 1)
        ]
        self.digest = hashlib.sha256("".join(item.id for item in self.items).encode()).hexdigest()

    def _item(self, case: int, turn: int) -> SuiteItem:
        name, kind = f"{case}/{turn}", TYPES[(case + turn) % len(TYPES)]
        side = 0.05 + 0.6 * case / self.count
        words = HOSTILE if name == "0/1" else f"Make it number {turn} of case {case}"
        sample = replace(
            edit_request(words, striped_image(case % 200, size=self.size), id=name),
            targets=(Box(0.5, 0.5, side, side, label="cup"),),
        )
        if case % 5 == 4 and turn == 1:
            sample = replace(sample, sources=(*sample.sources, striped_image(case, 1, size=self.size)))
        labels: dict[str, str | int] = {
            "turn": turn,
            "type": kind,
            "level": f"C{1 + case % 4}",
            "category": ("person", "place")[case % 2],
            "shape": "padded" if case % 3 == 0 else "square",
        }
        return SuiteItem(
            name, str(case), f"{case}_turn_{turn}", sample, f"{case}/{turn - 1}" if turn > 1 else "", labels
        )

    @property
    def options(self) -> Mapping[str, str | int]:
        return {"count": self.count, "turns": self.turns, "size": self.size}

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        return {"following": "edival-if", "consistency": "edival-cc", "quality": "edival-vq"}

    def tables(self, results: Results) -> list[Table]:
        names = ("consistency", "following")
        leader = {"all": {f"{name} turn {turn}": results.mean(results.filter(turn=turn), _of(name))
                          for name in names for turn in range(1, self.turns + 1)}}  # fmt: skip
        types = {kind: {name: results.mean(results.filter(type=kind), _of(name)) for name in names} for kind in TYPES}
        return [
            Table("leaderboard", "Drawn", list(leader["all"]), leader, 100.0, "percent", notes=["made up"]),
            Table("types", "By type", list(names), types, 100.0, "percent", 1),
        ]


def _of(name: str) -> Callable[[ResultRow], float | None]:
    return lambda row: row.value(name)


def scored(suite: Drawn, editor: str, skill: float, *, seed: int = 0, without: Sequence[str] = ()) -> Results:
    """Results with random scores that grow with `skill` (0 to 1). without: items without an output."""
    rng = np.random.default_rng([seed, int(1000 * skill)])
    rows = []
    for number, item in enumerate(suite.items):
        if item.id in without:
            words = item.sample.instruction
            missing = ResultRow(
                item.id, item.case, item.labels, missing_reason="there is no picture", instruction=words
            )
            rows.append(missing)
            continue
        easy = skill - 0.12 * int(item.labels["turn"]) + 0.2
        scores = _scores(rng, suite, item, easy, number)
        edited = striped_image(7, number, int(1000 * skill), size=suite.size)
        rows.append(ResultRow(item.id, item.case, item.labels, scores, "", edited.digest, item.sample.instruction))
    provenance = {
        "suite": suite.name, "suite_options": dict(suite.options), "data_digest": suite.digest, "editor": editor,
        "protocol": None, "metrics": dict(suite.metrics()), "experts": {"judge": {"id": "coin@1"}},
    }  # fmt: skip
    return Results(editor, rows, provenance)


def _scores(rng: np.random.Generator, suite: Drawn, item: SuiteItem, easy: float, number: int) -> dict[str, Score]:
    source = item.sample.source.digest
    label = LABELS[min(3, int(4 * rng.random() ** (0.3 + max(0.05, easy))))]
    seen = (Box(0.4, 0.5, 0.3, 0.4, 0.83, "cup"), Box(0.8, 0.2, 0.2, 0.2, 0.4, HOSTILE))
    evidence = [
        Evidence("judge followed", source, text=f"{HOSTILE if number == 1 else 'It looks right.'}\nVerdict: {label}"),
        Evidence("detect in source", source, seen),
        Evidence("label", text=label, numbers={"score": 4.0 - LABELS.index(label)}),
    ]  # fmt: skip
    following = Score.of(float(rng.random() < easy), f"found: {label}", evidence=evidence)
    if number % 17 == 3:
        following = Score.failed("the judge did not answer")
    kept = float(np.clip(rng.normal(0.6 + 0.3 * easy, 0.1), 0, 1))
    consistency = Score.of(kept, parts={"objects": Score.of(kept), "background": Score.of(kept**2)})
    if item.labels["type"] == "text_change" and number % 2:
        consistency = Score.not_applicable("nothing is to stay")
    bright = [Evidence(f"luminance of the {name} picture", numbers={"99 %": 0.8 + more, "99.9 %": 0.85 + more})
              for name, more in (("edited", 0.03 * int(item.labels["turn"])), ("base", 0.0))]  # fmt: skip
    return {
        "following": following,
        "consistency": consistency,
        "quality": Score.of(float(rng.normal(4 + 3 * easy, 1)), evidence=bright),
    }


def outputs(folder: Path, suite: Drawn, skill: float, *, without: Sequence[str] = ()) -> Path:
    """The images of `scored`, and their generation times."""
    folder.mkdir(parents=True)
    lines = []
    for number, item in enumerate(suite.items):
        if item.id not in without:
            striped_image(7, number, int(1000 * skill), size=suite.size).pil().save(folder / f"{item.output_path}.png")
            seconds = 1.5 + skill * 4 + number % 7 / 3
            place = {"item": item.id, "file": f"{item.output_path}.png"}
            lines.append({**place, "seed": 0, "seconds": seconds, "editor": "fake"})
    (folder / "generated.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder
