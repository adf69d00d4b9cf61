"""All families of an audit, whichever there are, on photographs, on tiny pictures and on odd sizes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
import pytest

from editcritic.benchmarks.demo.candidate_edits import candidates, demo_tasks
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.toy_data import toy
from editcritic.reward import Box, EditSample, Image
from editcritic.reward.audit import Family, TrialMaker, Variant, all_families, select_families
from editcritic.reward.audit.audited_edit import AuditedEdit
from editcritic.reward.audit.family import RELATIONS
from editcritic.reward.audit.requested_changes import COLOUR, DETAIL, FRAMING, LIGHT, ORIENTATION
from editcritic.reward.edit_plan import EditPlan, PlannedOperation
from editcritic.reward.image import ImageError, Pixels

FAMILIES = all_families()
LOWER, EQUAL, SAME = (select_families([relation]) for relation in ("lower", "equal", "same"))
PHOTOGRAPHS = tuple(task.name for task in demo_tasks())
DRAWINGS = tuple(f"SceneEdit {number}" for number in range(9))
ODD_SIZES = ("33 x 1000", "1000 x 33", "4000 x 9", "8 x 8", "3 x 5")
OTHER_SIZE = "edited at another size"
FLOOR = 25.0
"""dB: peak signal-to-noise ratio that harmless variants keep, without grain, as content may move by a percent."""
WHOLE_PICTURE = {COLOUR, LIGHT, DETAIL, FRAMING, ORIENTATION}


def name_of(family: Family) -> str:
    return family.name


of_each = pytest.mark.parametrize("family", FAMILIES, ids=name_of)
of_each_lower = pytest.mark.parametrize("family", LOWER, ids=name_of)


@cache
def samples() -> dict[str, EditSample]:
    """Correct edits: of photographs, of 32 px drawings, and of odd sizes."""
    found = {}
    for task in demo_tasks():
        source = Image.of(task.pixels)
        boxes = {name: tuple(Box.from_corners(*box, source.size) for box in all_) for name, all_ in task.boxes.items()}
        edited = Image.of(candidates(task)["good"])
        found[task.name] = EditSample(task.name, task.instruction, (source,), edited, boxes=boxes)
    drawn = toy(len(DRAWINGS))
    for name, sample in zip(DRAWINGS, drawn.samples, strict=True):
        prompt = drawn.prompts[sample.id]
        found[name] = replace(sample, id=name, edited=Image.of(render(prompt.request.apply(prompt.before))))
    photograph = found["another-brand"]
    for name in ODD_SIZES:
        width, height = map(int, name.split(" x "))
        source, edited = (image.resized(width, height, "area") for image in (photograph.source, photograph.edited))
        found[name] = replace(photograph, id=name, sources=(source,), edited=edited, group="", boxes={})
    found[OTHER_SIZE] = replace(photograph, id=OTHER_SIZE, edited=photograph.edited.resized(400, 272))
    return found


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Family], list[Variant | None]]:
    """The three variants of an edit, made anew."""
    folder = tmp_path_factory.mktemp("families")

    def variants(edit: str, family: Family) -> list[Variant | None]:
        # Edits of the same kind beside it.
        among = next((names for names in (PHOTOGRAPHS, DRAWINGS) if edit in names), (edit, *PHOTOGRAPHS))
        maker = TrialMaker([samples()[name] for name in among], [family], folder=folder)
        return [maker.variant(among.index(edit), family, severity) for severity in range(3)]

    return variants


def fingerprint(sample: EditSample) -> tuple[Any, ...]:
    try:
        edited = Image.of(sample.edited.pixels.copy()).digest
    except ImageError as error:
        edited = str(error)
    sources = [source.digest for source in sample.sources]
    return sample.id, sample.instruction, sources, edited, sample.edited.size, dict(sample.metadata)


def difference(variant: Variant) -> float:
    """Mean over pixels and channels, in grey levels, to the edit that the variant's id begins with."""
    edited = samples()[variant.sample.id.split("/")[0]].edited.pixels
    return float(cv2.absdiff(edited, variant.sample.edited.pixels).mean())


def test_families_come_back_from_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(FAMILIES)) == FAMILIES
    of_a_function = replace(FAMILIES[0], name="mine", vary=name_of)  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(of_a_function)) == of_a_function


def test_there_are_families_of_all_relations() -> None:
    assert {family.relation for family in FAMILIES} == set(RELATIONS)
    assert len({family.name for family in FAMILIES}) == len(FAMILIES) >= 45
    assert {family.damages for family in LOWER} == {"following", "preservation", "both"}


@of_each
def test_a_family_says_what_it_does_and_applies_to_some_edit(family, make):
    assert family.vary.__doc__
    assert family.reason[0].isupper()
    assert family.reason.endswith(".")
    assert ". " not in family.reason
    assert "\n" not in family.reason
    labels = [severity.label for severity in family.severities]
    assert len(set(labels)) == 3
    assert all(0 < len(label) <= 32 for label in labels)
    assert any(all(make(name, family)) for name in (*DRAWINGS, *PHOTOGRAPHS))


def test_families_are_selected_by_name_and_by_relation() -> None:
    assert [family.name for family in select_families(["blurred", "blank"])] == ["blank", "blurred"]
    assert select_families() == FAMILIES
    with pytest.raises(ValueError, match=r"there is no family 'blured': expected some of .*blurred"):
        select_families(["blured"])


@of_each
@pytest.mark.parametrize("edit", ["remove-patch", "SceneEdit 3", *ODD_SIZES, OTHER_SIZE])
def test_variants_are_the_same_each_time_and_change_nothing_in_place(family, edit, make):
    kept = samples()[edit]
    before = fingerprint(kept)
    made, again = make(edit, family), make(edit, family)
    assert [one and fingerprint(one.sample) for one in made] == [one and fingerprint(one.sample) for one in again]
    assert fingerprint(kept) == before
    for variant in filter(None, made):
        assert [image.digest for image in variant.sample.sources] == [image.digest for image in kept.sources]
        assert variant.sample.group == kept.group or variant.sample.instruction != kept.instruction
        if family.relation == "lower":
            assert variant.sample.edited.size == kept.edited.size
            assert variant.sample.instruction == kept.instruction
        if family.relation in ("lower", "equal"):
            assert variant.sample.id.startswith(f"{kept.id}/{family.name}/")
            assert not variant.before + variant.after


@of_each_lower
def test_worse_variants_differ_from_the_edit_and_more_so_with_severity(family, make):
    """Damage to the whole picture grows in each photograph. A part that is moved further need not differ more, but no
    severity differs less than the mildest, over all photographs. Kinds of damage, counted from 0, have no order.
    """
    differences = []
    for name in PHOTOGRAPHS:
        variants = [variant for variant in make(name, family) if variant is not None]
        pictures = {samples()[name].edited.digest, *(variant.sample.edited.digest for variant in variants)}
        assert len(pictures) == 1 + len(variants)
        if len(variants) == 3:
            differences.append([difference(variant) for variant in variants])
    if family.damages == "preservation" and [severity.amount for severity in family.severities] != [0, 1, 2]:
        mildest, *others = np.mean(differences, axis=0)
        assert min(others) > 0.95 * mildest
        if WHOLE_PICTURE & set(family.unless_requested):
            assert all(less < more for amounts in differences for less, more in pairwise(amounts)), differences


@pytest.mark.parametrize("family", EQUAL, ids=name_of)
@pytest.mark.parametrize("edit", PHOTOGRAPHS)
def test_harmless_variants_show_the_same(family, edit, make):
    kept = samples()[edit]
    for variant in filter(None, make(edit, family)):
        shown = variant.sample.edited.resized(*kept.edited.size).pixels
        smooth, other = (cv2.GaussianBlur(pixels, (0, 0), 2) for pixels in (kept.edited.pixels, shown))
        assert cv2.PSNR(smooth, other) >= FLOOR
        assert variant.sample.edited != kept.edited or variant.sample.instruction != kept.instruction


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("autoencoder-round-trip", 3.2, 10.2),  # 38 to 28 dB, as of learned ones
        ("faint-brightness", 0.3, 2.5),
        ("faint-noise", 0.5, 1.7),
        ("reencoded", 1.0, 7.0),
        ("reencoded-webp", 1.0, 6.0),
        ("resized", 2.0, 9.0),
    ],
)
def test_harmless_changes_of_every_pixel_are_as_faint_as_they_say(name, least, most, make):
    """Root mean square, in grey levels, of all severities at all photographs."""
    (family,) = select_families([name])
    for photograph in PHOTOGRAPHS:
        edited = samples()[photograph].edited.pixels.astype(np.float32)
        distances = [
            float(np.sqrt(np.square(variant.sample.edited.pixels - edited).mean()))
            for variant in make(photograph, family)
            if variant is not None
        ]
        assert distances == sorted(distances)
        assert all(least <= distance <= most for distance in distances), (photograph, distances)


@pytest.mark.parametrize("family", SAME, ids=name_of)
def test_what_must_not_matter_is_in_no_pixel_and_no_word(family, make):
    kept = samples()["remove-patch"]
    for variant in filter(None, make("remove-patch", family)):
        assert np.array_equal(variant.sample.edited.pixels, kept.edited.pixels)
        assert variant.sample.instruction == kept.instruction


@pytest.mark.parametrize("family", [*LOWER, *EQUAL], ids=name_of)
def test_amounts_between_severities_have_variants(family: Family) -> None:
    maker = TrialMaker([samples()[name] for name in PHOTOGRAPHS], [family])
    edit = maker.audited(0)
    amounts = [severity.amount for severity in family.severities]
    for share in (0.1, 0.35, 0.8):
        variant = family.vary(edit, amounts[0] + share * (amounts[-1] - amounts[0]))
        assert variant is None or variant.sample.edited.pixels.dtype == np.uint8


def asked(instruction: str, plan: EditPlan | None = None) -> AuditedEdit:
    return AuditedEdit(replace(samples()["blue-eyes"], instruction=instruction, plan=plan, task=None, group=""))


@pytest.mark.parametrize(
    "instruction",
    [
        "Replace the cat with a dog",
        "Remove the collar",
        "Change the color of the eyes to blue",
        "what if that cat was reading the menu of a café, with a spoon in its paw",
    ],
)
def test_other_requests_leave_every_family_of_the_whole_picture(instruction: str) -> None:
    edit = asked(instruction)
    restricted = [family for family in FAMILIES if WHOLE_PICTURE & set(family.unless_requested)]
    assert len(restricted) >= 20
    for family in restricted:
        amount = family.severities[2].amount
        assert (family.variant(edit, amount) is None) == (family.vary(edit, amount) is None), family.name


def test_a_plan_says_what_an_instruction_in_another_language_asks_for() -> None:
    (blurred,), (mirrored,) = (select_families([name]) for name in ("blurred", "mirrored"))
    edit = asked("把整张图片变模糊", EditPlan((PlannedOperation("filter", value="blurred"),), scope="whole"))
    assert blurred.variant(edit, 0.02) is None
    assert mirrored.variant(edit, 0) is not None


def without_much(what: str) -> Pixels:
    photograph = samples()["blue-eyes"].edited.pixels
    if what == "grey":
        return np.repeat(photograph[..., 1:2], 3, axis=2)
    if what == "symmetric":
        return np.hstack([photograph, photograph[:, ::-1]])
    return np.full((300, 400, 3), 90 if what == "flat" else 0, np.uint8)


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("grey", ["desaturated", "over-saturated", "channels-swapped"]),
        ("symmetric", ["mirrored"]),
        ("flat", ["blank", "blurred", "mirrored", "warped", "cropped", "tiled", "shuffled", "rotated", "pixelated"]),
        ("black", ["underexposed", "overexposed", "vignette", "letterboxed"]),
    ],
)
def test_damage_that_nobody_sees_makes_no_variant(what: str, names: Sequence[str]) -> None:
    edit = AuditedEdit(replace(samples()["blue-eyes"], edited=Image.of(without_much(what))))
    for family in select_families(names):
        assert family.variant(edit, family.severities[0].amount) is None, family.name
