"""Preference pairs, and the trainers that take them."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.integrations.trl.preferences import PreferencePairs, make_preference_pairs
from editcritic.reward import Image, Operation
from editcritic.reward.engine.program import Ask
from editcritic.reward.metrics.pairwise import PairwiseJudge
from editcritic.reward.queries import Judge
from editcritic.verifiers import BestOfN, select
from editcritic.verifiers.selectors import MultiTurnEditing

from ...reward.experts.tiny_vlms import tiny_llava
from ...tiny_language_model import tiny_language_model
from ...verifiers.numpy_editor import Painter, graded, judge, read, rejection, scenes
from ..trl_runs import half_known, losses, rollouts, sample_of, settings, written


def values_of(pairs: PreferencePairs) -> list[tuple[float, float]]:
    return sorted((pair.chosen.value, pair.rejected.value) for pair in pairs.pairs)


def test_the_better_one_is_chosen_and_never_what_a_guard_rejected():
    pairs = make_preference_pairs(rollouts(0.1, 0.9, 0.5), balanced=False)
    assert values_of(pairs) == [(0.5, 0.1), (0.9, 0.1), (0.9, 0.5)]
    assert sorted(pair.margin for pair in pairs.pairs) == pytest.approx([0.4, 0.4, 0.8])
    for value, expected in ((-0.5, []), (0.5, [(0.5, 0.0)])):  # below 0, as a fallback on another scale may give
        one, other = rollouts(value, 0.0)
        guarded = [one, replace(other, score=rejection())]
        assert values_of(make_preference_pairs(guarded, balanced=False)) == expected


def test_an_edit_is_compared_with_edits_of_the_same_picture_by_the_same_words_only():
    _, second = rollouts(0.5, 0.2, group="a")
    other = replace(second, sample=replace(sample_of(second), instruction="make it red"))
    some = [*rollouts(0.1, group="a"), *rollouts(0.9, group="b"), other]
    assert len(make_preference_pairs(some, balanced=False)) == 0


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=6))
def test_without_a_value_nothing_is_chosen_and_no_other_pair_changes(drawn):
    hidden = {number for number, (_, hides) in enumerate(drawn) if hides}
    whole, partial = (
        make_preference_pairs(
            rollouts(*(None if number in without else value for number, (value, _) in enumerate(drawn))),
            balanced=False,
            max_per_group=100,
        )
        for without in (set(), hidden)
    )

    def positions(pairs):
        return {(pair.chosen.position, pair.rejected.position) for pair in pairs.pairs}

    assert positions(partial) == {pair for pair in positions(whole) if not hidden & set(pair)}


@pytest.mark.parametrize(
    ("margin", "noise", "count"), [(0, 0, 3), (0.1, 0, 3), (0.11, 0, 2), (0, 0.05, 2), (0.5, 0, 1)]
)
def test_near_ties_are_left_out(margin, noise, count):
    pairs = make_preference_pairs(rollouts(0.5, 0.6, 1.0), margin=margin, score_std=noise, balanced=False)
    assert len(pairs) == count
    assert pairs.dropped["near ties"] == 3 - count


def test_what_is_the_same_is_no_pair():
    assert make_preference_pairs(rollouts(0.1, 0.9, texts=("a", "a"))).dropped["same"] == 1
    first, second = rollouts(0.1, 0.9)
    alike = replace(second, sample=replace(sample_of(second), edited=sample_of(first).edited))
    assert make_preference_pairs([first, alike]).dropped["same"] == 1
    assert make_preference_pairs(rollouts(0.5, 0.5), balanced=False).dropped["near ties"] == 1


candidates = st.lists(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 4)), st.text("ab", min_size=1, max_size=3)), max_size=6),
    max_size=8,
)


@given(candidates, st.integers(1, 5), st.integers(0, 3))
def test_neither_length_nor_position_tells_which_one_is_chosen(groups, per_group, seed):
    all_rollouts = [
        rollout
        for number, group in enumerate(groups)
        for rollout in rollouts(
            *(value for value, _ in group), group=f"{number}", texts=tuple(text for _, text in group)
        )
    ]
    pairs = make_preference_pairs(all_rollouts, max_per_group=per_group, seed=seed)
    signs = Counter(
        (np.sign(len(pair.chosen.text) - len(pair.rejected.text)), pair.chosen.position > pair.rejected.position)
        for pair in pairs.pairs
    )
    assert all(signs[sign, later] == signs[-sign, not later] for sign, later in list(signs))
    assert all(count <= per_group for count in Counter(pair.chosen.sample.group for pair in pairs.pairs).values())
    assert all(pair.chosen.value > pair.rejected.value for pair in pairs.pairs)
    assert len({(pair.chosen.sample.id, pair.rejected.sample.id) for pair in pairs.pairs}) == len(pairs)
    assert make_preference_pairs(all_rollouts, max_per_group=per_group, seed=seed) == pairs


def test_balance_costs_no_more_than_it_must():
    texts = ("a", "bb")
    mixed = [
        rollout
        for number in range(20)
        for rollout in rollouts(*((0.9, 0.1) if number % 2 else (0.1, 0.9)), group=f"{number}", texts=texts)
    ]
    assert len(make_preference_pairs(mixed)) == 20
    always_longer = [rollout for number in range(20) for rollout in rollouts(0.1, 0.9, group=f"{number}", texts=texts)]
    assert make_preference_pairs(always_longer).dropped == {"unscored": 0, "same": 0, "near ties": 0, "unbalanced": 20}


def test_a_group_gives_so_many_pairs_in_turn_and_another_seed_gives_others():
    many = rollouts(*(number * 7 % 12 / 12 for number in range(12)))
    few = [make_preference_pairs(many, max_per_group=6, seed=seed) for seed in range(4)]
    assert {len(pairs) for pairs in few} == {6}
    assert len({tuple(pair.chosen.sample.id for pair in pairs.pairs) for pairs in few}) > 1
    many = [rollout for number in range(10) for rollout in rollouts(0.1, 0.5, 0.9, group=f"{number}")]
    pairs = make_preference_pairs(many, balanced=False)
    assert len(pairs) == 30
    assert len({pair.chosen.sample.group for pair in pairs.pairs[:10]}) == 10


@pytest.mark.parametrize(
    "wrong", [{"margin": -1}, {"margin": math.nan}, {"score_std": -0.1}, {"score_std": math.nan}, {"max_per_group": 0}]
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="got"):
        make_preference_pairs([], **wrong)


def test_selections_give_pairs_of_what_was_made_and_scored_and_turns_of_a_chain_are_apart():
    reward = graded(judge(rule=half_known))
    selections = select(BestOfN(6), scenes(3), editor=Painter(bad_seeds=(2,)), reward=reward)
    pairs = make_preference_pairs(selections, max_per_group=20, balanced=False)
    unscored = sum(candidate.value is None for selection in selections for candidate in selection.candidates)
    assert pairs.dropped["unscored"] == unscored >= 3
    for pair in pairs.pairs:
        assert pair.margin == pytest.approx(read(pair.chosen.sample.edited) - read(pair.rejected.sample.edited))
        assert pair.chosen.sample.source == pair.rejected.sample.source
    (sample,) = scenes(1, operations=(Operation("wash it"), Operation("dry it")))
    selections = select(MultiTurnEditing(3), sample, editor=Painter(), reward=graded())
    pairs = make_preference_pairs(selections, max_per_group=20, balanced=False)
    assert {pair.chosen.sample.instruction for pair in pairs.pairs} == {"wash it", "dry it"}
    assert all(pair.chosen.sample.source == pair.rejected.sample.source for pair in pairs.pairs)
    assert len(pairs) == 6


def brought_up(count: int = 8) -> PreferencePairs:
    return make_preference_pairs(select(BestOfN(4), scenes(count), editor=Painter(), reward=graded()), margin=0.05)


def test_verdicts_ask_as_the_judge_does_and_show_the_chosen_one_first_half_of_the_time():
    pairs = brought_up()
    rows = pairs.to_comparison_rows()
    firsts = [row["chosen"][0]["content"] == "first" for row in rows]
    assert sum(firsts) * 2 == len(firsts) > 0
    assert {pair.chosen.position < pair.rejected.position for pair in pairs.pairs[::2]} == {True, False}
    for pair, row, first in zip(pairs.pairs, rows, firsts, strict=True):
        source, first_image, second_image = map(Image.of, row["images"])
        assert source == pair.chosen.sample.source
        assert (first_image if first else second_image) == pair.chosen.sample.edited
        assert (second_image if first else first_image) == pair.rejected.sample.edited
        assert row["rejected"][0]["content"] == ("second" if first else "first")
        step = next(PairwiseJudge()(pair.chosen.sample, pair.rejected.sample))
        assert isinstance(step, Ask)
        assert isinstance(step.queries[0], Judge)
        (message,) = step.queries[0].messages
        assert message.content[-1] == row["prompt"][0]["content"]


def test_pictures_are_rows_for_diffusion_trainers():
    from datasets import Dataset

    pairs = brought_up()
    for pair, row in zip(pairs.pairs, Dataset.from_list(pairs.to_image_rows()), strict=True):
        assert Image.of(row["chosen"]) == pair.chosen.sample.edited
        assert Image.of(row["sources"][0]) == pair.chosen.sample.source
        assert row["margin"] == pytest.approx(pair.margin)


def test_texts_follow_the_form_of_their_prompts():
    plain = make_preference_pairs(rollouts(0.1, 0.9, texts=("a", "b")), balanced=False)
    assert plain.to_text_rows() == [
        {"id": "g/1 over g/0", "prompt": "Say it: ", "chosen": "b", "rejected": "a", "margin": pytest.approx(0.8)}
    ]
    messages = [{"role": "user", "content": "Say it"}]
    with_messages = [replace(rollout, prompt=messages) for rollout in rollouts(0.1, 0.9, texts=("a", "b"))]
    (row,) = make_preference_pairs(with_messages, balanced=False).to_text_rows()
    assert row["prompt"] == messages
    assert row["chosen"] == [{"role": "assistant", "content": "b"}]
    with pytest.raises(ValueError, match="has no text"):
        brought_up().to_text_rows()


def test_reward_trainer_uses_the_margins(tmp_path):
    from trl import RewardConfig, RewardTrainer

    rows = written()
    model = tiny_language_model(tmp_path / "model", rows["chosen"])
    all_losses = []
    for columns in (rows, rows.remove_columns("margin")):
        trainer = RewardTrainer(str(model), args=RewardConfig(**settings(tmp_path)), train_dataset=columns)
        trainer.train()
        all_losses.append(losses(trainer))
    (with_margins, _), (without, _) = all_losses
    assert with_margins > without + 0.1  # a margin asks for more than being ahead


def test_dpo_teaches_a_judge_with_pictures(tmp_path):
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    tiny_llava(tmp_path / "judge")
    rows = Dataset.from_list(brought_up(4).to_comparison_rows())
    config = DPOConfig(**settings(tmp_path), max_length=None)
    trainer = DPOTrainer(str(tmp_path / "judge"), args=config, train_dataset=rows)
    trainer.train()
    first, second = losses(trainer)
    assert first == pytest.approx(np.log(2), abs=1e-3)
    assert np.isfinite(second)
