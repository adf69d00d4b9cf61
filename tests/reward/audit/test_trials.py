"""Variants are made the same each time, and scored in as few calls as their relations allow."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from editcritic.reward import EditSample, Image, Reward, Score
from editcritic.reward.audit import AuditedReward, Family, Trial, TrialMaker, all_families, select_families
from editcritic.reward.audit.audited_edit import AuditedEdit
from editcritic.reward.audit.trials import BATCH, UnmadeVariant, score_batch, variant_batches
from editcritic.reward.queries import Rate

from ..fakes import Fake, Rated
from .audit_cases import AMOUNTS, brightness, darker, photographs


def keys(maker: TrialMaker, number: int) -> list[tuple[str, int, str, str]]:
    return [
        (family.name, severity, variant.sample.id, variant.sample.edited.digest)
        for family, severity, variant in maker.variants(number)
    ]


def test_a_variant_is_made_again_from_three_names(tmp_path: Path):
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    first = TrialMaker(photographs(), all_families(), 3, folder=tmp_path / "one")
    again = TrialMaker(photographs(), all_families(), 3, folder=tmp_path / "other")
    made = keys(first, 1)
    assert made == keys(again, 1)
    assert len({(name, severity) for name, severity, _, _ in made}) == len(made)
    for family, severity, variant in list(first.variants(1))[::7]:
        alone = again.variant(1, family, severity)
        assert alone is not None
        assert (alone.sample.id, alone.sample.edited) == (variant.sample.id, variant.sample.edited)


def test_the_ids_of_variants_and_the_sources_of_others():
    maker = TrialMaker(photographs(), select_families(["reencoded", "sample-id"]))
    name = photographs()[0].id
    assert [key[2] for key in keys(maker, 0)][:3] == [f"{name}/reencoded/{severity}" for severity in range(3)]
    assert not any(key[2].startswith(name) for key in keys(maker, 0)[3:])
    maker = TrialMaker(photographs(), ())
    sources = {one.source.digest for one in photographs()}
    for number, one in enumerate(photographs()):
        others = {other.source.digest for other in maker.audited(number).others}
        assert others == sources - {one.source.digest}
    alone = TrialMaker(photographs()[:1] * 3, select_families(["batch-order"]))
    assert list(alone.variants(0)) == []


def trials_of(reward: AuditedReward, maker: TrialMaker, number: int, edit: Score) -> list[Trial]:
    batches = variant_batches(maker.variants(number))
    return [trial for batch in batches for trial in score_batch(reward, batch, number, edit)]


def asked(families: Sequence[str], folder: Path) -> tuple[list[int], Fake]:
    """How often an expert is asked about each edited picture where the first photograph is audited."""
    expert = Fake()
    reward = AuditedReward(Reward(Rated(), {"preference": expert}))
    maker = TrialMaker(photographs(), select_families(families), folder=folder)
    trials_of(reward, maker, 0, reward(photographs())[0])
    return [expert.seen[Rate(one.edited).digest] for one in photographs()], expert


@pytest.mark.parametrize(
    ("families", "times"),
    [
        (["sample-id"], 3),
        (["repeated"], 3),
        (["sample-id", "sample-metadata", "file-name", "file-metadata", "repeated"], 3),
        (["companions"], 3),
        (["batch-order"], 3),
        (["same"], 9),
    ],
)
def test_what_must_not_matter_is_asked_anew_once_a_severity(families, times, tmp_path):
    counts, _ = asked(families, tmp_path)
    assert counts[0] == 1 + times


def test_what_the_cache_answers_and_companions_are_asked(tmp_path):
    counts, expert = asked(["polite-words", "spaces-and-case"], tmp_path)
    assert set(counts) == {1}
    assert sum(expert.seen.values()) == len({one.edited for one in photographs()})
    counts, _ = asked(["batch-order"], tmp_path)
    assert sorted(counts) == [1] * (len(counts) - 3) + [4] * 3


def test_calls_are_bounded_and_hold_what_belongs_together(tmp_path):
    calls: list[list[str]] = []

    def scorer(samples: Sequence[EditSample]) -> list[float]:
        calls.append([one.id for one in samples])
        return [0.5] * len(samples)

    many = tuple(darker("lower", f"darker-{number}") for number in range(50))
    maker = TrialMaker(photographs(), (*many, *select_families(["same", "no_number"])), folder=tmp_path)
    trials = trials_of(AuditedReward(scorer), maker, 0, Score.of(1.0))
    assert [(trial.family, trial.severity) for trial in trials] == [
        (family.name, severity) for family, severity, _ in maker.variants(0)
    ]
    cached = [call for call in calls if any("/darker-" in name for name in call)]
    assert [len(call) for call in cached] == [BATCH, BATCH, 150 - 2 * BATCH]
    assert max(map(len, calls)) <= BATCH
    companions = [call for call in calls if any(name.startswith("companion-") for name in call)]
    assert [len(call) for call in companions] == [2, 3, 4]
    assert [next(n for n, name in enumerate(call) if "batch-order" in name) for call in calls if "other-0" in call] == [
        *(0, 1, 2)
    ]


def test_a_score_belongs_to_its_variant(tmp_path):
    families = (darker("lower"), *select_families(["sample-id", "batch-order", "repeated"]), darker("equal", "near"))
    maker = TrialMaker(photographs(), families, folder=tmp_path)
    reward = AuditedReward(brightness)
    trials = trials_of(reward, maker, 2, Score.of(0.0))
    expected = [brightness([variant.sample])[0] for _, _, variant in maker.variants(2)]
    assert [trial.variant.value for trial in trials] == pytest.approx(expected)
    assert {trial.sample for trial in trials} == {2}


def test_families_that_fail_or_mean_nothing_are_named():
    def vary(edit: AuditedEdit, amount: float) -> None:
        raise IndexError("no such row")

    maker = TrialMaker(photographs(), [replace(darker("lower"), vary=vary)])
    with pytest.raises(RuntimeError, match=f"the family darker fails for sample '{photographs()[0].id}': no such row"):
        list(maker.variants(0))
    with pytest.raises(RuntimeError, match="no such row"):
        maker.variant(0, maker.families[0], 2)
    first, middle, last = darker("lower").severities
    with pytest.raises(ValueError, match="rising or falling"):
        replace(darker("lower"), severities=(middle, first, last))
    with pytest.raises(ValueError, match="`damages` belongs to"):
        Family("x", "equal", "A test.", (first, middle, last), lambda edit, amount: None, damages="following")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (IndexError("no such row " + 1000 * "!"), "IndexError: no such row !"),
        (42, "TypeError: a family returns a Variant, or None where it does not apply; got 42"),
    ],
)
def test_variants_of_a_family_that_fails_are_left_out_with_the_reason(value: Any, says: str) -> None:
    def vary(edit: AuditedEdit, amount: float) -> Any:
        if amount > AMOUNTS[0] and isinstance(value, Exception):
            raise value
        return edit.picture(edit.after // 2) if amount == AMOUNTS[0] else value

    maker = TrialMaker(photographs(), [replace(darker("lower"), vary=vary), darker("equal", "near")])
    unmade: list[UnmadeVariant] = []
    made = [(family.name, severity) for family, severity, _ in maker.variants(1, unmade.append)]
    assert made == [("darker", 0), ("near", 0), ("near", 1), ("near", 2)]
    assert [(one.sample, one.family, one.severity) for one in unmade] == [(1, "darker", 1), (1, "darker", 2)]
    assert unmade[0].reason.startswith(says)
    assert len(unmade[0].reason) <= 500


def test_families_read_and_write_only_files_that_are_there(tmp_path):
    one = photographs()[0]
    lost = Image(one.source.size, digest="0" * 64, path=tmp_path / "lost.png")
    names = {"unchanged-source", "reencoded", "sample-id"}
    maker = TrialMaker([replace(one, sources=(lost,), group="g")], select_families(names))
    assert {family.name for family, _, _ in maker.variants(0)} == {"reencoded", "sample-id"}
    without = {family.name for family, _, _ in TrialMaker(photographs(), all_families()).variants(0)}
    within = {family.name for family, _, _ in TrialMaker(photographs(), all_families(), folder=tmp_path).variants(0)}
    assert within - without == {"broken-file", "missing-file", "file-name", "file-metadata"}
    assert list(tmp_path.iterdir())
