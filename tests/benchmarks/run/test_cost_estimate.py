"""What a run would take: extrapolated counts against those of real runs, intervals against simulated truth."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from editcritic.benchmarks.run.case_estimate import accelerators, edit_groups, measure_costs, split_evenly
from editcritic.benchmarks.run.cost_estimate import Block, Figure, MeasuredCosts, Work, extrapolate, rounded
from editcritic.reward import Card, EditSample, Expert, Image, Program, Reward, Score
from editcritic.reward.engine.program import ask
from editcritic.reward.experts.judge_adapters import JudgeReader
from editcritic.reward.queries import FreeText, Judge, Message, ReadText, Reply


@dataclass(frozen=True)
class SourceAndEdit:
    """Asks twice about the source, once about the edit, and a second time about every edit of an even seed."""

    card: ClassVar[Card] = Card("source-and-edit", 1, "asks of both", roles=("judge",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        for words in ("what is it?", "what else?"):
            yield from ask(Judge((Message((words, sample.source)),), FreeText()))
        yield from ask(Judge((Message(("what is it now?", sample.edited)),), FreeText()))
        if sample.metadata.get("twice"):
            yield from ask(Judge((Message(("are you sure?", sample.edited)),), FreeText()))
        return Score.of(1.0)


@dataclass
class Metered(Expert):
    """Counts tokens: ten a query, and what they cost."""

    id: str = "metered@1"
    usd: float | None = 0.01
    tokens: int = 0
    queries: int = 0
    devices: Sequence[str] = ()
    fails: Mapping[str, str] = field(default_factory=dict)
    kinds: ClassVar[Any] = (Judge,)

    def __call__(self, queries: Sequence[Judge]) -> list[Reply]:
        self.queries += len(queries)
        self.tokens += 10 * len(queries)
        return [Reply("a cup") for _ in queries]

    def usage(self) -> dict[str, float]:
        counts: dict[str, float] = {"requests": self.queries, "prompt_tokens": self.tokens}
        return counts if self.usd is None else counts | {"usd": self.usd * self.queries}


def edits(groups: int, rollouts: int, *, start: int = 0, twice: int = 0) -> list[EditSample]:
    """rollouts of each source. twice: of each source, so many edits that are asked about twice."""
    rng = np.random.default_rng(start)
    made = []
    for group in range(start, start + groups):
        source = Image.of(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        for number in range(rollouts):
            edited = Image.of(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
            metadata = {"twice": number < twice}
            made.append(EditSample(f"{group}/{number}", "do it", (source,), edited, metadata=metadata))
    return made


def by_name(figures: Sequence[Figure]) -> dict[str, Figure]:
    assert len({figure.name for figure in figures}) == len(figures)
    return {figure.name: figure for figure in figures}


def measured(edits: Sequence[EditSample], judge: Expert | None = None) -> MeasuredCosts:
    return measure_costs(Reward(SourceAndEdit(), {"judge": judge or Metered()}), edits, "made")


def calibration_of(blocks: Sequence[Block], devices: Sequence[str] = ()) -> MeasuredCosts:
    return MeasuredCosts("r@1", {"x": ["judge"]}, blocks, devices, "made", {}, {}, "2026-11-27")


@pytest.mark.parametrize(("groups", "rollouts"), [(10, 1), (7, 6), (100, 16)])
def test_counts_are_those_of_a_real_run_of_another_size(groups, rollouts):
    costs = measured(edits(9, 4))
    expected = by_name(extrapolate(costs, groups * rollouts, rollouts))
    judge = Metered()
    Reward(SourceAndEdit(), {"judge": judge})(edits(groups, rollouts, start=1000))
    counted = {"queries": judge.queries, "prompt tokens": judge.tokens, "cost": 0.01 * judge.queries}
    assert {name: expected[name].value for name in counted} == pytest.approx(counted)
    assert expected["queries"].interval == pytest.approx((judge.queries, judge.queries))
    assert {figure.source for figure in expected.values()} == {"counted", "counted, times the prices given", "timed"}


def test_the_first_edit_of_a_source_is_told_from_the_others():
    costs = measured(edits(8, 5, twice=1))
    work: Any = costs.blocks[0]
    assert (work.first.edits, work.first.counts["metered@1"]["queries"]) == (1, 4)
    assert (work.further.edits, work.further.counts["metered@1"]["queries"]) == (4, 4)
    assert costs.statuses == {"scored": 40}
    assert (costs.groups, costs.edits) == (8, 40)


def test_intervals_hold_the_truth():
    """Questions for an edit vary as a geometric number: of 400 measurements of 8 sources, 92 % hold the mean."""
    rng, held, mean = np.random.default_rng(20_261_127), 0, 3.0
    for _ in range(400):
        drawn = rng.geometric(1 / mean, (8, 4))
        blocks = [
            Block(1, Work(1, 1.0, {"x": {"queries": row[0]}}), Work(3, 1.0, {"x": {"queries": int(row[1:].sum())}}))
            for row in drawn.astype(float)
        ]
        found: Any = by_name(extrapolate(calibration_of(blocks), 1600, 16))["queries"].interval
        held += found[0] <= mean * 1600 <= found[1]
    assert held >= 0.92 * 400


def test_hours_are_of_the_blocks_after_the_first_and_replicas_divide_them():
    slow = Block(2, Work(2, 1e6, {"x": {"queries": 2, "seconds": 1e6}}))
    fast = Block(2, Work(2, 3600.0, {"x": {"queries": 2, "seconds": 1800.0}}))
    figures = by_name(extrapolate(calibration_of([slow, fast, fast], ["cuda:0", "cuda:1"]), 100, replicas=4))
    hours = {"hours on 1 replica": 50, "hours on 4 replicas": 12.5, "hours of calls": 25, "GPU hours": 100}
    assert {name: figures[name].value for name in hours} == pytest.approx(hours)
    assert figures["GPU hours"].source == "hours on 1 replica x 2 GPUs"
    varied = Block(2, Work(2, 7200.0, {"x": {"queries": 2, "seconds": 1800.0}}))
    figures = by_name(extrapolate(calibration_of([slow, fast, varied, fast, varied]), 100, replicas=4))
    low, high = figures["hours on 1 replica"].interval or (0, 0)
    assert figures["hours on 4 replicas"].interval == pytest.approx((low / 4, high / 4))
    assert low < high
    only = by_name(extrapolate(calibration_of([fast]), 100))
    assert only["hours on 1 replica"].interval is None
    assert "GPU hours" not in only


def test_an_unknown_price_is_no_price():
    costs = measured(edits(3, 2), Metered(usd=None))
    assert costs.unpriced == ["metered@1"]
    assert "cost" not in by_name(extrapolate(costs, 10, 2))
    known, unknown = ({"x": {"queries": 1.0, "requests": 1.0, **usd}} for usd in ({"usd": 0.5}, {}))
    costs = calibration_of([Block(1, Work(1, 1.0, known)), Block(1, Work(1, 1.0, unknown))])
    assert costs.unpriced == ["x"]
    assert "cost" not in by_name(extrapolate(costs, 10))


def test_one_edit_of_each_source_tells_nothing_of_several():
    costs = measured(edits(3, 1))
    assert by_name(extrapolate(costs, 10))["queries"].value == pytest.approx(30)
    with pytest.raises(ValueError, match="nothing follows for 4"):
        extrapolate(costs, 10, 4)


@dataclass(frozen=True)
class Reading(SourceAndEdit):
    """Reads the edit, too."""

    card: ClassVar[Card] = Card("reading", 1, "asks and reads", roles=("judge", "reader"))

    def __call__(self, sample: EditSample) -> Program[Score]:
        yield from ask(ReadText(sample.edited))
        return (yield from super().__call__(sample))


def test_a_judge_that_another_expert_asks_is_counted_once():
    judge = Metered()
    costs = measure_costs(Reward(Reading(), {"judge": judge, "reader": JudgeReader(judge)}), edits(4, 2), "made")
    figures = extrapolate(costs, 8, 2)
    found = {one.name: one.value for one in figures if one.name in ("prompt tokens", "cost")}
    assert found == pytest.approx({"prompt tokens": judge.tokens, "cost": 0.01 * judge.queries})


def test_blocks_keep_the_connections_of_a_served_expert_busy():
    class Served(Metered):
        concurrency = 8

    for groups, rollouts, blocks in ((16, 1, 2), (16, 3, 4), (4, 1, 1)):
        costs = measured(edits(groups, rollouts), Served())
        assert len(costs.blocks) == blocks
    assert [len(group) for group in edit_groups(edits(5, 3))] == [3] * 5
    assert [len(part) for part in split_evenly(range(10), 4)] == [2, 3, 2, 3]
    assert [len(part) for part in split_evenly(range(3), 8)] == [1, 1, 1]
    experts = [Metered(devices=("cuda:0", "cpu")), Metered(devices=("cuda:0", "cuda:1")), Metered()]
    assert accelerators(experts) == ["cuda:0", "cuda:1"]


@pytest.mark.parametrize(
    "change",
    [
        {"blocks": []},
        {"blocks": [{"groups": 0, "first": {"edits": 1, "seconds": 1, "counts": {}}}]},
        {"blocks": [{"groups": 1, "first": {"edits": 1, "seconds": -1, "counts": {}}}]},
        {"blocks": [{"groups": 1, "first": {"edits": 1, "seconds": 1, "counts": {"x": {"usd": math.nan}}}}]},
        {"blocks": [{"groups": 1, "first": {"edits": 1, "seconds": 1, "counts": {"x": {"usd": 1e300}}}}]},
        {"blocks": [{"groups": 1, "first": {"edits": 1, "seconds": "long", "counts": {}}}]},
        {"experts": ["judge"]},
        {"accelerators": 8},
        {"reward": "x" * 5000},
        {"machine": None},
    ],
)
def test_what_is_no_measurement_is_refused(change):
    costs = measured(edits(4, 2))
    good = json.loads(json.dumps(costs.to_json()))
    assert MeasuredCosts.from_json(good) == costs
    for bad in ({**good, **change}, [good]):
        with pytest.raises(ValueError, match="these are no measured costs: "):
            MeasuredCosts.from_json(bad)


def test_three_digits_are_enough():
    large = {0: "0", 999.6: "1,000", 999_400: "999,000", 999_600: "1.00 M", 1_234_567: "1.23 M", 2.12e9: "2.12 G"}
    texts = {**large, 8.3e13: "83.0 T", 12.345: "12.3", 0.0123456: "0.0123", 5: "5.00"}
    assert {value: rounded(value) for value in texts} == texts
