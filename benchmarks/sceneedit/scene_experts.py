"""Everybody who can be asked about SceneEdit pictures, by role. All of them look at pixels alone."""

from __future__ import annotations

from ...reward import Expert
from ...reward.experts.annotated import Annotated
from ...reward.experts.differences import Differences
from ...reward.experts.lanczos import Lanczos
from ...reward.experts.pixels import PixelFeatures
from .experts.bag import SceneBag
from .experts.detector import SceneDetector
from .experts.edit_preference import SceneEditPreference
from .experts.judge import SceneJudge
from .experts.preference import ScenePreference
from .experts.reader import SceneReader
from .experts.segmenter import SceneSegmenter
from .experts.sights import Looker


def experts() -> dict[str, Expert]:
    """Role -> expert, new ones: enough for every metric there is, without a download.

    Those that know this world (detector, judge, reader, segmenter, preference) are SceneEdit's own, and the first four
    look at each picture once together; pictures are compared and enlarged by the same experts as anywhere else.
    """
    pixels, looker, preference = PixelFeatures(), Looker(), ScenePreference()
    return {
        "detector": SceneDetector(looker),
        "judge": SceneJudge(looker),
        "reader": SceneReader(looker),
        "segmenter": SceneSegmenter(looker),
        "preference": preference,
        "preference.edit": SceneEditPreference(looker),
        "quality": preference,
        "aesthetics": preference,
        "enhancer": Lanczos(),
        "matcher": Annotated(),
        "differences": Differences(),
        "features": pixels,
        "features.clip": SceneBag(looker),
        "pixels": pixels,
    }
