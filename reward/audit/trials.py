"""Trials: each variant scored beside its edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from ..image import ImageError
from ..sample import EditSample
from ..score import Score
from .audited_edit import AuditedEdit, EditAgain
from .audited_reward import AuditedReward
from .family import Family, Variant

BATCH = 64
"""Variants per call: bounds the pictures in memory."""
_OTHERS = 8
_LONGEST_REASON = 500  # characters, of what a family raises
MadeVariant = tuple[Family, int, Variant]
"""A variant with its family and severity, as `TrialMaker.variants` has them."""


@dataclass(frozen=True, slots=True)
class Trial:
    """An edit and one of its variants, scored.

    Args:
        sample: Number of the edit among the samples.
        severity: 0 to 2, mildest first.
        edit: Their scores.
        variant: Their scores.
    """

    sample: int
    family: str
    severity: int
    edit: Score
    variant: Score


@dataclass(frozen=True, slots=True)
class UnmadeVariant:
    """A variant that is in no trial, since making it failed. sample, family, severity: as of a `Trial`. reason: what
    the family raised.
    """

    sample: int
    family: str
    severity: int
    reason: str


@dataclass(frozen=True)
class TrialMaker:
    """Makes the variants of samples, the same each time.

    Args:
        edit_again: See `AuditedEdit`.
        folder: See `AuditedEdit`.
    """

    samples: Sequence[EditSample]
    families: Sequence[Family]
    seed: int = 0
    edit_again: EditAgain | None = None
    folder: Path | None = None

    def audited(self, number: int) -> AuditedEdit:
        """The edit of a sample, with edits of other sources."""
        sample = self.samples[number]
        sources = {image.digest for image in sample.sources}
        order = [*self.samples[number + 1 :], *self.samples[:number]]
        others = (other for other in order if not sources & {image.digest for image in other.sources})
        return AuditedEdit(sample, tuple(islice(others, _OTHERS)), self.seed, self.edit_again, self.folder)

    def variant(self, number: int, family: Family, severity: int) -> Variant | None:
        """One variant; None where the family does not apply.

        Raises:
            RuntimeError: Where the family fails.
        """
        return self._variant(self.audited(number), number, family, severity)

    def variants(self, number: int, unmade: Callable[[UnmadeVariant], None] | None = None) -> Iterator[MadeVariant]:
        """All variants of a sample, with their severities.

        Args:
            unmade: Called with each one whose family fails, which is left out; None: RuntimeError.
        """
        edit = self.audited(number)
        for family in self.families:
            for severity in range(3):
                try:
                    variant = self._variant(edit, number, family, severity)
                except RuntimeError as error:
                    if unmade is None:
                        raise
                    cause = error.__cause__ or error
                    reason = f"{type(cause).__name__}: {cause}"[:_LONGEST_REASON]
                    unmade(UnmadeVariant(number, family.name, severity, reason))
                    continue
                if variant is not None:
                    yield family, severity, variant

    def _variant(self, edit: AuditedEdit, number: int, family: Family, severity: int) -> Variant | None:
        try:
            variant = family.variant(edit, family.severities[severity].amount)
            if not isinstance(variant, Variant | None):
                raise TypeError(f"a family returns a Variant, or None where it does not apply; got {variant!r:.80}")
        except ImageError:  # of the source, say, which the reward does not read
            return None
        except Exception as error:
            raise RuntimeError(f"the family {family.name} fails for sample {edit.sample.id!r:.80}: {error}") from error
        if variant is None or variant.sample.id != self.samples[number].id:
            return variant  # the id is what it changes
        return replace(variant, sample=replace(variant.sample, id=f"{variant.sample.id}/{family.name}/{severity}"))


def variant_batches(variants: Iterable[MadeVariant]) -> Iterator[list[MadeVariant]]:
    """At most `BATCH` of them at a time, which are made when they are needed."""
    made = iter(variants)
    while batch := list(islice(made, BATCH)):
        yield batch


def score_batch(reward: AuditedReward, batch: Sequence[MadeVariant], number: int, edit: Score) -> list[Trial]:
    """The trials of variants of a sample whose edit has this score, in as few calls as their relations allow."""
    calls: dict[tuple[object, ...], list[int]] = {}
    for row, (family, severity, variant) in enumerate(batch):
        calls.setdefault(_call(family, severity, variant, row), []).append(row)
    scores: dict[int, Score] = {}
    for rows in calls.values():
        scores.update(zip(rows, _scores(reward, [batch[row] for row in rows]), strict=True))
    return [Trial(number, family.name, severity, edit, scores[row]) for row, (family, severity, _) in enumerate(batch)]


def _call(family: Family, severity: int, variant: Variant, row: int) -> tuple[object, ...]:
    """What is scored in one call has the same key: what may be answered from a cache; what is asked anew, of which
    equal samples cost one question, so that each severity asks once; what cannot be read; a batch of its own.
    """
    if variant.before or variant.after:
        return "batch", row
    if family.relation == "same":
        return family.relation, severity
    return ("cached",) if family.relation in ("lower", "equal") else (family.relation,)


def _scores(reward: AuditedReward, call: Sequence[MadeVariant]) -> list[Score]:
    relation, variant = call[0][0].relation, call[0][2]
    if variant.before or variant.after:
        scores = reward.whole_batch([*variant.before, variant.sample, *variant.after])
        return [scores[len(variant.before)]]
    samples = [variant.sample for _, _, variant in call]
    if relation in ("lower", "equal"):
        return reward(samples)
    return reward.without_cache(samples, readable=relation != "no_number")
