"""An alarm of the reward-hacking monitor, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_LOOK = "compare edits of the last steps with the first ones"
_GO_BACK = "continue from a checkpoint before it"
_ADD_QUALITY = f"{_LOOK}; add a part for image quality to the reward, or a stronger KL penalty, and {_GO_BACK}"

ACTIONS: Mapping[str, str] = {
    "edge_density": _ADD_QUALITY,
    "saturation": _ADD_QUALITY,
    "exposure_1": _ADD_QUALITY,
    "exposure_50": _ADD_QUALITY,
    "exposure_99": _ADD_QUALITY,
    "difference": f"{_LOOK}; if the source is copied, put guards before the reward; if more is redrawn than was asked "
    f"for, add a part for preservation; {_GO_BACK}",
    "unscored": "read the reasons of scores without a value, and check the experts and the data",
    "abstained": f"{_LOOK} and read the reasons of scores without a value; keep `abstained` at lowest",
    "degenerate": "look at the scores of a group; use a finer reward, harder prompts or more exploration",
    "rejected": f"see which guard rejects, in the parts of the scores, and look at these edits; {_GO_BACK}",
    "heldout_rejected": f"put these guards before the trained reward, and {_GO_BACK}",
    "diversity": f"{_LOOK}; use a stronger KL penalty, a lower learning rate or more noise, and {_GO_BACK}",
    "agreement": "look at edits on which the rewards differ most; train on a mean of several judges, or with guards",
    "divergence": f"stop and look at edits that the trained reward pays most; add guards or other judges to it, and "
    f"{_GO_BACK}",
    "probe/heldout": f"stop, {_LOOK}, and {_GO_BACK}",
    "probe/divergence": f"stop and look at edits that the trained reward pays most, and {_GO_BACK}",
    "hack": "run `editcritic audit` on edits of the last steps and look at its pairs; if the edits are good, add a "
    "guard, a part or another judge that scores this hack lower before the policy finds it; if they are not, the "
    f"policy has become worse: {_GO_BACK}",
}
"""What to do about an alarm, by its name; `hack` is for all hacks."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A number of a training run has moved as it does when a reward is hacked.

    name: of the number (`MONITORED`), `divergence`, `probe/...`, or `hack/...`. value: z-score, beyond `z_limit`.

    message: the change, its size, and its possible cause. since: the first step that it is about, if not that of the
    last `patience` steps.
    """

    step: int
    name: str
    value: float
    z_limit: float
    message: str
    since: int | None = None

    @property
    def action(self) -> str:
        """What to do about it."""
        return ACTIONS.get(self.name) or ACTIONS[self.name.partition("/")[0]]

    def began(self, patience: int) -> int:
        """About the step since which it is so, by a monitor's patience."""
        return max(self.step - patience + 1, 0) if self.since is None else self.since
