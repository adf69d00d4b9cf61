"""The audit of a reward: how would it be hacked?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ..base_reward import BaseReward
from ..config import ExpertBindings
from ..queries.specs import Spec
from ..sample import EditSample
from ..score import Score
from .audited_edit import EditAgain
from .audited_reward import AnyScorer, AuditedReward
from .families import all_families
from .family import Family
from .findings import TOLERANCE, AuditReport
from .trials import BATCH, Trial, TrialMaker, UnmadeVariant, score_batch, variant_batches


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

    An edit without a score is not compared, so it has no variants.

    Args:
        reward: A `Reward`, a `RemoteReward`, a spec (with `experts`, as in `Reward.of`), or any callable that takes a
            list of samples and returns for each a number, None or a `Score`; see `reward_of_pictures` for one that
            takes PIL images.
        samples: Edits that do what they were asked for, best 16 or more of different sources: families with
            `needs_good_edit` compare them with what does not.
        families: By default all (see `all_families`).
        tolerance: Of `equal` families, as a share of the scale.
        seed: Of what is random in variants.
        edit_again: The editor that is to be trained; families use it where it helps.
        step: Called after each edit.

    Raises:
        ValueError: Without samples or families, for a tolerance outside of [0, 1], and where samples lack fields that
            the reward requires.
    """
    with AuditRun(
        reward, samples, experts=experts, families=families, tolerance=tolerance, seed=seed, edit_again=edit_again
    ) as run:
        run.run(step)
        return run.report()


class AuditRun:
    """An audit that can be reported on at any time, so that nothing is lost where it is interrupted:

        with AuditRun(reward, samples) as run:
            run.run()
            report = run.report()

    Arguments and errors as of `audit`.

    Attributes:
        maker: Makes each variant again, within the block.
    """

    def __init__(
        self,
        reward: BaseReward | AnyScorer | Spec,
        samples: Iterable[EditSample],
        *,
        experts: ExpertBindings | None = None,
        families: Sequence[Family] | None = None,
        tolerance: float = TOLERANCE,
        seed: int = 0,
        edit_again: EditAgain | None = None,
    ) -> None:
        edits = list(samples)
        if not edits:
            raise ValueError("an audit needs edits, got none: give 16 or more good ones, of different sources")
        if not 0 <= tolerance <= 1:
            raise ValueError(f"the tolerance is a share of the reward's scale, from 0 to 1, got {tolerance}")
        chosen = all_families() if families is None else tuple(families)
        _check_types(edits, chosen)
        self.reward = AuditedReward.bound(reward, experts, edits)
        self.tolerance = tolerance
        self._folder = TemporaryDirectory(prefix="editcritic-audit-")
        self.maker = TrialMaker(edits, chosen, seed, edit_again, Path(self._folder.name))
        self.edits: list[Score] = []
        self.trials: list[Trial] = []
        self.unmade: list[UnmadeVariant] = []
        self.stopped = "interrupted"
        """Why not all variants are scored; empty where they are."""
        self._seconds = 0.0

    def __enter__(self) -> AuditRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, step: Callable[[], None] = lambda: None, stop: Callable[[], str] = lambda: "") -> None:
        """Score all edits and their variants.

        Args:
            step: Called after each edit whose variants are scored.
            stop: Asked before each batch but the first; a reason ends the run.
        """
        begun = time.perf_counter()
        try:
            self.stopped = self._run(step, stop)
        finally:
            self._seconds += time.perf_counter() - begun

    def _run(self, step: Callable[[], None], stop: Callable[[], str]) -> str:
        for start in range(0, len(self.maker.samples), BATCH):
            if start and (reason := stop()):
                return reason
            self.edits += self.reward(self.maker.samples[start : start + BATCH])
        for number, edit in enumerate(self.edits):
            if edit.value is not None:  # else they would have nothing to be compared with
                for batch in variant_batches(self.maker.variants(number, self.unmade.append)):
                    if reason := stop():
                        return reason
                    self.trials += score_batch(self.reward, batch, number, edit)
            for file in Path(self._folder.name).iterdir():  # of its variants; `maker` writes them again
                file.unlink()
            step()
        return ""

    def report(self) -> AuditReport:
        """What is found by now. Raises ValueError before any edit is scored."""
        if not self.edits:
            raise ValueError(f"no edit is scored: {self.stopped}")
        samples = self.maker.samples[: len(self.edits)]
        return AuditReport(
            self.reward.name,
            self.reward.identity,
            [sample.id for sample in samples],
            [" ".join(image.digest for image in sample.sources) for sample in samples],
            self.reward.range,
            self.maker.families,
            tuple(self.trials),
            tuple(self.edits),
            self.tolerance,
            self.maker.seed,
            {name: dict(counts) for name, counts in self.reward.experts.items()},
            self._seconds,
            self.stopped,
            reward_seconds=self.reward.seconds,
            scored=self.reward.samples,
            roles=self.reward.roles,
            unmade=tuple(self.unmade),
        )


def _check_types(edits: Sequence[object], families: Sequence[object]) -> None:
    for edit in edits:
        if not isinstance(edit, EditSample):
            raise TypeError(f"an audit needs EditSamples, got {type(edit).__name__}")
    if not families:
        raise ValueError("an audit needs families, got none: give some of all_families(), or None for all")
    names: set[str] = set()
    for family in families:
        if not isinstance(family, Family):
            raise TypeError(f"families are Family objects, got {type(family).__name__}: see `select_families`")
        if family.name in names:
            raise ValueError(f"there are two families named {family.name}: trials are told apart by it")
        names.add(family.name)
