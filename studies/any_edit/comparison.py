"""The rewards on the pools of all seeds, in both settings of the experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from editcritic.reward.engine.answer_log import AnswerLog

from .agreement import MARGINS, Figure, Missing, PoolScores
from .pool import PoolEdit
from .scoring import REWARDS, SETTINGS, EditScore, Setting, experts_for, score_edits, statuses

BETTER, OVERDOES = "tiny-best-of-8", "overdoes"
"""Editors of `five_editors` whose order `edit-balanced` inverts: followed less often, and unchanged outside of it."""


@dataclass(frozen=True)
class RewardAgreement:
    """A reward in a setting. by_seed: the main figures of each seed, in order: Spearman, pairs, followed pairs."""

    reward: str
    setting: Setting
    statuses: Mapping[str, int]
    spearman: Mapping[Missing, Figure]
    pairs: Mapping[float, Figure]
    followed_pairs: Mapping[float, Figure]
    left_out_pairs: tuple[Figure, Figure]
    true_following: Figure
    true_preservation: Figure
    true_preservation_verdict: Figure
    verdicts: Figure
    tau: Figure
    editor_means: Mapping[str, float | None]
    inversions: Sequence[tuple[str, str]]
    by_seed: Mapping[int, tuple[float | None, float | None, float | None]]

    @staticmethod
    def of(reward: str, setting: Setting, scores: PoolScores, seeds: Sequence[int]) -> RewardAgreement:
        """All figures of these scores."""
        values, known = scores.values(), scores.values("left out")
        return RewardAgreement(
            reward,
            setting,
            statuses(scores.scores),
            {"lowest": Figure.of(scores.spearman(values)), "left out": Figure.of(scores.spearman(known))},
            {margin: Figure.of(scores.pair_order(values, margin=margin)) for margin in MARGINS},
            {margin: Figure.of(scores.pair_order(values, followed_only=True, margin=margin)) for margin in MARGINS},
            (Figure.of(scores.pair_order(known)), Figure.of(scores.pair_order(known, followed_only=True))),
            Figure.of(scores.spearman(scores.with_true_following())),
            Figure.of(scores.spearman(scores.with_true_preservation())),
            Figure.of(scores.spearman(scores.with_true_preservation(verdict=True))),
            Figure.of(scores.spearman(scores.with_verdicts())),
            Figure.of(scores.editor_tau(values)),
            scores.editor_means(values),
            scores.inversions(values),
            {seed: _main_figures(scores.of_seed(seed)) for seed in seeds},
        )

    @property
    def overdoing_pays(self) -> bool:
        """Whether the editor that overdoes has a higher mean than the better one."""
        return (OVERDOES, BETTER) in self.inversions


def _main_figures(scores: PoolScores) -> tuple[float | None, float | None, float | None]:
    values = scores.values()
    pairs, followed = scores.pair_order(values), scores.pair_order(values, followed_only=True)
    return scores.spearman(values).value, pairs.value, followed.value


def compare_rewards(
    pools: Mapping[int, Sequence[PoolEdit]],
    logs: Mapping[int, AnswerLog],
    on_pass: Callable[[str], None] = lambda text: None,
) -> list[RewardAgreement]:
    """Every reward in every setting, all seeds together. logs: keep the answers, by seed."""
    agreements = []
    for setting in SETTINGS:
        experts = {seed: experts_for(setting, [edit.case for edit in pool]) for seed, pool in pools.items()}
        for name, spec in REWARDS.items():
            on_pass(f"{name}, experts: {setting}")
            edits: list[PoolEdit] = []
            scores: list[EditScore] = []
            for seed, pool in pools.items():
                edits += pool
                scores += score_edits(spec, [edit.case.sample for edit in pool], experts[seed], logs[seed])
            agreements.append(RewardAgreement.of(name, setting, PoolScores(edits, scores), list(pools)))
    return agreements
