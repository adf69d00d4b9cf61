"""Rewards as TRL calls them, alone and in real trainers."""

import asyncio
import inspect
import json
import os
import pickle
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import get_callable_name, is_async_callable

from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.sceneedit.learned.pipeline import load
from editcritic.benchmarks.selection.trials import single
from editcritic.integrations.diffusers.editor import editor_of
from editcritic.integrations.trl import AsyncRewardFunction, RewardFunction, lines_of, metrics, sample_of, text_of
from editcritic.reward import Abstention, Box, EditSample, Image, Measured, Reward, Score
from editcritic.verifiers import EditorFailed

from ..language import tiny_language_model
from ..verifiers.editors import Painter, graded, judge, read, scenes
from .ranks import in_two_processes


def asking(*completions, **columns):
    """A call as a trainer makes it: one scene, one request, so many completions."""
    count = len(completions)
    (scene,) = scenes(1)
    columns = {"instruction": ["make it blue"] * count, "source": [scene.source.pil()] * count} | columns
    return {"prompts": ["say it better"] * count, "completions": list(completions), **columns}


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


@pytest.mark.parametrize(
    "completion",
    [
        "make it red",
        [{"role": "assistant", "content": "make it red"}],
        [
            {"role": "tool", "content": "no"},
            {"role": "assistant", "content": [{"type": "text", "text": "make it red"}]},
        ],
    ],
)
def test_the_last_message_of_a_conversation_counts(completion):
    assert text_of(completion) == "make it red"


def test_marks_of_lists_are_no_part_of_an_instruction_and_numbers_are():
    assert lines_of("1. Add a dog\n2) 3 cats in, please\n* 2.5 times larger\n...") == [
        "Add a dog",
        "3 cats in, please",
        "2.5 times larger",
    ]


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


@pytest.mark.parametrize("column", ["source", "sources", "image", "images"])
def test_pictures_come_as_datasets_keeps_them(column):
    picture = scenes(1)[0].source
    buffer = BytesIO()
    picture.pil().save(buffer, "PNG")
    raw = {"bytes": buffer.getvalue(), "path": None}
    held = [[raw, picture.pil()]] if column.endswith("s") else [raw]
    sample = sample_of({"instruction": "x", column: held[0]})
    assert set(sample.sources) == {picture}
    assert len(sample.sources) == (2 if column.endswith("s") else 1)


def test_columns_say_what_is_known_of_an_edit():
    picture = scenes(1)[0].source
    row = {
        "id": "a", "instruction": "x and y", "source": picture.pil(), "operations": ["x", "y"], "hint": None,
        "boxes": {"cup": [[0, 0, 4, 4]], "dog": None}, "mask": picture.pil(),
        "pools": {"all": ["cup"], "available": None, "unchanged": ["cup"], "background": False},
    }  # fmt: skip
    (row,) = Dataset.from_list([row])
    sample = sample_of(row)
    assert dict(sample.boxes) == {"cup": (Box.from_corners(0, 0, 4, 4, (8, 8)).labelled("cup"),)}
    assert sample.pools is not None
    assert (sample.pools.all, sample.pools.available, sample.pools.background) == (("cup",), (), False)
    assert [one.instruction for one in sample.operations] == ["x", "y"]
    assert (sample.id, sample.hint, sample.mask) == ("a", "", picture)


def half_known(query):
    """Knows only pictures of which the first pixel is dark."""
    value = read(query.image)
    return Measured(value) if value < 0.5 else Abstention("too bright")


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
        scored(0.0, "a", following=Score.of(0.0, credits={"1": Score.of(0.75)}), consistency=Score.abstained("?")),
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
    """For specs: an editor that is built where it is needed."""
    return Painter()


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


@dataclass
class Drawing:
    """An editor that draws from every global generator there is, with weights that want gradients."""

    id: str = "drawing"
    evaluations: int = 1
    batch: int = 8
    graphs: Counter[bool] = field(default_factory=Counter)

    def edit(self, images, instructions, seeds, *, history=None):
        weights = torch.nn.Parameter(torch.rand(8, 8, 3))
        shown = weights * random.random() * np.random.rand()  # noqa: NPY002
        self.graphs[shown.requires_grad] += 1
        torch.manual_seed(5)
        return [Image.of(shown.detach())] * len(images)


@pytest.mark.parametrize("way", ["sync", "async", "overlapping"])
def test_random_numbers_go_on_as_if_no_reward_had_been_asked(way):
    def drawn():
        return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002

    def seeded():
        random.seed(3)
        np.random.seed(3)  # noqa: NPY002
        torch.manual_seed(3)

    editor = Drawing()
    reward = RewardFunction(graded(), editor=editor)
    seeded()
    expected = drawn(), drawn()
    seeded()
    first = drawn()
    if way == "sync":
        reward(**asking("a", "b"))
    else:
        many = [AsyncRewardFunction(reward)(**asking(f"{n}")) for n in range(1 if way == "async" else 6)]

        async def together():
            return await asyncio.gather(*many)

        asyncio.run(together())
    assert (first, drawn()) == expected
    assert set(editor.graphs) == {False}
    assert torch.is_grad_enabled()


# -- real trainers ----------------------------------------------------------------------------------------------------


def rows_of(samples: list[EditSample]) -> Any:
    return Dataset.from_list(
        [{"prompt": f"Say it better: {one.instruction}\n", "instruction": one.instruction, "source": one.source.pil()}
         for one in samples]
    )  # fmt: skip


def trained(folder: Path, reward: Any, rows: Any, **settings: Any) -> Any:
    """A `GRPOTrainer` after two steps with groups of four."""
    model = tiny_language_model(folder / f"model-{os.environ.get('RANK', '0')}", rows["prompt"])
    config = GRPOConfig(
        output_dir=str(folder / "out"), use_cpu=True, bf16=False, max_steps=2, num_generations=4,
        max_completion_length=6, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True,
        **{"per_device_train_batch_size": 4, "learning_rate": 1e-2, **settings},
    )  # fmt: skip
    trainer = GRPOTrainer(str(model), reward_funcs=[reward], args=config, train_dataset=rows)
    trainer.train()
    return trainer


@pytest.mark.parametrize("kind", [lambda reward: reward, AsyncRewardFunction], ids=["sync", "async"])
def test_grpo_learns_from_the_rewards_of_a_diffusion_editor(kind, tmp_path):
    samples = [trial.sample for trial in single(2, seed=1)]
    by_words = {one.instruction: one for one in samples}

    def known(row):
        return by_words[row["instruction"]]

    function = RewardFunction(
        Reward.of("edit-balanced", experts()), to_sample=known, editor=editor_of(load()), name="edits"
    )
    trainer = trained(tmp_path, kind(function), rows_of(samples))
    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert len(steps) == 2
    for entry in steps:
        assert 0 <= entry["rewards/edits/mean"] <= 1
        assert {"edits/guard", "edits/unscored", "edits/degenerate"} <= set(entry)
    assert {"edits/reason", "edits/evidence", "edits/written"} == set(trainer._logs["extra"])


def test_unscored_completions_leave_grpo_as_it_is(tmp_path):
    never = judge(rule=lambda query: Abstention("unknown"))
    trainer = trained(tmp_path, RewardFunction(graded(never), editor=Painter()), rows_of(scenes(2)))
    assert set(trainer._logs["advantages"]) == {0.0}
    assert [entry["graded/unscored"] for entry in trainer.state.log_history if "reward" in entry] == [1.0, 1.0]

    some = judge(rule=half_known)
    trainer = trained(tmp_path, RewardFunction(graded(some), editor=Painter()), rows_of(scenes(2)))
    rewards = trainer._logs["rewards"]["graded"]
    pairs = list(zip(rewards, trainer._logs["advantages"], strict=True))
    assert any(np.isnan(reward) for reward, _ in pairs)
    assert all(advantage == 0 for reward, advantage in pairs if np.isnan(reward))


def as_a_rank(folder: Path) -> None:
    """What each of two processes does: groups of four, of which it has two."""
    reward = RewardFunction(graded(judge(rule=half_known)), editor=Painter())
    trainer = trained(folder, reward, rows_of(scenes(2)), per_device_train_batch_size=2)
    logged = [entry for entry in trainer.state.log_history if "reward" in entry]
    weights = [float(one.detach().double().sum()) for one in trainer.model.parameters()]
    found = {
        "processes": trainer.accelerator.num_processes,
        "logged": logged,
        "weights": weights,
        "reasons": list(trainer._logs["extra"]["graded/reason"]),
    }
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(found))


def test_grpo_runs_in_two_processes(tmp_path):
    first, second = in_two_processes(__name__, tmp_path)
    assert first["processes"] == second["processes"] == 2
    assert first["weights"] == second["weights"]
    for one, other in zip(first["logged"], second["logged"], strict=True):
        assert one["graded/unscored"] == other["graded/unscored"]
        assert one["rewards/graded/mean"] == other["rewards/graded/mean"] < 0.5
    assert len(first["reasons"]) == 4  # of the last step, of both processes


if __name__ == "__main__":
    as_a_rank(Path(sys.argv[1]))
