"""Experts for SceneEdit images, by role. They use pixels alone."""

from __future__ import annotations

from ...reward import Expert
from ...reward.experts.annotated import Annotated
from ...reward.experts.pixel_differences import PixelDifferences
from ...reward.experts.pixel_features import PixelFeatures
from ...reward.experts.upscalers import Lanczos
from ...reward.planners.rule_planner import RulePlanner
from .experts.judge import SceneJudge
from .experts.perception_experts import (
    SceneChanges,
    SceneDetector,
    SceneEditPreference,
    SceneJointEmbedding,
    ScenePreference,
    SceneReader,
    SceneSegmenter,
)


def scene_experts() -> dict[str, Expert]:
    """Role -> expert, new objects: enough for every metric, without a download.

    Detector, judge, reader, segmenter and preference are SceneEdit's own, and share one analysis of each image. Images
    are compared and enlarged by the same experts as elsewhere.
    """
    pixels, preference = PixelFeatures(), ScenePreference()
    return {
        "detector": SceneDetector(),
        "judge": SceneJudge(),
        "reader": SceneReader(),
        "segmenter": SceneSegmenter(),
        "preference": preference,
        "preference.edit": SceneEditPreference(),
        "quality": preference,
        "aesthetics": preference,
        "enhancer": Lanczos(),
        "matcher": Annotated(),
        "planner": RulePlanner(),
        "changes": SceneChanges(),
        "differences": PixelDifferences(),
        "features": pixels,
        "features.clip": SceneJointEmbedding(),
        "pixels": pixels,
    }
