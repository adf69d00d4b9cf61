"""Mixtures of families as pictures, and the test that each is worse than its edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cv2
import numpy as np

from editcritic.reward.audit.audited_edit import AuditedEdit, Mask
from editcritic.reward.audit.family import Family
from editcritic.reward.image import Image, Pixels

from .misused_editor import Misuse
from .recipe import EDIT, MAX_COMPONENTS, Component, Recipe, Region, amount

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
