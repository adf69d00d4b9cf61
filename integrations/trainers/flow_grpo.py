"""A reward for Flow-GRPO, for those that call rewards as it does (DiffusionNFT, Edit-R1), and for DanceGRPO.

    import flow_grpo.rewards
    from editcritic.integrations.flow_grpo import EditReward

    reward = EditReward("http://127.0.0.1:8321")  # or Reward.of(...), a spec, a RemoteReward
    flow_grpo.rewards.multi_score = reward.beside(flow_grpo.rewards.multi_score)

    config.reward_fn = {"editcritic": 1.0, "pickscore": 0.2}

There is no registry: the scripts look `multi_score(device, config.reward_fn)` up in `flow_grpo.rewards` and call what
it returns from a pool of eight threads, so the lines above go into a script before `main` runs. Where a script has a
reward function of its own, an `EditReward` is one as it is.

The signature is that of `_fn` in `multi_score`, github.com/yifan123/flow_grpo, `flow_grpo/rewards.py` (54809b5); its
calls are in `scripts/train_flux_kontext.py` (74db691): `reward_fn(images, prompts, metadata, ref_images,
only_strict=True)`, images as floats N x C x H x W in [0, 1]. DiffusionNFT (NVlabs) passes no `ref_images`: there is
nothing to edit there. Edit-R1 (PKU-YuanGroup, `flow_grpo/rewards.py`, 244883c) calls it in the same way. DanceGRPO has
no reward functions: its scripts call a model in `sample_reference_model` (`fastvideo/train_grpo_flux_kontext.py` of
yaoliliu/DanceGRPO-kontext, 92f620c), and in its place goes, with the picture that `postprocess` made:

    found, _ = reward(decoded_image, batch_caption, None, [source])
    all_rewards.append(torch.tensor(found["avg"], device=device))

Groups are the trainers'. `PerPromptStatTracker` takes the decoded prompts for groups: Flow-GRPO's scripts for editors
decode "prompt_image path", which is right; Edit-R1's `train_nft_qwen_image_edit.py` (244883c) decodes the prompt alone,
and the same words for two pictures are one group there: make the prompts of a dataset different. DanceGRPO takes the
rows that it made of one prompt.

Edits without a score. The tracker computes `numpy.mean` and `numpy.std` over a group (over all with `global_std`): with
a NaN in it, each advantage of the group (or of all) is NaN, and so is the next weight. So `missing="raise"` raises
`Unscored`, which names them and ends the run where the trainer waits for its rewards. `missing="nan"` is for a tracker
that takes `nanmean` and `nanstd`, and 0 for an advantage that is NaN: then an edit without a score teaches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..reward import Image
from ..reward.spec import Spec
from .rollouts import Missing, Scorer, edits_of, missing_of, name_of, numbers_of, pictures_in, scored, scorer_of

KEY = "editcritic"

Details = dict[str, list[float]]
RewardFn = Callable[..., tuple[Mapping[str, Sequence[float]], Mapping[str, Any]]]


class EditReward:
    """Called as Flow-GRPO calls rewards; returns ({"editcritic": values, "avg": values}, {}).

    reward: see `rollouts.scorer_of`. missing: see the module. Works from several threads at once. Raises ValueError for
    calls without sources, `Unscored`, and what the reward raises.
    """

    def __init__(self, reward: Scorer | Spec, *, missing: Missing = "raise") -> None:
        self.scorer = scorer_of(reward)
        self.missing = missing_of(missing)
        self.__name__ = name_of(self.scorer)

    def __call__(
        self,
        images: Any,
        prompts: Sequence[str],
        metadata: Sequence[Any] | None = None,
        ref_images: Any = None,
        only_strict: bool = True,
    ) -> tuple[Details, dict[str, Any]]:
        """images: floats N x C x H x W in [0, 1], uint8 N x H x W x C, or a list of PIL's. metadata: a table a row, or
        nothing.

        ref_images: the pictures that were edited, one a row or several. only_strict: of GenEval; nothing here.
        """
        if ref_images is None:
            raise ValueError(
                "an edit is judged against its source: pass ref_images, as Flow-GRPO's scripts for editors do"
            )
        rows = metadata if isinstance(metadata, list | tuple) else None
        samples = edits_of(list(prompts), pictures_in(images), _sources(ref_images), rows)
        values = numbers_of(samples, scored(self.scorer, samples), self.missing)
        return {KEY: values, "avg": list(values)}, {}

    def beside(self, multi_score: Callable[[Any, Mapping[str, float]], RewardFn]) -> Callable[..., RewardFn]:
        """A `multi_score` that knows `editcritic` as well: its weight times this reward, plus what the others say."""

        def combined(device: Any, score_dict: Mapping[str, float]) -> RewardFn:
            weight = score_dict.get(KEY)
            others = {name: share for name, share in score_dict.items() if name != KEY}
            rest = multi_score(device, others) if others else None
            if weight is None:
                return self if rest is None else rest

            def both(*given: Any, **named: Any) -> tuple[dict[str, Any], dict[str, Any]]:
                ours, _ = self(*given, **named)
                found = [weight * value for value in ours[KEY]]
                details: dict[str, Any] = {}
                if rest is not None:
                    details |= rest(*given, **named)[0]
                    found = [mine + other for mine, other in zip(found, details["avg"], strict=True)]
                return {**details, KEY: ours[KEY], "avg": found}, {}

            return both

        return combined


def _sources(ref_images: Any) -> list[list[Image]]:
    if isinstance(ref_images, list | tuple):
        return [pictures_in(one) if isinstance(one, list | tuple) else pictures_in([one]) for one in ref_images]
    return [[one] for one in pictures_in(ref_images)]
