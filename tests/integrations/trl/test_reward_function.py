"""Rewards as TRL calls them, alone and in real trainers."""

import asyncio
import inspect
import json
import pickle
import threading
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit import toy
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import single_edit_trials
from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained
from editcritic.integrations.dataset_rows import UnusableRow, sample_from_row
from editcritic.integrations.diffusers.pipeline_editor import make_editor
from editcritic.integrations.trl.preferences import make_preference_pairs
from editcritic.integrations.trl.reward_function import AsyncRewardFunction, RewardFunction, rollout_metrics
from editcritic.reward import Expert, Image, Reward, Score, SpecError
from editcritic.reward.queries import ReadText
from editcritic.verifiers.selection import EditorError

from ...reward.experts.tiny_vlms import tiny_llava
from ...verifiers.numpy_editor import Painter, graded, read, scenes
from ..trl_runs import asking, grpo, rows_of, sample_of


def step(number):
    return SimpleNamespace(global_step=number)


def test_what_the_policy_writes_is_carried_out_and_judged_by_what_was_asked_for():
    painter = Painter()
    reward = RewardFunction(graded(), editor=painter)
    values = reward(**asking("paint it blue", "a bluer one"))
    assert [words for words, _ in painter.requests] == ["paint it blue", "a bluer one"]
    rollouts = reward.rollouts(**asking("paint it blue", "a bluer one"))
    assert [one.score.value for one in rollouts] == values == [read(sample_of(one).edited) for one in rollouts]
    assert {sample_of(rollout).instruction for rollout in rollouts} == {"make it blue"}
    assert len({sample_of(rollout).group for rollout in rollouts}) == 1
    assert len({sample_of(rollout).id for rollout in rollouts}) == 2


def test_instructions_follow_each_other_up_to_a_number():
    painter = Painter()
    reward = RewardFunction(graded(), editor=painter, max_instructions=2)
    one, two, many = reward.rollouts(**asking("wash", "1. wash\n2. dry", "- wash\n\n- dry\n- fold"))
    assert painter.requests == [("wash", 0), ("dry", 0)]
    assert two.instructions == many.instructions == ("wash", "dry")
    assert sample_of(two).edited == sample_of(many).edited != sample_of(one).edited
    assert sample_of(two).source == scenes(1)[0].source
    assert [sample_of(two).edited] == painter.edit([(sample_of(one).edited,)], ["dry"], [0])


def test_the_same_words_share_a_picture_and_the_noise_moves_on_with_the_trainer():
    painter = Painter(batch_size=2)
    reward = RewardFunction(graded(), editor=painter, seed=100)
    first = reward(**asking("a", "b", "a", "c"), trainer_state=step(0))
    assert painter.calls == [2, 1]
    assert first[0] == first[2]
    assert reward(**asking("a"), trainer_state=step(7)) != first[:1]
    assert [seed for _, seed in painter.requests] == [100, 100, 100, 107]


def test_who_writes_nothing_leaves_the_source_as_it_is():
    painter = Painter()
    (rollout,) = RewardFunction(graded(), editor=painter).rollouts(**asking(" \n - \n"))
    assert sample_of(rollout).edited == sample_of(rollout).source
    assert rollout.score.value == read(sample_of(rollout).source)
    assert painter.calls == []


def shade_of(completion, completion_ids, row):
    return np.full((8, 8, 3), completion_ids[0], np.uint8) if len(completion_ids) else None


def test_pictures_can_be_completions_or_a_column_and_what_is_none_has_the_lowest_value():
    texts: dict[str, Any] = {}
    reward = RewardFunction(graded(), decode_image=shade_of)
    grey = Image.of(np.full((8, 8, 3), 7, np.uint8))
    call = asking("", "", completion_ids=[[7], []])
    assert sample_of(reward.rollouts(**call)[0]).edited == grey
    assert reward(**call, log_extra=texts.__setitem__) == [read(grey), 0.0]
    assert texts["graded/reason"][1] == "the completion is no image"
    edited = scenes(2)[1].source
    one, *others = RewardFunction(graded()).rollouts(**asking("", "", "", edited=[edited.pil(), np.nan, None]))
    assert sample_of(one).edited == edited
    assert [(other.score.status, other.sample) for other in others] == [("failed", None)] * 2


class Moody(Painter):
    def __init__(self, **errors: Exception) -> None:
        super().__init__()
        self.errors = errors

    def begin(self, images, instructions, noise_specs, *, history=None):
        for error in (self.errors[words] for words in instructions if words in self.errors):
            raise error
        return super().begin(images, instructions, noise_specs, history=history)


def test_what_an_editor_refuses_leaves_the_picture_and_is_scored():
    texts: dict[str, Any] = {}
    reward = RewardFunction(graded(), editor=Moody(no=RuntimeError("out of paint")))
    rollouts = reward.rollouts(**asking("a", "no", "a\nno", "no\na", "b"))
    source, washed = sample_of(rollouts[0]).source, sample_of(rollouts[0]).edited
    assert [sample_of(one).edited for one in rollouts[:4]] == [washed, source, washed, washed]
    assert [one.score.value for one in rollouts[:4]] == [read(one) for one in (washed, source, washed, washed)]
    reward(**asking("a", "no"), log_extra=texts.__setitem__)
    assert "out of paint" in texts["graded/reason"][1]
    assert texts["graded/instructions"] == ["a", "no"]


@pytest.mark.parametrize("error", [ConnectionResetError("no route"), TimeoutError("late"), MemoryError("full")])
def test_an_editor_that_is_down_leaves_a_completion_unscored(error):
    values: dict[str, Any] = {}
    reward = RewardFunction(graded(), editor=Moody(down=error))
    first, second = reward(**asking("a", "a\ndown\nb"), log_extra=values.__setitem__)
    assert first is not None
    assert second is None
    assert str(error) in values["graded/reason"][1]


def test_an_editor_that_makes_nothing_is_an_error():
    with pytest.raises(EditorError, match="no paint"):
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
    rollouts[-1].score = Score.failed("no answer", cause="infrastructure")
    values = [1.0, 0.0, 0.5, 0.5, 0.0, None]
    assert rollout_metrics(rollouts, values, 1.5) == {
        "following": 0.5,
        "following/credit/1": 0.5,
        "consistency": 0.5,
        "unscored": pytest.approx(1 / 6),  # and not the one that nobody could judge, too
        "abstained": pytest.approx(1 / 6),
        "judge_seconds": 1.5,
        "frac_reward_zero_std": 0.0,  # of rewards as TRL gets them: an abstention is the lowest of its group
    }


def test_a_call_logs_metrics_and_columns_of_texts():
    numbers: dict[str, float] = {}
    texts: dict[str, list[str]] = {}
    reward = RewardFunction("guards", editor=Painter(), name="safe")
    reward(**asking("a\nb", "c"), log_metric=numbers.__setitem__, log_extra=texts.__setitem__)
    assert {"safe/unscored", "safe/frac_reward_zero_std"} < set(numbers)
    assert all(isinstance(value, float) for value in numbers.values())
    assert set(texts) == {"safe/reason", "safe/evidence", "safe/instructions"}
    assert texts["safe/instructions"] == ["a\nb", "c"]
    assert all(len(column) == 2 and all(isinstance(text, str) for text in column) for column in texts.values())
    assert json.loads(texts["safe/evidence"][0])[0]["what"]


def test_mistakes_are_said_before_anything_is_made():
    painter = Painter()
    reward = RewardFunction(graded(), editor=painter)
    lacking = {name: column for name, column in asking("a").items() if name != "instruction"}
    with pytest.raises(
        ValueError, match=r"columns completion, completion_ids, prompt, source, and an edit needs `instr"
    ):
        reward(**lacking)
    with pytest.raises(ValueError, match=r"2 completions need as many items in each column, got \{'source': 1\}"):
        reward(**asking("a", "b", source=[scenes(1)[0].source]))
    with pytest.raises(ValueError, match="no edited image: pass editor="):
        RewardFunction(graded())(**asking("a"))  # the source as its own edit would be worth 0, always
    with pytest.raises(ValueError, match="not both"):
        RewardFunction(graded(), editor=painter, decode_image=shade_of)
    with pytest.raises(ValueError, match="an editor is an"):
        RewardFunction(graded(), editor=print)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has its experts already"):
        RewardFunction(graded(), {})
    assert painter.calls == []


def painter():
    """For specs: an editor that is built where it is needed, and does not pickle."""
    painter_ = Painter()
    painter_.heeds = MappingProxyType({})
    return painter_


def test_it_pickles_and_says_the_same():
    reward = RewardFunction("guards", editor=f"{__name__}:painter", decode_image=None, name="safe")
    reward(**asking("a"))  # what was built stays behind
    copy = pickle.loads(pickle.dumps(AsyncRewardFunction(reward)))
    assert copy.__name__ == "safe"
    assert asyncio.run(copy(**asking("a", "b"))) == reward(**asking("a", "b"))


def test_trl_sees_a_name_and_whether_it_is_asynchronous():
    from trl.trainer.utils import get_callable_name, is_async_callable

    reward = RewardFunction("guards")
    assert (get_callable_name(reward), is_async_callable(reward)) == (reward.reward.card.name, False)
    waiting = AsyncRewardFunction(reward)
    assert (get_callable_name(waiting), is_async_callable(waiting)) == (reward.reward.card.name, True)
    assert inspect.iscoroutinefunction(type(waiting).__call__)


def test_grpo_learns_from_the_rewards_of_a_diffusion_editor(tmp_path):
    samples = [trial.sample for trial in single_edit_trials(2, seed=1)]
    by_words = {sample.instruction: sample for sample in samples}
    function = RewardFunction(
        Reward.of("edit-balanced", scene_experts()),
        to_sample=lambda row: by_words[row["instruction"]],
        editor=make_editor(load_pretrained()),
        name="edits",
    )
    trainer = grpo(tmp_path, AsyncRewardFunction(function), rows_of(samples))
    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert len(steps) == 2
    for entry in steps:
        assert 0 <= entry["rewards/edits/mean"] <= 1
        assert {"edits/guard", "edits/unscored", "edits/frac_reward_zero_std"} <= set(entry)
    assert {"edits/reason", "edits/evidence", "edits/instructions"} == set(trainer._logs["extra"])


def test_a_policy_may_see_the_picture_it_writes_instructions_for(tmp_path):
    from datasets import Dataset

    tiny_llava(tmp_path / "policy")
    prompt = [{"role": "user", "content": "Say it better"}]
    (scene,) = scenes(1)
    rows = Dataset.from_list([{"prompt": prompt, "instruction": scene.instruction, "images": [scene.source.pil()]}] * 2)
    trainer = grpo(tmp_path, RewardFunction(graded(), editor=Painter()), rows, model=tmp_path / "policy")
    assert all(0 <= reward <= 1 for reward in trainer._logs["rewards"]["graded"])


def test_rows_that_are_no_edits_are_unscored_and_the_others_are_scored():
    painter, logged, texts = Painter(), dict[str, float](), dict[str, Any]()
    reward = RewardFunction(graded(), editor=painter)
    good = scenes(1)[0].source.pil()
    rows = {
        "source": [good, np.full((8, 8, 3), np.nan), good, None, good, []],
        "instruction": ["make it blue", "make it blue", " ", "make it blue", np.nan, "make it blue"],
    }
    rollouts = reward.rollouts(**asking(*"abcdef", **rows))
    assert [rollout.score.status for rollout in rollouts] == ["scored", *["failed"] * 5]
    assert [rollout.sample is None for rollout in rollouts] == [False, *[True] * 5]
    assert [text for text, _ in painter.requests] == ["a"]
    values = reward(**asking(*"abcdef", **rows), log_metric=logged.__setitem__, log_extra=texts.__setitem__)
    assert values[0] == rollouts[0].score.value == reward(**asking("a"))[0]
    assert values[1:] == [None] * 5
    assert logged["graded/unscored"] == pytest.approx(5 / 6)
    assert "NaN" in texts["graded/reason"][1]
    assert make_preference_pairs(rollouts).dropped["unscored"] == 5


def test_the_toy_experts_of_the_documents_are_pickled_with_the_reward():
    drawn = toy(2)
    reward = RewardFunction("any-edit", drawn.experts)
    copy = pickle.loads(pickle.dumps(reward))
    sources = [one.source for one in drawn.samples]
    rows = asking("", "", instruction=[one.instruction for one in drawn.samples], source=sources, edited=sources)
    assert copy(**rows) == reward(**rows)
    with pytest.raises(SpecError, match=r"Locked .*: give that, or what it is given itself, as a spec"):
        pickle.dumps(RewardFunction("guards", {**drawn.experts, "reader": Locked(threading.Lock())}))


class Locked(Expert):
    """An expert with an argument that it does not keep."""

    id = "locked"
    kinds = (ReadText,)

    def __init__(self, lock):
        self._lock = lock

    def __call__(self, queries):
        raise AssertionError("nobody asks")


def test_a_conversion_of_ones_own_says_that_a_row_is_no_edit_and_other_errors_end_the_call():
    def picky(row):
        if row["completion"] == "b":
            raise UnusableRow("nothing to do")
        if row["completion"] == "c":
            raise KeyError("instruction")
        return sample_from_row(row)

    reward = RewardFunction(graded(), to_sample=picky, editor=Painter())
    first, second = reward.rollouts(**asking("a", "b"))
    assert first.score.status == "scored"
    assert second.score == Score.failed("nothing to do")
    with pytest.raises(KeyError):
        reward(**asking("c"))
