"""Rewards as TRL calls them, alone and in real trainers."""

import asyncio
import inspect
import json
import pickle
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from trl.trainer.utils import get_callable_name, is_async_callable

from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.sceneedit.learned.pipeline import load
from editcritic.benchmarks.selection.trials import single
from editcritic.integrations.diffusers.editor import editor_of
from editcritic.integrations.trl import AsyncRewardFunction, RewardFunction, metrics
from editcritic.reward import Abstention, Image, Reward, Score
from editcritic.verifiers import EditorFailed

from ..reward.experts.tiny_vlms import tiny_llava
from ..verifiers.editors import Painter, graded, judge, read, scenes
from .trainers import asking, grpo, half_known, rows_of


def step(number):
    return SimpleNamespace(global_step=number)


def test_what_the_policy_writes_is_carried_out_and_judged_by_what_was_asked_for():
    painter, expert = Painter(), judge()
    reward = RewardFunction(graded(expert), editor=painter)
    values = reward(**asking("paint it blue", "a bluer one"))
    assert [words for words, _ in painter.asked] == ["paint it blue", "a bluer one"]
    found = reward.rollouts(**asking("paint it blue", "a bluer one"))
    assert [one.score.value for one in found] == values == [read(one.sample.edited) for one in found]
    assert {one.sample.instruction for one in found} == {"make it blue"}
    assert len({one.sample.group for one in found}) == 1
    assert len({one.sample.id for one in found}) == 2


def test_instructions_follow_each_other_up_to_a_number():
    painter = Painter()
    reward = RewardFunction(graded(), editor=painter, most=2)
    one, two, many = reward.rollouts(**asking("wash", "1. wash\n2. dry", "- wash\n\n- dry\n- fold"))
    assert painter.asked == [("wash", 0), ("dry", 0)]
    assert two.written == many.written == ("wash", "dry")
    assert two.sample.edited == many.sample.edited != one.sample.edited
    assert two.sample.source == scenes(1)[0].source
    assert [two.sample.edited] == painter.edit([(one.sample.edited,)], ["dry"], [0])


def test_the_same_words_share_a_picture_and_the_noise_moves_on_with_the_trainer():
    painter = Painter(batch=2)
    reward = RewardFunction(graded(), editor=painter, seed=100)
    first = reward(**asking("a", "b", "a", "c"), trainer_state=step(0))
    assert painter.calls == [2, 1]
    assert first[0] == first[2]
    assert reward(**asking("a"), trainer_state=step(7)) != first[:1]
    assert [seed for _, seed in painter.asked] == [100, 100, 100, 107]


def test_who_writes_nothing_leaves_the_source_as_it_is():
    painter = Painter()
    (found,) = RewardFunction(graded(), editor=painter).rollouts(**asking(" \n - \n"))
    assert found.sample.edited == found.sample.source
    assert found.score.value == read(found.sample.source)
    assert painter.calls == []


def shade_of(completion, completion_ids, row):
    """A policy whose tokens are grey values."""
    return np.full((8, 8, 3), completion_ids[0], np.uint8) if len(completion_ids) else None


def test_completions_can_be_pictures():
    reward = RewardFunction(graded(), decode=shade_of)
    found = reward.rollouts(**asking("", "", completion_ids=[[7], []]))
    assert found[0].sample.edited == Image.of(np.full((8, 8, 3), 7, np.uint8))
    assert found[0].score.value == read(found[0].sample.edited)
    assert found[1].score.status == "failed"
    assert reward(**asking("", completion_ids=[[]])) == [None]


def test_pictures_can_be_a_column():
    edited = scenes(2)[1].source
    (found,) = RewardFunction(graded()).rollouts(**asking("", edited=[edited.pil()]))
    assert found.sample.edited == edited


def test_a_score_without_a_value_is_none_and_never_a_number():
    reward = RewardFunction(graded(judge(rule=half_known)), editor=Painter())
    found = reward.rollouts(**asking(*(f"try {number}" for number in range(12))))
    values = [one.score.value for one in found]
    assert any(value is None for value in values)
    assert any(value is not None for value in values)
    for one in found:
        assert (one.score.value is None) == (read(one.sample.edited) >= 0.5)


def test_an_editor_that_fails_once_costs_one_completion_its_reward():
    class Moody(Painter):
        def begin(self, images, instructions, noises, *, history=None):
            if "no" in instructions:
                raise RuntimeError("out of paint")
            return super().begin(images, instructions, noises, history=history)

    values: dict[str, Any] = {}
    reward = RewardFunction(graded(), editor=Moody())
    first, second, third = reward(**asking("a", "no", "b"), log_extra=values.__setitem__)
    assert first is not None
    assert third is not None
    assert second is None
    assert "out of paint" in values["graded/reason"][1]


def test_an_editor_that_makes_nothing_is_an_error():
    with pytest.raises(EditorFailed, match="no paint"):
        RewardFunction(graded(), editor=Painter(broken=True))(**asking("a", "b", "c"))


def scored(value, group="g", **parts):
    score = Score.abstained("unknown") if value is None else Score.of(value, parts=parts)
    (scene,) = scenes(1, group=group)
    return SimpleNamespace(sample=scene, score=score)


def test_metrics_are_means_of_parts_and_shares():
    rollouts = [
        scored(1.0, "a", following=Score.of(1.0, credits={"1": Score.of(0.25)}), consistency=Score.of(0.5)),
        scored(
            0.0,
            "a",
            following=Score.of(0.0, credits={"1": Score.of(0.75, parts={"dog": Score.of(1)})}),
            consistency=Score.abstained("?"),
        ),
        scored(0.5, "b"),
        scored(0.5, "b"),
        scored(None, "b"),
        scored(None, "alone"),
    ]
    assert metrics(rollouts) == {
        "following": 0.5,
        "following/credit/1": 0.5,
        "consistency": 0.5,
        "unscored": pytest.approx(2 / 6),
        "degenerate": 0.5,
    }


def test_a_call_logs_metrics_and_columns_of_texts():
    numbers: dict[str, float] = {}
    texts: dict[str, list[str]] = {}
    reward = RewardFunction("guards", editor=Painter(), name="safe")
    reward(**asking("a\nb", "c"), log_metric=numbers.__setitem__, log_extra=texts.__setitem__)
    assert {"safe/unscored", "safe/degenerate"} < set(numbers)
    assert all(isinstance(value, float) for value in numbers.values())
    assert set(texts) == {"safe/reason", "safe/evidence", "safe/written"}
    assert texts["safe/written"] == ["a\nb", "c"]
    assert all(len(column) == 2 and all(isinstance(one, str) for one in column) for column in texts.values())
    assert json.loads(texts["safe/evidence"][0])[0]["what"]


def test_mistakes_are_said_before_anything_is_made():
    painter = Painter()
    reward = RewardFunction(graded(), editor=painter)
    with pytest.raises(
        ValueError, match=r"columns completion, completion_ids, prompt, source, and an edit needs `instr"
    ):
        reward(**asking("a", instruction=[None]))
    with pytest.raises(ValueError, match=r"2 completions need as many items in each column, got \{'source': 1\}"):
        reward(**asking("a", "b", source=[scenes(1)[0].source]))
    with pytest.raises(ValueError, match="not both"):
        RewardFunction(graded(), editor=painter, decode=shade_of)
    with pytest.raises(ValueError, match="an editor is an"):
        RewardFunction(graded(), editor=print)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has its experts already"):
        RewardFunction(graded(), {})
    assert painter.calls == []


def painter():
    """For specs: an editor that is built where it is needed, and does not pickle."""
    made = Painter()
    made.heeds = MappingProxyType({})
    return made


def test_it_pickles_and_says_the_same():
    reward = RewardFunction("guards", editor=f"{__name__}:painter", decode=None, name="safe")
    reward(**asking("a"))  # what was built stays behind
    copy = pickle.loads(pickle.dumps(AsyncRewardFunction(reward)))
    assert copy.__name__ == "safe"
    assert asyncio.run(copy(**asking("a", "b"))) == reward(**asking("a", "b"))


def test_trl_sees_a_name_and_whether_it_is_asynchronous():
    reward = RewardFunction("guards")
    assert (get_callable_name(reward), is_async_callable(reward)) == (reward.reward.card.name, False)
    waiting = AsyncRewardFunction(reward)
    assert (get_callable_name(waiting), is_async_callable(waiting)) == (reward.reward.card.name, True)
    assert inspect.iscoroutinefunction(type(waiting).__call__)


# -- real trainers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [lambda reward: reward, AsyncRewardFunction], ids=["sync", "async"])
def test_grpo_learns_from_the_rewards_of_a_diffusion_editor(kind, tmp_path):
    samples = [trial.sample for trial in single(2, seed=1)]
    by_words = {one.instruction: one for one in samples}

    def known(row):
        return by_words[row["instruction"]]

    function = RewardFunction(
        Reward.of("edit-balanced", experts()), to_sample=known, editor=editor_of(load()), name="edits"
    )
    trainer = grpo(tmp_path, kind(function), rows_of(samples))
    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert len(steps) == 2
    for entry in steps:
        assert 0 <= entry["rewards/edits/mean"] <= 1
        assert {"edits/guard", "edits/unscored", "edits/degenerate"} <= set(entry)
    assert {"edits/reason", "edits/evidence", "edits/written"} == set(trainer._logs["extra"])


def test_a_policy_may_see_the_picture_it_writes_instructions_for(tmp_path):
    tiny_llava(tmp_path / "policy")
    prompt = [{"role": "user", "content": "Say it better"}]
    (scene,) = scenes(1)
    rows = Dataset.from_list([{"prompt": prompt, "instruction": scene.instruction, "images": [scene.source.pil()]}] * 2)
    trainer = grpo(tmp_path, RewardFunction(graded(), editor=Painter()), rows, model=tmp_path / "policy")
    assert all(0 <= reward <= 1 for reward in trainer._logs["rewards"]["graded"])


def test_unscored_completions_leave_grpo_as_it_is(tmp_path):
    never = judge(rule=lambda query: Abstention("unknown"))
    trainer = grpo(tmp_path, RewardFunction(graded(never), editor=Painter()), rows_of(scenes(2)))
    assert set(trainer._logs["advantages"]) == {0.0}
    assert [entry["graded/unscored"] for entry in trainer.state.log_history if "reward" in entry] == [1.0, 1.0]

    some = judge(rule=half_known)
    trainer = grpo(tmp_path, RewardFunction(graded(some), editor=Painter()), rows_of(scenes(2)))
    rewards = trainer._logs["rewards"]["graded"]
    pairs = list(zip(rewards, trainer._logs["advantages"], strict=True))
    assert any(np.isnan(reward) for reward, _ in pairs)
    assert all(advantage == 0 for reward, advantage in pairs if np.isnan(reward))
