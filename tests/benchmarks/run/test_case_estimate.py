"""The estimate before a suite's run: what it says is what the run takes, and what it asked is not asked again."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.case_estimate import CaseEstimate, estimate_cases
from editcritic.benchmarks.run.run_budget import BudgetLimits
from editcritic.benchmarks.run.run_config import RunConfig
from editcritic.benchmarks.run.run_journal import JOURNAL_FOLDER, total_usage
from editcritic.benchmarks.run.runner import RunSettings, execute
from editcritic.reward.queries import ExpertDown, Judge, Reply

from ..suites.tiny_suite import CoinJudge, Toy, outputs
from .counting_experts import experts, files


def config(folder: Path, judge: CoinJudge, *, count: int = 20, out: str = "out", **options: object) -> RunConfig:
    suite = Toy(count=count)
    made = outputs(folder / "outputs", suite)
    settings = RunSettings().overridden({"outputs": made, "out": folder / out, "editor_name": "mine", **options})
    return RunConfig.build(settings, experts(judge), suite)


def estimated(config: RunConfig, cases: int) -> CaseEstimate:
    assert config.settings.journal_folder is not None
    estimate = estimate_cases(config, config.settings.journal_folder, cases)
    assert estimate is not None
    return estimate


def figure(estimate: CaseEstimate, name: str, expert: str = "") -> float:
    (value,) = (one.value for one in estimate.figures if (one.name, one.expert) == (name, expert))
    return value


def test_it_says_what_the_others_take_and_they_are_all_that_is_asked_then(tmp_path):
    judge, out = CoinJudge(), tmp_path / "out"
    estimate = estimated(config(tmp_path, judge), 10)
    assert (judge.num_queries, estimate.remaining, estimate.spent.judge_calls) == (10, 30, 10)
    assert estimate.costs.experts["coin@1"] == ["judge"]
    assert figure(estimate, "queries", "coin@1") == pytest.approx(30)

    judge.num_queries = 0
    result = execute(config(tmp_path, judge))
    assert (judge.num_queries, result and result.exit_code) == (30, 0)
    assert total_usage(out / JOURNAL_FOLDER).judge_calls == 40

    execute(config(tmp_path, CoinJudge(), out="plain"))
    assert files(out) == files(tmp_path / "plain")


def test_a_price_per_call_is_a_cost_and_a_budget_that_is_too_small_is_told(tmp_path):
    limits = BudgetLimits(judge_calls=30, cost=1.5, seconds=1e-9)
    estimate = estimated(config(tmp_path, CoinJudge(), prices={"judge": 0.5}, budget={"judge_calls": 30}), 8)
    assert figure(estimate, "cost") == pytest.approx(0.5 * 32)
    assert [text.partition(" would")[0] for text in estimate.exceeded(limits)] == ["judge calls", "cost", "seconds"]
    assert estimate.exceeded(limits)[0] == "judge calls would be about 40.0, and the budget allows 30"
    assert estimate.exceeded(BudgetLimits(judge_calls=40, cost=20.0)) == []
    estimate = estimated(config(tmp_path, CoinJudge(), out="stopped", budget={"judge_calls": 6}), 16)
    assert "the budget of 6 judge calls is spent" in estimate.stop_reason
    assert (estimate.costs.edits, estimate.remaining) == (6, 34)


def test_cases_that_fail_are_left_and_told(tmp_path):
    class Moody(CoinJudge):
        batch = 1

        def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
            if int(queries[0].digest[:8], 16) % 4 == 0:
                raise RuntimeError("no answer today")
            return super().__call__(queries)

    estimate = estimated(config(tmp_path, Moody()), 16)
    assert estimate.failed == 16 - estimate.costs.statuses["scored"] > 0
    assert estimate.remaining == 40 - estimate.costs.statuses["scored"]

    class Broken(CoinJudge):
        def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
            raise RuntimeError("out of order")

    with pytest.raises(InputError, match=r"have no score, so that nothing can be measured.*out of order"):
        estimated(config(tmp_path, Broken(), out="broken"), 8)
    everything = config(tmp_path, CoinJudge(), count=3, out="few")
    estimate = estimated(everything, 100)  # more cases than there are
    assert (estimate.remaining, list(estimate.figures)) == (0, [])
    with pytest.raises(InputError, match="other settings"):
        estimated(config(tmp_path, CoinJudge(), count=4, out="few"), 2)


def test_models_load_before_anything_is_measured(tmp_path):
    class Loading(CoinJudge):
        asked_at_load: int | None = None

        def load(self) -> None:
            if self.asked_at_load is None:
                self.asked_at_load = self.num_queries
                raise ExpertDown("no weights here")

    judge = Loading()
    with pytest.raises(InputError, match="nothing can be measured: no weights here"):
        estimated(config(tmp_path, judge), 8)
    assert (judge.asked_at_load, judge.num_queries) == (0, 0)


def test_the_command(tmp_path, editcritic):
    made, out = tmp_path / "made", tmp_path / "out"
    assert editcritic("bench", "generate", "sceneedit?prompts=12", "--pipeline", "sceneedit", "-o", made).exit_code == 0
    run = ("bench", "run", "sceneedit?prompts=12", "--outputs", made, "-o", out)
    told = editcritic(*run, "--estimate", "4", "--json")
    document = json.loads(told.stdout)
    assert (told.exit_code, document["edits"], document["spent"]["judge_calls"] > 0) == (0, 8, True)
    assert {"queries", "hours of calls", "hours on 1 replica"} <= {one["name"] for one in document["figures"]}
    assert not (out / "result.json").exists()
    editcritic(*run, "--estimate", "2", says="the same command without --estimate", shows="the other 6 cases")
    assert editcritic(*run).exit_code == 0
    assert json.loads((out / "run.json").read_text())["processes"][0]["reused"] == 6
    editcritic(*run, "--estimate", "2", says="nothing is left to estimate")
    every = ("bench", "run", "all", "--outputs", made, "-o", out, "--estimate", "2")
    editcritic(*every, code=2, says="--estimate is for one suite")
