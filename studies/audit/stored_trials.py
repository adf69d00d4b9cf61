"""Trials of many rewards on one edit: variants are made once, and no trial is scored twice.

A file an edit keeps its scores. Their keys are of all that decides them: the reward's identity, the family and the
samples, so that a new version of either is scored anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import numpy as np

from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import BaseReward, EditSample, Engine, Reward, Score, build
from editcritic.reward.atomic_files import write_atomically
from editcritic.reward.audit import AuditedReward, Family, Trial, TrialMaker, Variant, select_families
from editcritic.reward.audit.trials import score_batch, variant_batches

from .scene_edits import good_edits

PIXELS = "pixels alone"
"""The plain pixel reward, beside the specs of installed ones."""

NOT_KEPT = "it is not scored yet"
"""Reason of a missing score where only what is kept is reported."""

_REASON = 200  # characters that are kept


def pixel_similarity(samples: Sequence[EditSample]) -> list[float]:
    """1 minus the mean absolute difference from the source, whose size the edited picture must have."""
    return [1.0 - float(np.abs(_levels(s.source.pixels) - _levels(s.edited.pixels)).mean()) / 255 for s in samples]


def _levels(pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.float32]]:
    return pixels.astype(np.float32)


@dataclass(frozen=True, slots=True)
class EditSet:
    """Good edits of SceneEdit: see `good_edits`; those of several seeds one after another."""

    seeds: tuple[int, ...]
    size: int
    per_type: int
    others: int

    def samples(self) -> list[EditSample]:
        return [
            case.sample
            for seed in self.seeds
            for case in good_edits(seed, size=self.size, per_type=self.per_type, others=self.others)
        ]


@dataclass(frozen=True, slots=True)
class EditTrials:
    """Of one reward and one edit: the edit's score, and the trials if it has one."""

    edit: Score
    trials: Sequence[Trial]


class EditAuditor:
    """Audits rewards edit by edit. specs: of installed rewards, or `PIXELS`. folder: of the scores that are kept.
    only_kept: nothing is scored, and the trials are those that are kept.
    """

    def __init__(
        self, edits: EditSet, specs: Sequence[str], families: Sequence[str], folder: Path, *, only_kept: bool = False
    ) -> None:
        cv2.setNumThreads(1)
        self._samples = edits.samples()
        self._families = select_families(families)
        self._folder = folder
        self._only_kept = only_kept
        experts, engine = scene_experts(), Engine()
        self.rewards: Mapping[str, AuditedReward] = {
            spec: AuditedReward(pixel_similarity, PIXELS)
            if spec == PIXELS
            else AuditedReward(Reward(build(spec), experts, engine=engine, on_failures="none"))
            for spec in specs
        }

    def audit(self, number: int) -> dict[str, EditTrials]:
        """Spec -> trials on the edit of this number."""
        file = self._folder / f"{self._samples[number].id}.json"
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        if self._only_kept and not kept:
            return dict.fromkeys(self.rewards, EditTrials(Score.not_applicable(NOT_KEPT), ()))
        before = len(kept)
        with TemporaryDirectory(prefix="editcritic-audit-") as folder:
            maker = TrialMaker(self._beside(number), self._families, folder=Path(folder))
            variants = list(maker.variants(0))
            keys = [_key(family, severity, variant) for family, severity, variant in variants]
            rows = list(zip(keys, variants, strict=True))
            result = {spec: self._trials(number, reward, rows, kept) for spec, reward in self.rewards.items()}
        if len(kept) > before:
            write_atomically(file, json.dumps(kept))
        return result

    def _beside(self, number: int) -> list[EditSample]:
        """The sample, then those that can stand beside it in any batch: with all the fields that it has."""
        needed = _filled(self._samples[number])
        order = [*self._samples[number + 1 :], *self._samples[:number]]
        return [self._samples[number], *(sample for sample in order if needed <= _filled(sample))]

    def _trials(
        self,
        number: int,
        reward: AuditedReward,
        rows: Sequence[tuple[str, tuple[Family, int, Variant]]],
        kept: dict[str, Any],
    ) -> EditTrials:
        sample, scorer = self._samples[number], reward.scorer
        name = scorer.signature if isinstance(scorer, BaseReward) else reward.name
        if isinstance(scorer, BaseReward) and (missing := scorer.missing_fields(sample)):
            return EditTrials(Score.not_applicable(f"the sample has no {', '.join(missing)}"), ())
        of_edit = f"{name}\n{_sample_key(sample)}"
        if of_edit not in kept and self._only_kept:
            return EditTrials(Score.not_applicable(NOT_KEPT), ())
        if of_edit not in kept:
            kept[of_edit] = _short(reward([sample])[0])
        edit = Score.from_json(kept[of_edit])
        if edit.value is None:
            return EditTrials(edit, ())
        new = [row for row in rows if f"{name}\n{row[0]}" not in kept and not self._only_kept]
        batches = variant_batches(row for _, row in new)
        scored = (trial for batch in batches for trial in score_batch(reward, batch, number, edit))
        for (key, _), trial in zip(new, scored, strict=True):
            kept[f"{name}\n{key}"] = _short(trial.variant)
        trials = [
            Trial(number, family.name, severity, edit, Score.from_json(kept[f"{name}\n{key}"]))
            for key, (family, severity, _) in rows
            if f"{name}\n{key}" in kept
        ]
        return EditTrials(edit, trials)


def _filled(sample: EditSample) -> set[str]:
    return {field.name for field in fields(sample) if getattr(sample, field.name) not in (None, "", (), {})}


def _short(score: Score) -> dict[str, Any]:
    """Without parts and evidence."""
    return Score(score.value, score.status, score.reason[:_REASON], cause=score.cause).to_json()


def _key(family: Family, severity: int, variant: Variant) -> str:
    samples = (*variant.before, variant.sample, *variant.after)
    return " ".join([family.name, family.relation, str(severity), *map(_sample_key, samples)])


def _sample_key(sample: EditSample) -> str:
    """Of what families change: pictures, words, names and metadata."""
    try:
        pictures = [image.digest for image in (*sample.sources, sample.edited)]
    except (OSError, ValueError):  # a broken picture, by intent
        pictures = ["unreadable"]
    words = [sample.id, sample.instruction, repr(sorted(sample.metadata.items(), key=str)), *pictures]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:32]
