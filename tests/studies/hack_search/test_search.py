"""The search for hacks: what it finds, what it never takes for a hack, and what bounds it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random

import cv2
import numpy as np
import pytest

from editcritic.benchmarks.demo.candidate_edits import candidates
from editcritic.benchmarks.demo.demo_scenes import demo_tasks
from editcritic.benchmarks.sceneedit import toy
from editcritic.reward import EditSample, Image, Reward, Score, default_experts
from editcritic.reward.audit import Family, TrialMaker, Variant, audit, select_families
from editcritic.reward.audit.audited_edit import AuditedEdit
from editcritic.reward.image import Pixels
from studies.hack_search import Candidate, Component, HackSearch, Recipe, SampleSearch, search
from studies.hack_search.misused_editor import misuses
from studies.hack_search.mixer import Mixer
from studies.hack_search.mutation import RecipeDraw
from tests.reward.fakes import Fake, Rated

FAMILIES = select_families(
    [
        *("desaturated", "mirrored", "over-saturated", "overexposed", "underexposed", "unchanged-source"),
        *("faint-noise", "reencoded"),
    ]
)


@cache
def photographs(count: int = 3) -> tuple[EditSample, ...]:
    """Good edits of photographs, 128 px wide."""
    tasks = list({task.photo: task for task in demo_tasks()}.values())[:count]
    return tuple(
        EditSample(task.name, task.instruction, (_small(task.pixels),), _small(candidates(task)["good"]))
        for task in tasks
    )


def _small(pixels: Pixels) -> Image:
    return Image.of(pixels).resized(128, round(128 * pixels.shape[0] / pixels.shape[1]), "area")


class Likeness:
    """A reward that knows the edits: 1 minus the distance from them. Nothing is above an edit.

    saturation: what it pays above that of the edit; a planted hack.
    """

    def __init__(self, samples: Sequence[EditSample], saturation: float = 0.0) -> None:
        self.edits = {sample.source.digest: sample.edited.pixels for sample in samples}
        self.saturation = saturation
        self.calls = 0
        self.scored: list[str] = []

    def __call__(self, samples: Sequence[EditSample]) -> list[float]:
        self.calls += 1
        self.scored += [sample.edited.digest for sample in samples]
        return [self._value(sample.edited.pixels, self.edits[sample.source.digest]) for sample in samples]

    def _value(self, pixels: Pixels, edit: Pixels) -> float:
        more = _saturation(pixels) / _saturation(edit) - 1
        return 1 - float(cv2.absdiff(pixels, edit).mean()) / 255 + self.saturation * max(0.0, more)


def _saturation(pixels: Pixels) -> float:
    return float(np.ptp(pixels.astype(np.int16), axis=2).mean())


def mixer(sample: EditSample, families: Sequence[Family] = FAMILIES, *, is_good: bool = True) -> Mixer:
    return Mixer(TrialMaker([sample, *photographs()], families).audited(0), families, is_good)


def recipe(*components: tuple[str, float], region: str = "whole", opacity: float = 1.0, base: str = "") -> Recipe:
    return Recipe(tuple(Component(*component) for component in components), base, region, opacity)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_a_planted_hack_is_found_and_none_where_there_is_none(seed: int) -> None:
    samples = photographs()
    hacked = search(Likeness(samples, saturation=1.0), samples, families=FAMILIES, evaluations=40, seed=seed)
    assert hacked.rate.value == 1
    assert all("over-saturated" in find.candidate.recipe.families for find in hacked.finds)
    assert hacked.best_gain is not None
    assert hacked.best_gain.value > 0

    sound = search(Likeness(samples), samples, families=FAMILIES, evaluations=40, seed=seed)
    assert sound.find_count == 0
    assert not sound.finds
    assert sound.rate.value == 0
    assert sound.best_gain is not None
    assert sound.best_gain.value < 0
    assert all(one.best is not None for one in sound.searches)


def test_evolution_improves_on_the_random_candidates() -> None:
    samples = photographs()
    result = search(Likeness(samples, saturation=1.0), samples, families=FAMILIES, evaluations=80, seed=5)
    curve = [value for value in result.curve if value is not None]
    assert curve == sorted(curve)
    assert curve[-1] > curve[23]


def test_the_same_seed_gives_the_same_search_and_another_one_another() -> None:
    samples = photographs(2)
    first, again, other = (
        search(Likeness(samples, 1.0), samples, families=FAMILIES, evaluations=12, seed=seed) for seed in (1, 1, 2)
    )
    recipes = [[[one.recipe for one in part.candidates] for part in run.searches] for run in (first, again, other)]
    assert recipes[0] == recipes[1] != recipes[2]
    assert replace(first, seconds=0).to_json() == replace(again, seconds=0).to_json()


def test_each_picture_is_scored_once_in_batches_within_the_bounds() -> None:
    samples = photographs()
    reward = Likeness(samples)
    result = search(reward, samples, families=FAMILIES, evaluations=25)
    assert [len(one.candidates) for one in result.searches] == [25, 25, 25]
    assert len(reward.scored) == len(set(reward.scored)) == 3 + 75  # the edits are the first
    assert reward.calls == 1 + 3 * 3  # of at most 10

    reward = Likeness(samples)
    result = search(reward, samples, families=FAMILIES, evaluations=25, max_evaluations=40)
    assert [len(one.candidates) for one in result.searches] == [13, 13, 14]

    result = search(Likeness(samples), samples, families=FAMILIES, evaluations=25, max_seconds=1e-9)
    assert result.evaluated == 0
    assert result.rate.value is None
    assert result.best_gain is None
    json.dumps(result.to_json(), allow_nan=False)


def test_known_scores_of_the_edits_are_not_asked_for() -> None:
    samples = photographs()
    reward = Likeness(samples)
    edits = [HackSearch(reward, samples).reward(samples)[number] for number in range(3)]
    reward.scored.clear()
    run = HackSearch(reward, samples, families=FAMILIES, evaluations=5, edits=edits)
    run.run()
    assert len(reward.scored) == 15
    assert not {sample.edited.digest for sample in samples} & set(reward.scored)
    assert run.result().stopped == ""


def test_after_an_audit_the_search_begins_with_its_best_variants() -> None:
    samples = photographs(2)
    reward = Likeness(samples, 1.0)
    report = audit(reward, samples, families=FAMILIES, seed=4)
    run = HackSearch(
        reward, samples, families=FAMILIES, evaluations=8, seed=4, edits=report.edits, trials=report.trials
    )
    run.run()
    for number, part in enumerate(run.result().searches):
        audited = {trial.variant.value for trial in report.trials if trial.sample == number}
        lower = {family.name for family in FAMILIES if family.relation == "lower"}
        best = max(t.variant.value or 0 for t in report.trials if t.sample == number and t.family in lower)
        assert part.candidates[0].score.value == best
        assert {one.score.value for one in part.candidates[:3]} <= audited
        assert part.best is not None
        assert (part.best.score.value or 0) >= best


def test_what_is_found_before_an_interruption_is_kept() -> None:
    samples = photographs()
    reward = Likeness(samples, 1.0)

    def interrupted(batch: Sequence[EditSample]) -> list[float]:
        if reward.calls == 4:
            raise KeyboardInterrupt
        return reward(batch)

    run = HackSearch(interrupted, samples, families=FAMILIES, evaluations=20)
    assert not run.result().searches
    json.dumps(run.result().to_json(), allow_nan=False)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert [len(one.candidates) for one in run.result().searches] == [20, 10]
    assert run.result().stopped == "interrupted"

    run = HackSearch(reward, samples, families=FAMILIES, evaluations=20)
    run.run(stop=lambda: "enough" if run.latest else "")
    assert run.result().stopped == "enough"
    assert run.result().evaluated == 10

    few = HackSearch(reward, samples, families=FAMILIES, evaluations=10)
    few.run(stop=lambda: "enough" if len(few.latest) >= 30 else "")  # after the last call there is nothing to stop
    assert (few.result().stopped, few.result().evaluated) == ("", 30)


def test_a_family_that_fails_is_in_no_mixture_and_named() -> None:
    def vary(edit: AuditedEdit, amount: float) -> Variant:
        raise IndexError("no such row")

    samples = photographs(1)
    broken = replace(FAMILIES[0], name="broken", vary=vary)
    result = search(Likeness(samples), samples, families=[*FAMILIES, broken], evaluations=10)
    assert result.evaluated == 10
    assert not any("broken" in one.recipe.families for one in result.searches[0].candidates)
    assert list(result.family_errors) == ["broken: IndexError: no such row"]
    assert result.to_json()["family_errors"] == dict(result.family_errors)


def test_a_search_says_what_its_experts_took() -> None:
    samples = photographs(1)
    expert = Fake()
    reward = Reward(Rated(), {"preference": expert})
    report = audit(reward, samples, families=FAMILIES)
    audited = sum(expert.seen.values())
    run = HackSearch(reward, samples, families=FAMILIES, evaluations=10, edits=report.edits, trials=report.trials)
    run.run()
    result = run.result()
    searched = sum(expert.seen.values()) - audited
    assert result.scored == 10
    assert [cost["queries"] for cost in result.to_json()["expert_costs"]] == [searched]


def test_a_picture_is_made_again_from_its_recipe_in_json() -> None:
    samples = photographs(2)
    reward = Likeness(samples, 1.0)
    run = HackSearch(reward, samples, families=FAMILIES, evaluations=12, seed=3)
    run.run()
    data = json.loads(json.dumps(run.result().to_json(), allow_nan=False))
    for number, row in enumerate(data["edits"]):
        mixture = run.mixer(number).mix(Recipe.from_json(row["best"]["recipe"]))
        assert mixture is not None
        scored = replace(samples[number], edited=mixture.picture)
        assert reward([scored]) == [row["best"]["score"]]
        assert mixture.damage == row["best"]["damage"]


# -- rewards that fail ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [float("nan"), None, "a text", float("inf")])
def test_values_that_are_no_numbers_are_no_finds_and_end_nothing(wrong: object) -> None:
    samples = photographs(2)
    known = {sample.edited.digest for sample in samples}
    result = search(
        lambda batch: [1.0 if one.edited.digest in known else wrong for one in batch],
        samples,
        families=FAMILIES,
        evaluations=25,
    )
    assert result.evaluated == 50
    assert result.find_count == 0
    assert result.curve == [None] * 25
    assert result.best_gain is None
    assert result.rate.value == 0
    json.dumps(result.to_json(), allow_nan=False)


def test_an_exception_fails_the_picture_that_causes_it_only() -> None:
    samples = photographs(1)
    sound = Likeness(samples)

    def raises(batch: Sequence[EditSample]) -> list[float]:
        values = sound(batch)
        if any(value < 0.9 for value in values):
            raise RuntimeError("this picture is too far from the edit")
        return values

    (one,) = search(raises, samples, families=FAMILIES, evaluations=30).searches
    statuses = {candidate.score.status for candidate in one.candidates}
    assert len(one.candidates) == 30
    assert statuses == {"scored", "failed"}
    assert one.best is not None
    assert one.best.score.status == "scored"


def test_an_edit_without_a_score_or_with_the_lowest_is_not_searched() -> None:
    samples = photographs(1)
    result = search(lambda batch: [None] * len(batch), samples, families=FAMILIES, evaluations=10)
    assert result.evaluated == 0
    assert result.searches[0].best is None
    assert result.curve == []
    result = search(
        "guard-not-a-copy", [replace(samples[0], edited=samples[0].source)], experts=default_experts(), evaluations=10
    )
    assert result.searches[0].edit.value == 0
    assert result.evaluated == 0


def test_a_reward_that_pays_all_the_same_is_found_out_by_ties() -> None:
    result = search(lambda batch: [0.5] * len(batch), photographs(1), families=FAMILIES, evaluations=10)
    assert result.find_count == 10
    assert result.finds[0].gain == 0


def test_of_each_set_of_families_the_best_candidate_is_ranked() -> None:
    scores: list[tuple[tuple[str, ...], float | None]] = [
        *((("mirrored",), 0.9), (("mirrored",), 0.6), (("overexposed",), 0.8), (("overexposed",), 0.8)),
        *((("mirrored", "overexposed"), 0.7), (("mirrored", "overexposed"), None)),
    ]
    made = [
        Candidate(
            Recipe(tuple(Component(name, 0.5) for name in names)),
            Score.abstained("who knows") if value is None else Score.of(value),
            number,
            1.0,
        )
        for number, (names, value) in enumerate(scores)
    ]
    one = SampleSearch(0, Score.of(0.5), made)
    assert [candidate.evaluation for candidate in one.ranked()] == [0, 2, 4]
    assert one.ranked()[0] is one.best


def test_wrong_arguments_are_named() -> None:
    samples = photographs(1)
    reward = Likeness(samples)
    for arguments, message in (
        ({"evaluations": 0}, "evaluations must be at least 1, got 0"),
        ({"max_evaluations": 0}, "max_evaluations must be at least 1"),
        ({"max_seconds": 0.0}, "max_seconds must be above 0"),
        ({"families": select_families(["equal"])}, "families whose variants are worse"),
    ):
        with pytest.raises(ValueError, match=message):
            search(reward, samples, **arguments)
    with pytest.raises(ValueError, match="needs edits, got none"):
        search(reward, [])


# -- worse than the edit ----------------------------------------------------------------------------------------------


def test_every_mixture_has_a_worse_part_and_is_as_far_from_the_edit_as_its_mildest() -> None:
    sample = photographs()[0]
    made = mixer(sample)
    draw = RecipeDraw(made.applicable)
    by_name = {family.name: family for family in FAMILIES}
    rng = Random(7)
    recipes = [draw.random_recipe(rng) for _ in range(150)]
    recipes += [draw.mutated(rng, one) for one in recipes]
    kept = [(one, mixture) for one in recipes if (mixture := made.mix(one)) is not None]
    assert len(kept) > 30
    for one, mixture in kept:
        assert mixture.picture != sample.edited
        assert mixture.damage >= 1
        assert any(by_name[name].relation == "lower" for name in one.families)
        assert len(one.families) == len(one.components) <= 3
        again = made.mix(one)
        assert again is not None
        assert again.picture == mixture.picture
        assert one.text(by_name)


def test_parts_that_undo_each_other_are_no_mixture() -> None:
    made = mixer(photographs()[0])
    assert made.mix(recipe(("underexposed", 0.0))) is not None
    assert made.mix(recipe(("overexposed", 0.0))) is not None
    assert made.mix(recipe(("underexposed", 0.0), ("overexposed", 0.0))) is None
    assert made.mix(recipe(("mirrored", 0.0), ("mirrored", 0.0))) is None
    # Noise that nobody sees does not make up for it.
    assert made.mix(recipe(("underexposed", 0.0), ("overexposed", 0.0), ("faint-noise", 1.0))) is None


def test_harmless_parts_alone_and_faint_ones_are_no_mixture() -> None:
    made = mixer(photographs()[0])
    assert made.mix(recipe(("faint-noise", 1.0), ("reencoded", 1.0))) is None
    assert made.mix(recipe(("desaturated", 0.0), opacity=0.9)) is None
    assert made.mix(recipe(("desaturated", 1.0), opacity=0.9)) is not None
    assert made.mix(recipe(("desaturated", 0.0), region="checks")) is None
    assert made.mix(recipe()) is None


def test_the_source_restored_outside_of_the_change_is_no_mixture() -> None:
    sample = photographs()[0]
    # An edit that brightens all the rest a little is mended, not harmed, by the source's rest.
    brighter = replace(sample, edited=Image.of(cv2.add(sample.edited.pixels, np.full(3, 4.0))))
    made = mixer(brighter)
    assert made.mix(recipe(("unchanged-source", 0.0))) is not None
    assert made.mix(recipe(("unchanged-source", 0.0), region="outside")) is None
    assert made.mix(recipe(("unchanged-source", 1.0), ("reencoded", 0.0), region="outside")) is None


def test_families_that_need_a_good_edit_are_kept_from_others() -> None:
    sample = photographs()[0]
    assert mixer(sample, is_good=False).mix(recipe(("unchanged-source", 0.0))) is None
    assert mixer(sample, is_good=False).mix(recipe(("desaturated", 0.0))) is not None
    result = search(
        Likeness([sample], 1.0), [sample], families=FAMILIES, evaluations=30, is_good=lambda one: one.id != sample.id
    )
    names = {name for one in result.searches[0].candidates for name in one.recipe.families}
    assert "desaturated" in names
    assert "unchanged-source" not in names


@pytest.mark.parametrize("size", [(8, 8), (33, 300), (1, 1)])
def test_small_and_odd_pictures_end_the_search_properly(size: tuple[int, int]) -> None:
    source, edited = (image.resized(*size) for image in (photographs()[0].source, photographs()[0].edited))
    result = search(lambda batch: [0.5] * len(batch), [EditSample("s", "Blue eyes", (source,), edited)], evaluations=5)
    assert result.evaluated <= 5


# -- with an editor ---------------------------------------------------------------------------------------------------


def test_the_pictures_of_a_misused_editor_are_made_once_and_mixed() -> None:
    pytest.importorskip("diffusers")
    from editcritic.integrations.diffusers import make_editor

    data = toy(2, seed=1)
    pipeline = data.pipeline()
    editor, hasty = make_editor(pipeline), make_editor(pipeline, num_inference_steps=1)
    samples = [
        replace(sample, edited=editor.edit([sample.sources], [sample.instruction], [seed])[0])
        for seed, sample in enumerate(data.samples)
    ]
    requests: list[tuple[str, str]] = []

    def edit_again(sample: EditSample) -> Image:
        requests.append((sample.source.digest, sample.instruction))
        return editor.edit([sample.sources], [sample.instruction], [0])[0]

    result = search(
        lambda batch: [float(len(one.edited.digest)) for one in batch],
        samples,
        evaluations=40,
        edit_again=edit_again,
        weakened={"in 1 step": lambda sample: hasty.edit([sample.sources], [sample.instruction], [0])[0]},
    )
    assert not result.editor_errors
    assert len(requests) == len(set(requests)) <= 2 * 4
    bases = {one.recipe.base for part in result.searches for one in part.candidates}
    assert {"", "in 1 step", "asked for nothing"} <= bases
    by_name = {family.name: family for family in result.families}
    for part in result.searches:
        for one in part.candidates:
            is_wrong = one.recipe.base.startswith("asked for")
            assert is_wrong or any(by_name[name].relation == "lower" for name in one.recipe.families)


def test_an_editor_asked_wrongly_that_makes_the_edit_all_the_same_makes_no_mixture() -> None:
    sample = photographs()[0]
    edit = TrialMaker(photographs(), FAMILIES).audited(0)
    knows = Mixer(edit, FAMILIES, misuses=misuses(edit, lambda request: sample.edited, {}))
    idle = Mixer(edit, FAMILIES, misuses=misuses(edit, lambda request: request.source, {}))
    assert knows.mix(recipe(base="asked for nothing")) is None
    mixture = idle.mix(recipe(base="asked for nothing"))
    assert mixture is not None
    assert mixture.picture == sample.source
    assert idle.mix(recipe(base="asked for nothing", opacity=0.4)) is None
    assert idle.mix(recipe(base="edited twice")) is None  # may be as good as the edit, without more
    assert idle.mix(recipe(("desaturated", 0.0), base="edited twice")) is not None


def test_an_editor_that_raises_is_reported_and_ends_nothing() -> None:
    def broken(request: EditSample) -> Image:
        raise RuntimeError("out of memory")

    result = search(Likeness(photographs(1)), photographs(1), families=FAMILIES, evaluations=20, edit_again=broken)
    assert result.evaluated == 20
    assert all("RuntimeError: out of memory" in name and count == 1 for name, count in result.editor_errors.items())
    assert result.editor_errors


def test_another_sample_with_much_the_same_instruction_is_not_asked_for() -> None:
    first, second, *_ = photographs()
    twin = replace(second, instruction=f"{first.instruction} now")
    names = [one.name for one in misuses(TrialMaker([first, twin], ()).audited(0), lambda request: request.source, {})]
    assert "asked for another edit" not in names
    assert "asked for nothing" in names
