"""Journaled scores: kept for the reward that gave them, under all that they depend on, and for no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from editcritic.reward import Card, EditSample, Program, Reward, Score
from editcritic.reward.engine import ask
from editcritic.reward.metrics.baselines.reward_models import JudgeYesNo
from editcritic.reward.queries import Rate, Reply
from editcritic.verifiers import Journal, Verifier, at_least
from editcritic.verifiers.selection.scoring import JournaledScorer
from editcritic.verifiers.selectors.retry import RetryUntilAccepted

from ...reward.fakes import Fake
from ..numpy_editor import graded, judge, pick, read, scenes


@dataclass(frozen=True)
class Versioned:
    version: ClassVar[int] = 1

    @property
    def card(self) -> Card:
        return Card("versioned", self.version, "good", roles=("judge",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        answer = yield from ask(Rate(sample.edited, "following"), role="judge")
        return Score.of(self.version * (answer.value or 0.0))


@dataclass(frozen=True)
class Labelled:
    card: ClassVar[Card] = Card("labelled", 1, "many", range=(None, None))

    def __call__(self, sample: EditSample) -> Program[Score]:
        yield from ()
        return Score.of(float(np.sum(sample.metadata["array"])))


def local(quality: str) -> Any:
    """A metric of a class that no other process can import."""

    class Local:
        card = Card("local", 1, "good", roles=("judge",))

        def __call__(self, sample: EditSample) -> Program[Score]:
            answer = yield from ask(Rate(sample.edited, quality), role="judge")
            return Score.of(answer.value or 0.0)

    return Local()


def scored(reward: Reward, folder: Path | None, samples: Sequence[EditSample]) -> list[tuple[Score, bool]]:
    with Journal(folder) as journal:
        return [(score, cached) for score, _, cached in JournaledScorer(reward, journal)(samples)]


def test_a_new_version_of_a_metric_is_asked_again(tmp_path, monkeypatch):
    (before, _), *_ = scored(Reward(Versioned(), {"judge": judge()}), tmp_path, scenes(1))
    monkeypatch.setattr(Versioned, "version", 2)
    ((after, cached),) = scored(Reward(Versioned(), {"judge": judge()}), tmp_path, scenes(1))
    assert not cached
    assert before.value
    assert after.value == 2 * before.value


def test_a_new_prompt_pack_is_asked_again(tmp_path):
    pack = tmp_path / "pack"
    pack.mkdir()
    values = []
    for words in ("Is it done? {instruction}", "Is it worse? {instruction}"):
        (pack / "yes_no.txt").write_text(words, encoding="utf-8")
        says = Fake(lambda query: Reply("no" if "worse" in str(query.messages) else "yes"), name="says")
        reward = Reward(JudgeYesNo(prompts=str(pack)), {"judge": says})
        values += [score.value for score, cached in scored(reward, tmp_path / "journal", scenes(1)) if not cached]
    assert values == [1.0, 0.0]


def test_other_weights_of_an_expert_are_asked_again_also_within_a_run():
    expert = judge()
    with Journal() as journal:
        scorer = JournaledScorer(graded(expert), journal)
        ((_, _, first),) = scorer(scenes(1))
        expert.id = "reader with other weights"
        ((_, _, second),) = scorer(scenes(1))
    assert (first, second) == (False, False)


def test_samples_that_differ_within_a_long_array_have_scores_of_their_own(tmp_path):
    arrays = [np.zeros(5000), np.concatenate([np.zeros(2500), [7.0], np.zeros(2499)])]
    assert str(arrays[0]) == str(arrays[1])
    samples = [replace(scenes(1)[0], id=str(n), metadata={"array": array}) for n, array in enumerate(arrays)]
    assert [score.value for score, _ in scored(Reward(Labelled(), {}), tmp_path, samples)] == [0.0, 7.0]


def test_a_sample_with_what_nobody_can_describe_is_not_kept(tmp_path):
    @dataclass
    class Strange:
        number: int

    samples = [replace(scenes(1)[0], metadata={"array": 1, "strange": Strange(1)})]
    for _ in range(2):
        assert [cached for _, cached in scored(Reward(Labelled(), {}), tmp_path, samples)] == [False]


def test_two_metrics_without_a_spec_share_no_score_within_a_run():
    expert = judge()
    own, second = Reward(local("following"), {"judge": expert}), Reward(local("second"), {"judge": expert})
    selector = RetryUntilAccepted(Verifier(second, at_least(0.6)), 8, feedback=None)
    (selection,) = pick(selector, reward=own)
    worths = [read(one.picture, "second") for one in selection.candidates if one.picture]
    assert [worth >= 0.6 for worth in worths] == [False] * (len(worths) - 1) + [True]


def test_without_a_spec_nothing_is_kept_for_another_process(tmp_path):
    values = []
    for quality in ("following", "second"):
        with Journal(tmp_path) as journal:
            scorer = JournaledScorer(Reward(local(quality), {"judge": judge()}), journal)
            assert [cached for *_, cached in (*scorer(scenes(1)), *scorer(scenes(1)))] == [False, True]
            values.append(scorer(scenes(1))[0][0].value)
            assert journal._db.execute("select count(*) from scores").fetchone() == (0,)
    assert values[0] != values[1]


@pytest.mark.parametrize("text", ["a/b", "no such file.png", "../nothing"])
def test_words_that_look_like_a_path_are_words(text):
    assert Reward(JudgeYesNo(), {"judge": judge()}).identity
    assert scored(graded(), None, [replace(scenes(1)[0], hint=text)])[0][0].status == "scored"
