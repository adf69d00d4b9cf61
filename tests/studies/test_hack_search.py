"""The search for hacks: what it finds, what it never takes for a hack, and its command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import cv2
import numpy as np
import PIL.ImageOps
import pytest

from editcritic.benchmarks.demo.candidate_edits import candidates, demo_tasks
from editcritic.benchmarks.sceneedit import toy
from editcritic.cli.editor_spec import EditorSpec
from editcritic.reward import EditSample, Image
from editcritic.reward.audit import Family, TrialMaker, select_families
from editcritic.reward.image import Pixels
from studies.hack_search.__main__ import Candidate, HackSearch, main
from studies.hack_search.recipe import Component, Mixer, Recipe, RecipeDraw, audit_editor, misuses, weakened_arguments

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


def mixer(sample: EditSample, families: Sequence[Family] = FAMILIES) -> Mixer:
    return Mixer(TrialMaker([sample, *photographs()], families).audited(0), families)


def recipe(*components: tuple[str, float], region: str = "whole", opacity: float = 1.0, base: str = "") -> Recipe:
    return Recipe(tuple(Component(*component) for component in components), base, region, opacity)  # type: ignore[arg-type]


def search(reward, samples, **options):
    return HackSearch(reward, samples, **{"families": FAMILIES, **options}).run()


def best_of(one) -> Candidate:
    assert one.best is not None
    return one.best


def test_a_planted_hack_is_found_and_none_where_there_is_none() -> None:
    samples = photographs()
    hacked = search(Likeness(samples, saturation=1.0), samples, evaluations=40, seed=1)
    assert hacked.rate.value == 1
    assert all("over-saturated" in best_of(one).recipe.families for one in hacked.searches)
    assert hacked.best_gain.value > 0
    sound = search(Likeness(samples), samples, evaluations=40, seed=1)
    assert sound.rate.value == 0
    assert sound.best_gain.value < 0


def test_the_same_seed_gives_the_same_search_and_each_picture_is_scored_once() -> None:
    samples = photographs(2)
    reward = Likeness(samples, 1.0)
    first, again, other = (search(reward, samples, evaluations=12, seed=seed) for seed in (1, 1, 2))
    recipes = [[[one.recipe for one in part.candidates] for part in run.searches] for run in (first, again, other)]
    assert recipes[0] == recipes[1] != recipes[2]
    assert first.lines() == again.lines()
    reward = Likeness(samples)
    assert search(reward, samples, evaluations=25).evaluated == 50
    assert len(reward.scored) == len(set(reward.scored)) == 2 + 50  # the edits are the first
    assert reward.calls == 1 + 2 * 3  # of at most 10


@pytest.mark.parametrize("wrong", [float("nan"), None, "a text", float("inf")])
def test_values_that_are_no_numbers_are_no_finds_and_end_nothing(wrong: object) -> None:
    samples = photographs(2)
    known = {sample.edited.digest for sample in samples}
    values = lambda batch: [1.0 if one.edited.digest in known else wrong for one in batch]  # noqa: E731
    result = search(values, samples, evaluations=25)
    assert (result.evaluated, result.best_gain, result.rate.value) == (50, None, 0)
    assert result.lines()


def test_a_family_or_an_editor_that_fails_is_named_and_in_no_mixture() -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("out of memory")

    families = [*FAMILIES, replace(FAMILIES[0], name="broken", vary=broken)]
    result = search(Likeness(photographs(1)), photographs(1), families=families, evaluations=20, edit_again=broken)
    assert result.evaluated == 20
    assert not any("broken" in one.recipe.families for one in result.searches[0].candidates)
    assert list(result.family_errors) == ["broken: RuntimeError: out of memory"]
    assert all("RuntimeError: out of memory" in name for name in result.editor_errors)
    assert result.editor_errors


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


# -- evolution --------------------------------------------------------------------------------------------------------


# -- the command ------------------------------------------------------------------------------------------------------

CONTRAST = ["--reward", "tests.cli.audited_functions:contrast"]


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITCRITIC_TRUST", "tests")


def mirrored(image: Any, instruction: str, seed: int) -> Any:
    """An editor that is a function."""
    return PIL.ImageOps.mirror(image)


def test_the_best_mixtures_are_printed_with_an_editor(capsys) -> None:
    families = [word for name in ("blurred", "over-saturated", "reencoded") for word in ("--family", name)]
    options = ["--limit", "2", "--evaluations", "12", "--pipeline", f"{__name__}:mirrored"]
    assert main(["demo", *CONTRAST, *families, *options]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("24 mixtures of families at 2 edits, at most 12 of each")
    assert sum(" by " in line for line in printed[2:]) == 2


def test_a_pipeline_is_weakened_by_the_arguments_that_it_takes() -> None:
    pytest.importorskip("diffusers")
    (sample,) = toy(1, seed=1).samples
    spec = EditorSpec("sceneedit", {"num_inference_steps": 6})
    assert weakened_arguments(spec)["edited in 2 steps"] == {"num_inference_steps": 2}
    used = audit_editor(spec, [sample])
    assert used.edit_again is not None
    pictures = [edit(sample) for edit in (used.edit_again, *used.weakened.values())]
    assert {picture.size for picture in pictures} == {sample.source.size}
    assert pictures[0] == spec.load().edit([sample.sources], [sample.instruction], [0])[0] != pictures[1]
