"""The metrics of the dimensions for images composed of several sources, by name, with the options of their pipelines.

Editing Artifacts (appendix F.2.1) is included, although the paper's tables omit it.
"""

from __future__ import annotations

from functools import partial

from .extraction import SubjectExtraction
from .level_ratings import FiveLevelRating, YesNoRating
from .questions import QuestionSet
from .similarity import RegionSimilarity
from .specialists import SpecialistRating
from .text_content_style import TextContentStyle

aesthetic_quality = partial(SpecialistRating, "multi-aesthetic-quality")
blending_naturalness = partial(FiveLevelRating, "multi-blending-naturalness")
composition_interaction = partial(QuestionSet, "multi-composition-interaction")
cross_source_attribute = partial(QuestionSet, "multi-cross-source-attribute")
detail_fidelity = partial(RegionSimilarity, "multi-detail-fidelity")
editing_artifacts = partial(FiveLevelRating, "multi-editing-artifacts")
image_quality = partial(SpecialistRating, "multi-image-quality")
instruction_following = partial(FiveLevelRating, "multi-instruction-following")
inter_subject_consistency = partial(QuestionSet, "multi-inter-subject-consistency")
non_edited_fidelity = partial(RegionSimilarity, "multi-non-edited-fidelity")
physical_plausibility = partial(QuestionSet, "multi-physical-plausibility")
spatial_accuracy = partial(YesNoRating, "multi-spatial-accuracy")
subject_consistency = partial(RegionSimilarity, "multi-subject-consistency")
subject_extraction = partial(SubjectExtraction, "multi-subject-extraction")
text_content_style = partial(TextContentStyle, "multi-text-content-style")
world_knowledge = partial(YesNoRating, "multi-world-knowledge")
