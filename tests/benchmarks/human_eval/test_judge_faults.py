"""Which faults a judge has, how large, at what cost; and no figure from what was not answered."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval.judge_faults import measure_faults
from editcritic.benchmarks.human_eval.judge_faults.findings import excess_change, mean_over_sources, reliability
from editcritic.benchmarks.human_eval.judge_faults.probes import (
    DEMANDS,
    GRADES_REWORDED,
    MIN_SIDE,
    OF_JUDGE,
    compressed,
    painted,
    scaled,
    told,
)
from editcritic.benchmarks.human_eval.judge_faults.questions import (
    EXPECTED,
    FAULTS_PACKAGE,
    PLAIN,
    WORD,
    differing_pairs,
)
from editcritic.benchmarks.human_eval.judge_faults.runner import FAULTS, choose, draws_for, recommendations
from editcritic.benchmarks.run.run_budget import BudgetLimits
from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert
from editcritic.benchmarks.sceneedit.experts.judge import SceneJudge
from editcritic.reward import AnswerLog, Card, EditSample, Expert, Image, Reward
from editcritic.reward.metrics.baselines.reward_models import EditScore, JudgeLevels
from editcritic.reward.queries import Abstention, Failure, Grade, Judge, Levels, Reply, YesNo
from editcritic.reward.queries.answers import Outcome
from editcritic.reward.queries.prompts import Prompts
from editcritic.reward.sample import MAX_INSTRUCTION
from studies import judge_faults as study
from studies.judge_faults import Faults, FaultyJudge

from ...reward.experts.http_server import Answer, completion, serving
from ...reward.experts.served_judges import judge as served_judge

SEED = 77


@cache
def edits() -> tuple[EditSample, ...]:
    return tuple(study.measured_samples(SEED))


@cache
def scene_judge() -> Expert:
    return CachingExpert(SceneJudge())


def faulty(**faults: float) -> FaultyJudge:
    return study.faulty_judge(scene_judge(), Faults(**faults), edits(), SEED)


ADVICE = {
    "position": "Compare edits in both orders",
    "order": "Show the source first and the edit second",
    "yes_bias": "Ask yes/no questions in both phrasings",
    "wording": "Never compare its scores across prompts",
    "size": "Send pictures as they are. Pictures with sides x 0.5",
    "jpeg": "Send pictures as they are. JPEG with quality 75",
    "noise": "It does not repeat its answers",
    "picture_words": "It obeys words painted into a picture: put `guard-prompt-injection` before it",
    "instruction_words": "It obeys words in an instruction",
    "readings": "% of replies they are not what its probabilities say",
}
"""Dialled fault -> what is advised because of it, and only then."""


@pytest.mark.parametrize("fault", study.MEASURED)
def test_a_fault_is_found_with_its_size_and_its_advice_and_no_other_one(fault: str) -> None:
    result = measure_faults(faulty(**{fault: 0.4}), edits())
    name = study.MEASURED[fault]
    finding: Any = result.of(name)[0]
    assert finding.found
    assert finding.low <= study.expected_measure(fault, 0.4) <= finding.high
    assert set(result.found) == {name} | study.BYPRODUCTS.get(fault, set())
    advised = {name for name, words in ADVICE.items() if any(words in line for line in result.recommendations)}
    assert advised == {fault}


def test_a_judge_without_faults_is_not_accused() -> None:
    result = measure_faults(faulty(), edits())
    assert (result.found, result.failures) == ([], 0)
    assert {finding.fault for finding in result.findings} == set(FAULTS)
    assert all(finding.value == 0 for finding in result.findings)
    # Certainty is not claimed: 48 samples leave room for a fault in a few per cent of answers.
    assert all(0 < (finding.high or 0) < 0.3 for finding in result.findings)
    assert any("One draw" in line for line in result.recommendations)
    assert not any("obeys" in line or "both orders" in line for line in result.recommendations)


def test_noise_is_measured_in_grades_and_gives_the_number_of_draws() -> None:
    result = measure_faults(faulty(noise=0.3), edits(), faults=["grade-draws"])
    finding: Any = result.of("grade-draws")[0]
    assert finding.low <= study.expected_grade_noise(scene_judge(), edits(), 0.3) <= finding.high
    single: Any = result.reliability["sampled grades, word"]
    assert any(f"Average {draws_for(single)} draws" in line for line in result.recommendations)


def test_a_size_that_changes_nothing_is_recommended_and_one_that_does_is_not() -> None:
    small = measure_faults(faulty(size=0.4), edits(), faults=["size", "jpeg"])
    for words in ("Send pictures as they are. Pictures", "JPEG with quality 30"):
        assert any(line.startswith(words) for line in small.recommendations)


@pytest.mark.parametrize(("fault", "texts"), [("yes_bias", 1), ("noise", 2)])
def test_a_fault_is_the_same_when_asked_again_and_noise_is_not(fault: str, texts: int) -> None:
    queries = [replace(PLAIN.query(edits()[0]), draw=draw) for draw in range(12)]
    replies = faulty(**{fault: 0.5})(queries)
    assert len({reply.text for reply in replies if isinstance(reply, Reply)}) == texts


class Scripted(Expert):
    """Yes and 5 to everything; some queries fail. seen: all queries."""

    kinds = (Judge,)
    batch = 8

    def __init__(self, failing: float = 0.0, reason: Outcome | None = None, probabilities: bool = False) -> None:
        self.failing, self.reason, self.probabilities = failing, reason or Failure("the judge refused"), probabilities
        self.id = f"scripted {failing} {probabilities}"
        self.seen: list[Judge] = []

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        self.seen += queries
        fails = [int(query.digest[:8], 16) / 2**32 < self.failing for query in queries]
        return [self.reason if failed else self._reply(query) for query, failed in zip(queries, fails, strict=True)]

    def _reply(self, query: Judge) -> Reply:
        match query.form:
            case YesNo():
                return Reply("yes", {"yes": 0.75, "no": 0.25} if self.probabilities else {})
            case Grade():
                return Reply("5", {"5": 0.6, "6": 0.4} if self.probabilities else {})
            case Levels():
                return Reply("first" if query.topic == "pairwise" else "good")
            case _:
                return Reply('{"reasoning": "", "score": [5, 5]}')


def test_what_failed_is_counted_and_in_no_figure() -> None:
    result = measure_faults(Scripted(failing=0.2), edits(), faults=["yes-bias", "draws"])
    (bias,) = result.of("yes-bias")
    assert bias.value == 1.0  # of those with an answer: yes to both
    assert 0 < bias.missing == len(edits()) - bias.samples < len(edits())
    assert "the judge refused" in bias.reason
    assert result.failures > 0
    assert f"{result.failures:,} failed" in result.markdown()


@pytest.mark.parametrize("reason", [Failure("down"), Abstention("who could know")])
def test_a_judge_without_answers_has_no_figures_and_no_verdict(reason: Outcome) -> None:
    result = measure_faults(Scripted(failing=1.0, reason=reason), edits())
    assert all(finding.value is None and finding.found is None for finding in result.findings)
    assert (result.found, result.recommendations) == ([], ())
    json.dumps(result.to_json(), allow_nan=False)
    assert "unknown" in result.html()


def test_without_probabilities_there_is_no_reading_of_them() -> None:
    result = measure_faults(Scripted(), edits(), faults=["readings"])
    assert [finding.value for finding in result.findings] == [None, None]
    assert result.recommendations == ("Read its words: it gives no probabilities.",)
    with_them = measure_faults(Scripted(probabilities=True), edits(), faults=["readings"])
    assert [finding.value for finding in with_them.findings] == [0.0, pytest.approx(0.04)]


@pytest.mark.parametrize(("word", "expected", "better"), [(0.5, 0.8, "probabilities"), (0.8, 0.5, "words")])
def test_the_reading_that_changes_less_with_the_wording_is_advised(word: float, expected: float, better: str) -> None:
    result = measure_faults(Scripted(probabilities=True), edits(), faults=["readings"])
    measured = {f"{GRADES_REWORDED}, {WORD}": word, f"{GRADES_REWORDED}, {EXPECTED}": expected}
    (advice,) = recommendations(replace(result, reliability=measured))
    assert advice.startswith(f"Read its {better}: over paraphrases")
    assert f"the expected grade has a reliability of {expected:.2f}, the written one of {word:.2f}" in advice


def test_one_source_gives_a_value_but_no_interval_and_no_verdict() -> None:
    (finding,) = measure_faults(Scripted(), edits()[:1], faults=["yes-bias"]).findings
    assert (finding.value, finding.low, finding.found) == (1.0, None, None)


def test_equal_questions_are_asked_once_and_the_log_answers_the_next_audit(tmp_path: Path) -> None:
    judge = Scripted()
    with AnswerLog(tmp_path / "answers.sqlite") as log:
        first, asked = measure_faults(judge, edits(), log=log), len(judge.seen)
        again = measure_faults(judge, edits(), log=log)
    assert asked == len(judge.seen) == len({query.digest for query in judge.seen})
    assert [sum(cost.calls for cost in one.costs.values()) for one in (first, again)] == [asked, 0]
    assert [cost.questions for cost in again.costs.values()] == [cost.questions for cost in first.costs.values()]
    assert again.findings == first.findings


def test_beyond_the_budget_nothing_is_asked_and_the_report_says_so() -> None:
    judge = Scripted()
    result = measure_faults(judge, edits(), limits=BudgetLimits(judge_calls=100))
    assert len(judge.seen) == 100
    assert "100 judge calls" in result.exhausted
    assert result.exhausted in result.markdown()
    assert result.of("readings")[0].value is None


def test_tokens_and_money_of_a_served_judge_are_in_the_table() -> None:
    with serving(lambda *_: Answer(completion("yes"))) as server:
        judge = served_judge(server, usd_per_million_in=1.0, usd_per_million_out=10.0)
        result = measure_faults(judge, edits()[:4], faults=["yes-bias"])
        assert len(server.requests) == 8
    cost = result.costs["yes-bias"]
    assert (cost.calls, cost.tokens) == (8, 8 * 102)
    assert cost.usd == pytest.approx(8 * (100 + 20) / 1e6)
    assert "816" in result.markdown()


def test_words_for_the_judge_are_in_the_text_alone_and_fit_after_the_longest_instruction() -> None:
    judge = Scripted()
    measure_faults(judge, edits()[:2], faults=["instruction-words"])
    texts = [str(query.messages[0].content[-1]) for query in judge.seen]
    assert all(sum(words in text for words in DEMANDS) == 1 for text in texts)
    assert {query.slots for query in judge.seen} == {(("instruction", s.instruction),) for s in edits()[:2]}
    longest = replace(edits()[0], instruction="x" * MAX_INSTRUCTION)
    for words in DEMANDS:
        instruction = told(longest, words).instruction
        assert (len(instruction), instruction.endswith(words)) == (MAX_INSTRUCTION, True)


def test_painted_words_are_on_a_strip_of_the_edit_alone_and_legible() -> None:
    sample = edits()[0]
    best, worst = (painted(sample, words) for words in DEMANDS)
    assert best.sources == worst.sources == sample.sources
    before, after = sample.edited.pixels, best.edited.pixels
    assert before.shape == after.shape
    assert np.array_equal(before[: -before.shape[0] // 4], after[: -before.shape[0] // 4])
    assert best.edited.digest != worst.edited.digest
    grey = replace(sample, edited=Image.of(np.full((512, 512, 3), 90, np.uint8)))
    dark = (painted(grey, DEMANDS[0]).edited.pixels.max(axis=2) < 60).any(axis=1)
    assert 10 <= dark.sum() <= 82  # rows of letters, inside of the strip


def test_pictures_are_scaled_and_compressed_together() -> None:
    sample = edits()[0]
    smaller, worse = scaled(sample, 0.5), compressed(sample, 30)
    assert smaller.source.size == smaller.edited.size == tuple(side // 2 for side in sample.source.size)
    assert (min(scaled(sample, 0.01).edited.size), worse.edited.size) == (MIN_SIDE, sample.edited.size)
    assert worse.edited.digest != sample.edited.digest


def test_an_edit_is_compared_with_its_sibling_or_else_with_its_source() -> None:
    one, other = edits()[:2]
    sibling = replace(one, id="sibling", edited=other.edited)
    assert [(a.id, b.id) for a, b in differing_pairs([one, sibling])] == [(one.id, "sibling")]
    assert [(a.id, b.edited) for a, b in differing_pairs([one])] == [(one.id, one.source)]
    assert differing_pairs([replace(one, edited=one.source)]) == []


def test_samples_are_chosen_from_as_many_sources_as_possible_two_of_each() -> None:
    siblings = [replace(edits()[0], id=str(n), edited=edit.edited) for n, edit in enumerate(edits()[1:11])]
    chosen = choose([*siblings, *edits()[20:24]], 6)
    assert len(chosen) == 6
    assert len({sample.source.digest for sample in chosen}) >= 4
    assert chosen == choose([*siblings, *edits()[20:24]], 6)


def test_the_paraphrases_share_no_sentence_with_what_they_paraphrase() -> None:
    for name, package in (("yes_no", PLAIN.package), ("grade", FAULTS_PACKAGE)):
        texts = [Prompts(package).render(name, instruction="X")]
        texts += [Prompts(FAULTS_PACKAGE).render(f"{name}_{number}", instruction="X") for number in (1, 2, 3)]
        sentences = [{line for line in text.splitlines() if line} for text in texts]
        assert not any(a & b for index, a in enumerate(sentences) for b in sentences[:index])


@pytest.mark.parametrize("metric", [JudgeLevels(), EditScore()])
def test_a_reward_is_audited_on_its_own_score_and_its_judge_with_our_questions(metric: JudgeLevels | EditScore) -> None:
    judge = Scripted()
    result = measure_faults(Reward(metric, {"judge": judge}), edits()[:6])
    assert (result.question, {finding.fault for finding in result.findings}) == (metric.card.name, set(FAULTS))
    assert {query.topic for query in judge.seen} >= {"baselines/yes_no", "audit/negated", "pairwise"}
    own = [q for q in judge.seen if q.topic in ("baselines/level", "baselines/edit_score")]
    assert any(words in str(q.messages) for q in own for words in DEMANDS)


def test_a_reward_without_a_judge_has_no_faults_of_a_judge() -> None:
    result = measure_faults(Reward.of("guard-not-blank"), edits()[:4])
    assert {finding.fault for finding in result.findings} == set(FAULTS) - OF_JUDGE
    with pytest.raises(InputError, match="asks no judge"):
        measure_faults(Reward.of("guard-not-blank"), edits()[:4], faults=["position"])


class _Unbounded(JudgeLevels):
    card = Card("unbounded", 1, "", range=(None, None), kinds={"judge": ("judge",)})


@pytest.mark.parametrize(
    ("judge", "samples", "options", "words"),
    [
        (Scripted(), 0, {}, "got none"),
        (Scripted(), 2, {"faults": ["taste"]}, "one of position"),
        (Scripted(), 2, {"repeats": 1}, "2 or more"),
        (Scripted(), 2, {"scales": [2.0]}, "between 0 and 1"),
        (Scripted(), 2, {"qualities": [0]}, "1 to 95"),
        (Reward(_Unbounded(), {"judge": Scripted()}), 2, {}, "no bounded range"),
    ],
)
def test_a_mistake_is_named_before_anything_is_asked(judge, samples, options, words):
    with pytest.raises(InputError, match=words):
        measure_faults(judge, edits()[:samples], **options)


@pytest.mark.parametrize("probability", [0.0, 0.05, 0.2, 0.5])
def test_intervals_cover_a_share_at_their_rate(probability: float) -> None:
    rng = np.random.default_rng(5)
    sources = [str(n) for n in range(40)]
    covered = 0
    for _ in range(200):
        drawn = (rng.random(40) < probability).astype(float).tolist()
        estimate: Any = mean_over_sources(drawn, sources, (-1.0, 1.0))
        covered += estimate.low <= probability <= estimate.high
    assert covered >= 184  # 92 %


def test_samples_of_one_source_count_as_one_for_the_interval() -> None:
    values = [float(n % 2) for n in range(40)]
    apart: Any = mean_over_sources(values, [str(n) for n in range(40)], (0.0, 1.0))
    together: Any = mean_over_sources(values, [f"{n % 2} {n // 10}" for n in range(40)], (0.0, 1.0))
    assert apart.value == together.value == 0.5
    assert together.low < apart.low


@pytest.mark.parametrize(
    ("rows", "excess"), [(([1, 1, 1], [0, 0], [1, 1]), 1), (([1, 0, 0], [0, 0], [0, 0]), 0), (([1], [0.5], []), 0.5)]
)
def test_a_change_counts_beyond_that_of_asking_again(rows: tuple[list[float], ...], excess: float) -> None:
    assert excess_change(*rows) == excess


def test_reliability_is_the_intraclass_correlation() -> None:
    # Shrout and Fleiss (1979), table 2: four raters of six targets; ICC(1,1) is 0.17.
    ratings = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    assert reliability(ratings) == pytest.approx(0.17, abs=0.005)
    assert [reliability(rows) for rows in ([[1, 1], [2, 2]], [[1, 1], [1, 1]], [[1, 2]])] == [1, None, None]


@pytest.mark.parametrize(("single", "count"), [(1.0, 1), (0.9, 1), (0.5, 9), (0.75, 3), (0.1, None), (0.0, None)])
def test_draws_for_a_reliability(single: float, count: int | None) -> None:
    assert draws_for(single) == count


def test_reports_escape_what_the_judge_brings() -> None:
    judge = Scripted(failing=0.3, reason=Failure("<script>alert(1)</script> | \x1b[31m"))
    judge.id = "<b>judge</b>"
    result = measure_faults(judge, edits()[:6], faults=["yes-bias"])
    page = result.html()
    assert not any(words in page for words in ("<script>", "<b>judge"))
    assert "\x1b" not in page + result.markdown()


def test_the_study_prints_a_row_for_each_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(study, "LEVELS", (1.0,))
    assert study.main(["--seeds", "1", "--samples", "6"], lines.append) == 0
    assert sum(line.startswith("| ") for line in lines) == 2 + len(study.MEASURED)
