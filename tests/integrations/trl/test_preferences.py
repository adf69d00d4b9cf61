"""Preference pairs, and the trainers that take them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer

from editcritic.integrations.preferences import Pairs, pairs
from editcritic.reward import Image, Judge, Operation
from editcritic.reward.asking import Ask
from editcritic.reward.pairwise import PairwiseJudge
from editcritic.verifiers import BestOf, Chain, select

from ..language import tiny_language_model
from ..reward.experts.tiny_vlms import tiny_llava
from ..verifiers.editors import Painter, graded, judge, read, scenes
from .trainers import dpo, half_known, losses, rollouts, settings, written


def values_of(found: Pairs) -> list[tuple[float, float]]:
    return sorted((pair.chosen.value, pair.rejected.value) for pair in found.pairs)


def test_the_better_one_is_chosen():
    found = pairs(rollouts(0.1, 0.9, 0.5), balanced=False)
    assert values_of(found) == [(0.5, 0.1), (0.9, 0.1), (0.9, 0.5)]
    assert sorted(pair.margin for pair in found.pairs) == pytest.approx([0.4, 0.4, 0.8])


def test_candidates_without_a_score_are_in_no_pair():
    found = pairs(rollouts(0.1, None, 0.5), balanced=False)
    assert values_of(found) == [(0.5, 0.1)]
    assert found.dropped["unscored"] == 1
    assert (found.pairs[0].chosen.position, found.pairs[0].rejected.position) == (2, 0)


def test_an_edit_is_compared_with_edits_of_the_same_picture_by_the_same_words_only():
    other = [
        replace(one, sample=replace(one.sample, instruction="make it red")) for one in rollouts(0.5, 0.2, group="a")[1:]
    ]
    assert len(pairs([*rollouts(0.1, group="a"), *rollouts(0.9, group="b"), *other], balanced=False)) == 0


@pytest.mark.parametrize(
    ("margin", "noise", "count"), [(0, 0, 3), (0.1, 0, 3), (0.11, 0, 2), (0, 0.05, 2), (0.5, 0, 1)]
)
def test_near_ties_are_left_out(margin, noise, count):
    found = pairs(rollouts(0.5, 0.6, 1.0), margin=margin, noise=noise, balanced=False)
    assert len(found) == count
    assert found.dropped["near ties"] == 3 - count


def test_what_is_the_same_is_no_pair():
    assert pairs(rollouts(0.1, 0.9, texts=("a", "a"))).dropped["same"] == 1
    first, second = rollouts(0.1, 0.9)
    alike = replace(second, sample=replace(second.sample, edited=first.sample.edited))
    assert pairs([first, alike]).dropped["same"] == 1
    assert pairs(rollouts(0.5, 0.5), balanced=False).dropped["near ties"] == 1


candidates = st.lists(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 4)), st.text("ab", min_size=1, max_size=3)), max_size=6),
    max_size=8,
)


@given(candidates, st.integers(1, 5), st.integers(0, 3))
def test_neither_length_nor_position_tells_which_one_is_chosen(groups, per_group, seed):
    given = [
        one
        for number, group in enumerate(groups)
        for one in rollouts(*(value for value, _ in group), group=f"{number}", texts=tuple(text for _, text in group))
    ]
    found = pairs(given, per_group=per_group, seed=seed)
    signs = Counter(
        (np.sign(len(pair.chosen.text) - len(pair.rejected.text)), pair.chosen.position > pair.rejected.position)
        for pair in found.pairs
    )
    assert all(signs[sign, later] == signs[-sign, not later] for sign, later in list(signs))
    assert all(count <= per_group for count in Counter(pair.chosen.sample.group for pair in found.pairs).values())
    assert all(pair.chosen.value > pair.rejected.value for pair in found.pairs)
    assert len({(pair.chosen.sample.id, pair.rejected.sample.id) for pair in found.pairs}) == len(found)
    assert pairs(given, per_group=per_group, seed=seed) == found


def test_balance_costs_no_more_than_it_must():
    texts = ("a", "bb")
    mixed = [
        one
        for number in range(20)
        for one in rollouts(*((0.9, 0.1) if number % 2 else (0.1, 0.9)), group=f"{number}", texts=texts)
    ]
    assert len(pairs(mixed)) == 20
    always_longer = [one for number in range(20) for one in rollouts(0.1, 0.9, group=f"{number}", texts=texts)]
    assert pairs(always_longer).dropped == {"unscored": 0, "same": 0, "near ties": 0, "unbalanced": 20}


def test_a_group_gives_so_many_pairs_and_another_seed_gives_others():
    many = rollouts(*(number * 7 % 12 / 12 for number in range(12)))
    few = [pairs(many, per_group=6, seed=seed) for seed in range(4)]
    assert {len(found) for found in few} == {6}
    assert len({tuple(pair.chosen.sample.id for pair in found.pairs) for found in few}) > 1


def test_every_group_has_its_first_turn_before_one_has_its_second():
    many = [one for number in range(10) for one in rollouts(0.1, 0.5, 0.9, group=f"{number}")]
    found = pairs(many, balanced=False)
    assert len(found) == 30
    assert len({pair.chosen.sample.group for pair in found.pairs[:10]}) == 10


@pytest.mark.parametrize("wrong", [{"margin": -1}, {"noise": -0.1}, {"per_group": 0}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="got"):
        pairs([], **wrong)


def test_selections_give_pairs_of_what_was_made_and_scored():
    painter = Painter(bad_seeds=(2,))
    made = select(BestOf(6), scenes(3), editor=painter, reward=graded(judge(rule=half_known)))
    found = pairs(made, per_group=20, balanced=False)
    assert found.dropped["unscored"] == sum(one.value is None for each in made for one in each.candidates) >= 3
    for pair in found.pairs:
        assert pair.margin == pytest.approx(read(pair.chosen.sample.edited) - read(pair.rejected.sample.edited))
        assert pair.chosen.sample.source == pair.rejected.sample.source


def test_turns_of_a_chain_are_apart():
    (sample,) = scenes(1, operations=(Operation("wash it"), Operation("dry it")))
    made = select(Chain(3), sample, editor=Painter(), reward=graded())
    found = pairs(made, per_group=20, balanced=False)
    assert {pair.chosen.sample.instruction for pair in found.pairs} == {"wash it", "dry it"}
    assert all(pair.chosen.sample.source == pair.rejected.sample.source for pair in found.pairs)
    assert len(found) == 6


def brought_up(count: int = 8) -> Pairs:
    return pairs(select(BestOf(4), scenes(count), editor=Painter(), reward=graded()), margin=0.05)


def test_verdicts_ask_as_the_judge_does_and_show_the_chosen_one_first_half_of_the_time():
    found = brought_up()
    rows = found.verdicts()
    firsts = [row["chosen"][0]["content"] == "first" for row in rows]
    assert sum(firsts) * 2 == len(firsts) > 0
    assert {pair.chosen.position < pair.rejected.position for pair in found.pairs[::2]} == {True, False}
    for pair, row, first in zip(found.pairs, rows, firsts, strict=True):
        source, one, other = map(Image.of, row["images"])
        assert source == pair.chosen.sample.source
        assert (one if first else other) == pair.chosen.sample.edited
        assert (other if first else one) == pair.rejected.sample.edited
        assert row["rejected"][0]["content"] == ("second" if first else "first")
        asked = next(PairwiseJudge()(pair.chosen.sample, pair.rejected.sample))
        assert isinstance(asked, Ask)
        assert isinstance(asked.queries[0], Judge)
        (message,) = asked.queries[0].messages
        assert message.parts[-1] == row["prompt"][0]["content"]


def test_pictures_are_rows_for_diffusion_trainers():
    found = brought_up()
    for pair, row in zip(found.pairs, Dataset.from_list(found.pictures()), strict=True):
        assert Image.of(row["chosen"]) == pair.chosen.sample.edited
        assert Image.of(row["sources"][0]) == pair.chosen.sample.source
        assert row["margin"] == pytest.approx(pair.margin)


def test_texts_follow_the_form_of_their_prompts():
    plain = pairs(rollouts(0.1, 0.9, texts=("a", "b")), balanced=False)
    assert plain.texts() == [
        {"id": "g/1 over g/0", "prompt": "Say it: ", "chosen": "b", "rejected": "a", "margin": pytest.approx(0.8)}
    ]
    messages = [{"role": "user", "content": "Say it"}]
    given = [replace(one, prompt=messages) for one in rollouts(0.1, 0.9, texts=("a", "b"))]
    (row,) = pairs(given, balanced=False).texts()
    assert row["prompt"] == messages
    assert row["chosen"] == [{"role": "assistant", "content": "b"}]
    with pytest.raises(ValueError, match="nobody wrote"):
        brought_up().texts()


# -- real trainers ----------------------------------------------------------------------------------------------------


def test_dpo_takes_texts(tmp_path):
    first, second = losses(dpo(tmp_path))
    assert first == pytest.approx(np.log(2), abs=1e-3)  # the policy is its own reference at first
    assert np.isfinite(second)


def test_reward_trainer_uses_the_margins(tmp_path):
    rows = written()
    model = tiny_language_model(tmp_path / "model", rows["chosen"])
    found = []
    for columns in (rows, rows.remove_columns("margin")):
        trainer = RewardTrainer(str(model), args=RewardConfig(**settings(tmp_path)), train_dataset=columns)
        trainer.train()
        found.append(losses(trainer))
    (with_margins, _), (without, _) = found
    assert with_margins > without + 0.1  # a margin asks for more than being ahead


def test_dpo_teaches_a_judge_with_pictures(tmp_path):
    tiny_llava(tmp_path / "judge")
    rows = Dataset.from_list(brought_up(4).verdicts())
    config = DPOConfig(**settings(tmp_path), max_length=None)
    trainer = DPOTrainer(str(tmp_path / "judge"), args=config, train_dataset=rows)
    trainer.train()
    first, second = losses(trainer)
    assert first == pytest.approx(np.log(2), abs=1e-3)
    assert np.isfinite(second)
