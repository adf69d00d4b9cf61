"""SceneJointEmbedding: images and texts in one space, by detected and by named objects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ....reward import Expert, Image
from ....reward.queries import Abstention
from ....reward.queries.kinds import Embed, Embeddings, EmbedText, Outcome
from ..vocabulary import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN
from .object_names import find_names
from .perception import PerceptionCache, visibility

_KINDS = (*SHAPES, SIGN)
_SURFACES = ("", *MATERIALS)
_SURFACE = 0.5
"""Weight of materials, relative to 1 for shapes and colours."""


class SceneJointEmbedding(Expert):
    """Answers `Embed` (the class token) and `EmbedText`: it stands in for CLIP.

    A vector counts coloured shapes, materials and backdrops: of an image by their probabilities, of a text once per
    name. Places and letters do not count. Abstains on other regions, and on texts without a known name.
    """

    kinds = (Embed, EmbedText)
    id = "scene-bag@1"

    def __init__(self) -> None:
        self._perception = PerceptionCache.shared()

    def __call__(self, queries: Sequence[Embed | EmbedText]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Embed | EmbedText) -> Embeddings | Abstention:
        if isinstance(query, EmbedText):
            vector = _embed_names(query.text)
            if not vector.any():
                return Abstention(f"a scene bag knows nothing of what is named in {query.text!r:.80}")
            return _vectors([vector])
        if any(region.pool != "cls" or region.exclude or region.inside for region in query.regions):
            return Abstention("a scene bag has no patches: ask for the class token of the whole picture")
        return _vectors([self._embed_image(query.image)] * len(query.regions))

    def _embed_image(self, image: Image) -> NDArray[np.float64]:
        perceived = self._perception.perceive(image)
        objects = np.zeros((len(_KINDS), len(COLOURS)))
        surfaces = np.zeros(len(_SURFACES))
        for obj in perceived.objects:
            kinds = np.array([obj.shapes.get(kind, 0.0) for kind in _KINDS]) * visibility(obj)
            objects += np.outer(kinds, [obj.colours[colour] for colour in COLOURS])
            surfaces += kinds.max() * np.array([obj.materials[material] for material in _SURFACES])
        return _concatenate(objects, surfaces, np.array([perceived.backdrop_probabilities[kind] for kind in BACKDROPS]))


def _embed_names(text: str) -> NDArray[np.float64]:
    objects = np.zeros((len(_KINDS), len(COLOURS)))
    surfaces = np.zeros(len(_SURFACES))
    for name in find_names(text):
        if name.kind in _KINDS:
            colours = [COLOURS.index(name.colour)] if name.colour else range(len(COLOURS))
            objects[_KINDS.index(name.kind), colours] += 1 / len(colours)
            surfaces[_SURFACES.index(name.material)] += 1
    plain = text.casefold()
    return _concatenate(objects, surfaces, np.array([float(kind in plain) for kind in BACKDROPS]))


def _concatenate(
    objects: NDArray[np.float64], surfaces: NDArray[np.float64], backdrop: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.concatenate([objects.ravel(), _SURFACE * surfaces, backdrop])


def _vectors(rows: Sequence[NDArray[np.float64]]) -> Embeddings:
    return Embeddings(np.stack(rows).astype(np.float32), np.ones(len(rows), np.int64))
