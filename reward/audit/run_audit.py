"""The audit of a reward: how would it be hacked?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ..base_reward import BaseReward
from ..config import ExpertBindings
from ..queries.specs import Spec
from ..reward import Reward
from ..sample import EditSample
from .audited_edit import EditAgain
from .audited_reward import AnyScorer, AuditedReward
from .families import all_families
from .family import Family
from .findings import TOLERANCE, AuditReport
from .trials import TrialMaker, run_trials


def audit(
    reward: BaseReward | AnyScorer | Spec,
    samples: Iterable[EditSample],
    *,
    experts: ExpertBindings | None = None,
    families: Sequence[Family] | None = None,
    tolerance: float = TOLERANCE,
    seed: int = 0,
    edit_again: EditAgain | None = None,
    step: Callable[[], None] = lambda: None,
) -> AuditReport:
    """Metamorphic tests of a reward on edits of yours: variants of each whose right order is known without a truth.

    reward: a `Reward`, a `RemoteReward`, a spec (with `experts`, as in `Reward.of`), or any callable that takes a list
    of samples and returns for each a number, None or a `Score`; see `reward_of_pictures` for one that takes PIL images.
    samples: edits that do what they were asked for, best 16 or more of different sources: families with
    `needs_good_edit` compare them with what does not. families: by default all (see `all_families`). tolerance: of
    `equal` families, as a share of the scale. seed: of what is random in variants. edit_again: the editor that is to be
    trained; families use it where it helps. step: called after each edit.

    An edit without a score is compared with nothing. Raises ValueError without samples, for a tolerance outside of
    [0, 1], and where samples lack fields that the reward requires.
    """
    edits = list(samples)
    if not edits:
        raise ValueError("an audit needs edits, got none: give 16 or more good ones, of different sources")
    if not 0 <= tolerance <= 1:
        raise ValueError(f"the tolerance is a share of the reward's scale, from 0 to 1, got {tolerance}")
    scorer = _scorer(reward, experts)
    if isinstance(scorer, BaseReward):
        scorer.validate(edits)
    chosen = all_families() if families is None else tuple(families)
    audited = AuditedReward(scorer)
    begun = time.perf_counter()
    with TemporaryDirectory(prefix="editcritic-audit-") as folder:
        maker = TrialMaker(edits, chosen, seed, edit_again, Path(folder))
        scores, trials = run_trials(audited, maker, step)
    return AuditReport(
        audited.name,
        _identity(scorer),
        [sample.id for sample in edits],
        [" ".join(image.digest for image in sample.sources) for sample in edits],
        audited.range,
        chosen,
        trials,
        scores,
        tolerance,
        seed,
        audited.experts,
        time.perf_counter() - begun,
    )


def _scorer(reward: BaseReward | AnyScorer | Spec, experts: ExpertBindings | None) -> BaseReward | AnyScorer:
    if callable(reward):
        if experts is not None:
            raise ValueError("this reward has its experts already: pass experts= only with a spec")
        return reward
    return Reward.of(reward, experts, on_failures="none")


def _identity(scorer: BaseReward | AnyScorer) -> str:
    return scorer.known_signature if isinstance(scorer, BaseReward) else ""
