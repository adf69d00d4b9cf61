"""Mixtures of families over a base, the test that each is worse than its edit, and an editor used wrongly."""

from __future__ import annotations

import inspect
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import cv2
import numpy as np

from editcritic.cli.editor_spec import EditorSpec
from editcritic.reward import EditSample
from editcritic.reward.audit.audited_edit import AuditedEdit, EditAgain, Mask
from editcritic.reward.audit.family import Family, Severity
from editcritic.reward.image import Image, Pixels
from editcritic.verifiers import Editor

Region = Literal["whole", "changed", "outside", "checks", "left", "top"]
"""Where a mixture lies: everything; where the edit changed the source; all but that; every other of 8 x 8 fields; a
half."""

REGIONS: tuple[Region, ...] = get_args(Region)

MAX_COMPONENTS = 3

EDIT = ""
"""The base of a recipe that starts from the edit itself."""


@dataclass(frozen=True, slots=True)
class Component:
    """A family of a mixture. strength: from 0, its mildest severity, to 1, its strongest. seed: of what is random."""

    family: str
    strength: float
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Recipe:
    """components: at most `MAX_COMPONENTS`, in the order of their application. base: what the first is applied to: the
    edit (`EDIT`), or the name of a picture that an editor makes when it is used wrongly (`misuses`). region,
    opacity: where, and in (0, 1] how much, the result covers the edit.
    """

    components: tuple[Component, ...]
    base: str = EDIT
    region: Region = "whole"
    opacity: float = 1.0

    @property
    def families(self) -> frozenset[str]:
        return frozenset(component.family for component in self.components)

    def text(self, families: Mapping[str, Family]) -> str:
        """As in `blurred (4 of 512 px), then reencoded (JPEG 92); in checks; 60 % over the edit`.

        families: by name. A severity's label stands for the amounts nearest to it.
        """
        steps = [f"{one.family} ({_nearest(families[one.family], one.strength).label})" for one in self.components]
        parts = [", then ".join([*([self.base] if self.base else []), *steps])]
        if self.region != "whole":
            parts.append(_REGION_WORDS[self.region])
        if self.opacity < 1:
            parts.append(f"{self.opacity:.0%} over the edit")
        return "; ".join(parts)


_REGION_WORDS: Mapping[Region, str] = {
    "changed": "where the edit changed the source",
    "outside": "outside of what the edit changed",
    "checks": "in checks",
    "left": "in the left half",
    "top": "in the upper half",
}


def amount(family: Family, strength: float) -> float:
    """A family's amount at a strength in [0, 1]: its severities' amounts at 0, 0.5 and 1, and linear between them."""
    return float(np.interp(strength, (0.0, 0.5, 1.0), [severity.amount for severity in family.severities]))


def _nearest(family: Family, strength: float) -> Severity:
    return family.severities[round(2 * strength)]


# -- recipes drawn at random, and changed a little --------------------------------------------------------------------

_EQUAL_SHARE = 0.25  # of the components: harmless ones, which may get a mixture past a guard
_BASE_SHARE = 0.3  # of random recipes that start from what an editor made, if there is one
_WHOLE_SHARE = 0.6
_OPAQUE_SHARE = 0.6
_MIN_OPACITY = 0.2
_SEEDS = 16  # of each family, so that its mildest severity is made this often at most
_STEP = 0.15  # standard deviation of a change of a number


@dataclass(frozen=True)
class RecipeDraw:
    """Draws recipes of these families, `lower` and `equal` ones, and bases. Not all of them are valid: `Mixer.mix`."""

    families: Sequence[Family]
    bases: Sequence[str] = ()

    def random_recipe(self, rng: random.Random) -> Recipe:
        """One to three components; most of them over the whole edit."""
        base = rng.choice(self.bases) if self.bases and rng.random() < _BASE_SHARE else EDIT
        components = tuple(self._component(rng) for _ in range(rng.choice((1, 1, 2, 2, 3))))
        region = "whole" if rng.random() < _WHOLE_SHARE else rng.choice(REGIONS[1:])
        opacity = 1.0 if rng.random() < _OPAQUE_SHARE else rng.uniform(_MIN_OPACITY, 1.0)
        return Recipe(components, base, region, opacity)

    def mutated(self, rng: random.Random, recipe: Recipe) -> Recipe:
        """The recipe with one small change: a number moved, or a part added, left out, replaced or moved."""
        components = list(recipe.components)
        index = rng.randrange(len(components)) if components else 0
        draw = rng.random()
        if draw < 0.35 and components:
            moved = min(1.0, max(0.0, components[index].strength + rng.gauss(0, _STEP)))
            components[index] = replace(components[index], strength=moved)
        elif draw < 0.42 and components:
            components[index] = replace(components[index], seed=_seed(rng))
        elif draw < 0.58 and len(components) < MAX_COMPONENTS:
            components.insert(rng.randint(0, len(components)), self._component(rng))
        elif draw < 0.68 and components:
            components.pop(index)
        elif draw < 0.76 and components:
            components[index] = self._component(rng)
        elif draw < 0.84:
            return replace(recipe, region=rng.choice(REGIONS))
        elif draw < 0.94:
            moved = min(1.0, max(_MIN_OPACITY, recipe.opacity + rng.gauss(0, _STEP)))
            return replace(recipe, opacity=moved)
        elif self.bases and draw < 0.97:
            return replace(recipe, base=rng.choice((EDIT, *self.bases)))
        else:
            rng.shuffle(components)
        return replace(recipe, components=tuple(components))

    def _component(self, rng: random.Random) -> Component:
        equal = rng.random() < _EQUAL_SHARE
        chosen = [one for one in self.families if (one.relation == "equal") == equal] or self.families
        return Component(rng.choice(chosen).name, rng.random(), _seed(rng))


def _seed(rng: random.Random) -> int:
    return rng.randrange(_SEEDS)


_WRONG_SHARE = 0.5
"""Of the distance between source and edit, where they differ: a picture nearer to the edit may show the asked change.
It is also what the mildest blend with the source leaves."""

_CHECKS = 8


@dataclass(frozen=True, slots=True)
class Mixture:
    """A picture that is worse than the edit. damage: the smallest distance by which it is, as a multiple of what is
    needed; at least 1.
    """

    picture: Image
    damage: float

    @property
    def digest(self) -> str:
        return self.picture.digest


@dataclass
class Mixer:
    """Makes the mixtures of one edit.

    families: those that may be mixed: `lower` and `equal` ones. misuses: of an editor; each is asked
    once, when a recipe first needs it. editor_errors, family_errors: what it and families raised, and how often; what
    they fail for is no mixture.
    """

    edit: AuditedEdit
    families: Sequence[Family]
    misuses: Sequence[Misuse] = ()
    editor_errors: Counter[str] = field(default_factory=Counter)
    family_errors: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._families = {family.name: family for family in self.families if family.relation in ("lower", "equal")}
        self._misuses = {misuse.name: misuse for misuse in self.misuses}
        self._bases: dict[str, AuditedEdit | None] = {EDIT: replace(self.edit, edit_again=None)}
        self._least: dict[tuple[str, str, int], float | None] = {}

    def mix(self, recipe: Recipe) -> Mixture | None:
        """The picture of a recipe; None where a part does not apply to this edit, or where it may not be worse.

        Why a mixture is worse than the edit, which has what was asked for and all the rest:

        - It has a family whose variants are. Amounts are not below the mildest severity, no family occurs twice (two
          mirrors are none).
        - A later part, the region or the opacity may undo an earlier one, as exposure up and down do. So the picture is
          made again without the harmless parts, and must be at least as far from the edit as the mildest severity
          *alone* of each of its worse parts, in mean absolute difference; for families that damage `following`, where
          the edit changed the source: restoring the rest of the source would mend an edit rather than harm it.
        - A picture by an editor that was asked wrongly is worse by itself, if it is at least half as far from the edit
          as the source is, where the edit changed the source.
        - A picture by an editor with too few steps, or of an edit made twice, may be as good as the edit. It takes the
          edit's place: the rest is measured from it, and mixed with it.
        """
        misuse = self._misuses.get(recipe.base)
        base = self._base(recipe.base)
        if base is None or not self._is_valid(recipe, misuse):
            return None
        wrong = misuse is not None and misuse.is_wrong
        under = self._edit if wrong else base
        picture = self._made(recipe, base, under, recipe.components)
        if picture is None or picture.digest == under.sample.edited.digest:
            return None
        worse = tuple(one for one in recipe.components if self._families[one.family].relation == "lower")
        bare = picture if worse == recipe.components else self._made(recipe, base, under, worse)
        if bare is None:
            return None
        damage = self._wrongness(bare) if wrong else self._damage(bare, under, worse)
        return Mixture(picture, damage) if damage >= 1 else None

    @property
    def applicable(self) -> list[Family]:
        """The families that change this edit's picture."""
        return [one for one in self._families.values() if self._least_distance(Component(one.name, 0.0), self._edit)]

    @property
    def _edit(self) -> AuditedEdit:
        edit = self._bases[EDIT]
        assert edit is not None  # there from the start
        return edit

    def _is_valid(self, recipe: Recipe, misuse: Misuse | None) -> bool:
        if len(recipe.families) != len(recipe.components) or len(recipe.components) > MAX_COMPONENTS:
            return False
        families = [self._families.get(name) for name in recipe.families]
        if None in families:
            return False
        if misuse is not None and misuse.is_wrong:
            return True
        return any(family is not None and family.relation == "lower" for family in families)

    def _base(self, name: str) -> AuditedEdit | None:
        """The edit, or what an editor makes instead at the same size."""
        if name not in self._bases:
            self._bases[name] = self._misused(self._misuses[name]) if name in self._misuses else None
        return self._bases[name]

    def _misused(self, misuse: Misuse) -> AuditedEdit | None:
        size = self.edit.sample.edited.size
        try:
            picture = Image.of(misuse.editor(misuse.request)).resized(*size)
        except Exception as error:  # noqa: BLE001  (whatever an editor of anybody's raises)
            self.editor_errors[f"{misuse.name}: {type(error).__name__}: {error}"[:200]] += 1
            return None
        return replace(self._edit, sample=replace(self.edit.sample, edited=picture))

    def _made(
        self, recipe: Recipe, base: AuditedEdit, under: AuditedEdit, components: Sequence[Component]
    ) -> Image | None:
        """The chain of components over the base, mixed with what lies under it."""
        picture: Image | None = base.sample.edited
        for component in components:
            if picture is not None:
                picture = self._applied(component, base, picture)
        if picture is None or (recipe.region == "whole" and recipe.opacity >= 1):
            return picture
        over = picture.pixels
        if recipe.opacity < 1:
            over = np.asarray(cv2.addWeighted(over, recipe.opacity, under.after, 1 - recipe.opacity, 0), np.uint8)
        inside = _region(recipe.region, under)
        return Image.of(np.where(inside[..., None], over, under.after))

    def _applied(self, component: Component, base: AuditedEdit, picture: Image) -> Image | None:
        """One family applied to a picture that covers the base; None where it does nothing, or changes the size."""
        family = self._families[component.family]
        try:
            variant = family.variant(base.covered(picture, component.seed), amount(family, component.strength))
        except Exception as error:  # noqa: BLE001  (of a family of anybody's)
            self.family_errors[f"{family.name}: {type(error).__name__}: {error}"[:200]] += 1
            return None
        if variant is None:
            return None
        result = variant.sample.edited
        return None if result.size != picture.size or result.digest == picture.digest else result

    def _damage(self, picture: Image, under: AuditedEdit, worse: Sequence[Component]) -> float:
        """The least distance of a picture from the edit, as a multiple of that of each component at its mildest."""
        damages = []
        for component in worse:
            least = self._least_distance(component, under)
            if not least:
                return 0.0
            damages.append(self._distance(picture, component, under) / least)
        return min(damages, default=0.0)

    def _least_distance(self, component: Component, under: AuditedEdit) -> float | None:
        """How far a family's mildest severity alone is from an edit; None where it does not apply to it."""
        key = (under.sample.edited.digest, component.family, component.seed)
        if key not in self._least:
            picture = self._applied(replace(component, strength=0.0), under, under.sample.edited)
            self._least[key] = None if picture is None else self._distance(picture, component, under)
        return self._least[key]

    def _distance(self, picture: Image, component: Component, under: AuditedEdit) -> float:
        inside = under.changed if self._families[component.family].damages == "following" else None
        return _mean_difference(picture.pixels, under.after, inside)

    def _wrongness(self, picture: Image) -> float:
        edit = self._edit
        needed = _WRONG_SHARE * _mean_difference(edit.before, edit.after, edit.changed)
        return _mean_difference(picture.pixels, edit.after, edit.changed) / needed if needed else 0.0


def _mean_difference(first: Pixels, second: Pixels, inside: Mask | None = None) -> float:
    """Mean absolute difference, in grey levels; 0 for an empty mask."""
    mask = None if inside is None else inside.astype(np.uint8)
    return float(sum(cv2.mean(cv2.absdiff(first, second), mask)[:3]) / 3)


def _region(region: Region, edit: AuditedEdit) -> Mask:
    """Where a mixture lies, H x W."""
    height, width = edit.after.shape[:2]
    rows, columns = np.ogrid[0:height, 0:width]
    match region:
        case "whole":
            return np.ones((height, width), np.bool_)
        case "changed":
            return edit.changed
        case "outside":
            return ~edit.changed
        case "checks":
            return np.asarray((rows * _CHECKS // height + columns * _CHECKS // width) % 2 == 1)
        case "left":
            return np.broadcast_to(columns < width // 2, (height, width))
        case "top":
            return np.broadcast_to(rows < height // 2, (height, width))


_UNRELATED = "A wooden sailing boat in a bottle on a shelf."
_SAME_ASK = 0.5  # of the words of two instructions: with so many in common they may ask for the same


@dataclass(frozen=True, slots=True)
class Misuse:
    """One way to use an editor wrongly. name: as in recipes. request: what the editor gets, its `edited` being the
    source. is_wrong: the picture cannot show what its sample asks for; without it, it may be as good as the edit.
    """

    name: str
    request: EditSample
    editor: EditAgain
    is_wrong: bool


def misuses(edit: AuditedEdit, edit_again: EditAgain | None, weakened: Mapping[str, EditAgain]) -> list[Misuse]:
    """All ways for an edit. weakened: editors with few steps, without guidance and so on, by what they lack."""
    sample = edit.sample
    ways: list[Misuse] = []
    if edit_again is not None:
        if (other := _other_instruction(edit)) is not None:
            ways.append(Misuse("asked for another edit", _request(sample, other), edit_again, is_wrong=True))
        ways += [
            Misuse("asked for nothing", _request(sample, ""), edit_again, is_wrong=True),
            Misuse("asked for something unrelated", _request(sample, _UNRELATED), edit_again, is_wrong=True),
            Misuse(
                "edited twice",
                EditSample(sample.id, sample.instruction, (sample.edited, *sample.sources[1:]), sample.edited),
                edit_again,
                is_wrong=False,
            ),
        ]
    ways += [
        Misuse(name, _request(sample, sample.instruction), editor, is_wrong=False) for name, editor in weakened.items()
    ]
    return ways


def _request(sample: EditSample, instruction: str) -> EditSample:
    return EditSample(sample.id, instruction, sample.sources, sample.source, history=sample.history)


def _other_instruction(edit: AuditedEdit) -> str | None:
    """Another sample's, with hardly a word in common: two sources may have much the same instruction."""
    words = _words(edit.sample.instruction)
    for other in edit.others:
        common, both = words & _words(other.instruction), words | _words(other.instruction)
        if len(common) < _SAME_ASK * len(both):
            return other.instruction
    return None


def _words(instruction: str) -> set[str]:
    return set(instruction.casefold().split())


# -- the editor -------------------------------------------------------------------------------------------------------

_SEED = 0

_WEAKENED: Mapping[str, Mapping[str, Any]] = {
    "edited in 2 steps": {"num_inference_steps": 2},
    "edited without guidance": {"guidance_scale": 1.0, "true_cfg_scale": 1.0, "image_guidance_scale": 1.0},
}


@dataclass(frozen=True)
class AuditEditor:
    """edit_again: the editor; None without one. weakened: the same with less, by what it lacks."""

    edit_again: EditAgain | None = None
    weakened: Mapping[str, EditAgain] = field(default_factory=dict)


def audit_editor(spec: EditorSpec | None, samples: Sequence[EditSample]) -> AuditEditor:
    """Loaded, after a check that it can edit the samples. Raises `InputError`."""
    if spec is None:
        return AuditEditor()
    for sample in samples:
        spec.check(sample)
    weakened = {name: replace(spec, pipeline_args=arguments) for name, arguments in weakened_arguments(spec).items()}
    return AuditEditor(_edit_again(spec.load()), {name: _edit_again(one.load()) for name, one in weakened.items()})


def weakened_arguments(spec: EditorSpec) -> dict[str, dict[str, Any]]:
    """By what is lacking, the arguments of calls of the same pipeline, as far as it takes them; none for a function."""
    loaded = spec.load_object()
    if isinstance(loaded, Editor):
        return {}
    calls = [vars(base)["__call__"] for base in type(loaded).__mro__ if "__call__" in vars(base)]
    taken = {name for call in calls if inspect.isfunction(call) for name in inspect.signature(call).parameters}
    known = {name: {key: one[key] for key in one.keys() & taken} for name, one in _WEAKENED.items()}
    return {name: {**spec.pipeline_args, **arguments} for name, arguments in known.items() if arguments}


def _edit_again(editor: Editor) -> EditAgain:
    def edit(sample: EditSample) -> Image:
        history = [sample.history] if sample.history else None
        return editor.edit([sample.sources], [sample.instruction], [_SEED], history=history)[0]

    return edit
