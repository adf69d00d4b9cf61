"""SceneBag: pictures and texts in one space, by what is seen in the ones and named in the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ....reward import Abstention, Expert, Image
from ....reward.query import Embed, EmbedText, Outcome, Vectors
from ..words import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN
from .phrases import names_in
from .sights import Looker, visibility

_KINDS = (*SHAPES, SIGN)
_SURFACES = ("", *MATERIALS)
_SURFACE = 0.5
"""Weight of what a thing is made of, beside 1 for what it is and in which colour."""


class SceneBag(Expert):
    """Answers `Embed` (the class token) and `EmbedText`, as CLIP does for photographs: it stands in for CLIP here.

    A vector counts coloured kinds of things, materials, and backdrops: what is seen of them by how surely, what is
    named by once a name. Places and letters do not count. Abstains on other regions, and on texts that name nothing.
    """

    kinds = (Embed, EmbedText)
    id = "scene-bag@1"

    def __init__(self, looker: Looker | None = None) -> None:
        self._looker = looker or Looker()

    def __call__(self, queries: Sequence[Embed | EmbedText]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Embed | EmbedText) -> Vectors | Abstention:
        if isinstance(query, EmbedText):
            vector = _named(query.text)
            if not vector.any():
                return Abstention(f"a scene bag knows nothing of what is named in {query.text!r:.80}")
            return _vectors([vector])
        if any(region.pool != "cls" or region.exclude or region.inside for region in query.regions):
            return Abstention("a scene bag has no patches: ask for the class token of the whole picture")
        return _vectors([self._seen(query.image)] * len(query.regions))

    def _seen(self, image: Image) -> NDArray[np.float64]:
        sight = self._looker.see(image)
        things = np.zeros((len(_KINDS), len(COLOURS)))
        surfaces = np.zeros(len(_SURFACES))
        for one in sight.seen:
            kinds = np.array([one.shapes.get(kind, 0.0) for kind in _KINDS]) * visibility(one)
            things += np.outer(kinds, [one.colours[colour] for colour in COLOURS])
            surfaces += kinds.max() * np.array([one.materials[material] for material in _SURFACES])
        return _joined(things, surfaces, np.array([sight.backdrop[kind] for kind in BACKDROPS]))


def _named(text: str) -> NDArray[np.float64]:
    things = np.zeros((len(_KINDS), len(COLOURS)))
    surfaces = np.zeros(len(_SURFACES))
    for name in names_in(text):
        if name.kind in _KINDS:
            colours = [COLOURS.index(name.colour)] if name.colour else range(len(COLOURS))
            things[_KINDS.index(name.kind), colours] += 1 / len(colours)
            surfaces[_SURFACES.index(name.material)] += 1
    plain = text.casefold()
    return _joined(things, surfaces, np.array([float(kind in plain) for kind in BACKDROPS]))


def _joined(
    things: NDArray[np.float64], surfaces: NDArray[np.float64], backdrop: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.concatenate([things.ravel(), _SURFACE * surfaces, backdrop])


def _vectors(rows: Sequence[NDArray[np.float64]]) -> Vectors:
    return Vectors(np.stack(rows).astype(np.float32), np.ones(len(rows), np.int64))
