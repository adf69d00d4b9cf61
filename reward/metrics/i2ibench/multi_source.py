"""The metrics of the dimensions for pictures made out of several, each by its name, with its pipeline's options.

Editing Artifacts (appendix F.2.1) is there too, though the paper's tables leave it out.
"""

from __future__ import annotations

from functools import partial

from .extraction import SubjectExtraction
from .levels import FiveLevels, TwoLevels
from .questions import QuestionSet
from .similarity import RegionSimilarity
from .specialists import Specialist
from .text import TextContentStyle

aesthetic_quality = partial(Specialist, "multi-aesthetic-quality")
blending_naturalness = partial(FiveLevels, "multi-blending-naturalness")
composition_interaction = partial(QuestionSet, "multi-composition-interaction")
cross_source_attribute = partial(QuestionSet, "multi-cross-source-attribute")
detail_fidelity = partial(RegionSimilarity, "multi-detail-fidelity")
editing_artifacts = partial(FiveLevels, "multi-editing-artifacts")
image_quality = partial(Specialist, "multi-image-quality")
instruction_following = partial(FiveLevels, "multi-instruction-following")
inter_subject_consistency = partial(QuestionSet, "multi-inter-subject-consistency")
non_edited_fidelity = partial(RegionSimilarity, "multi-non-edited-fidelity")
physical_plausibility = partial(QuestionSet, "multi-physical-plausibility")
spatial_accuracy = partial(TwoLevels, "multi-spatial-accuracy")
subject_consistency = partial(RegionSimilarity, "multi-subject-consistency")
subject_extraction = partial(SubjectExtraction, "multi-subject-extraction")
text_content_style = partial(TextContentStyle, "multi-text-content-style")
world_knowledge = partial(TwoLevels, "multi-world-knowledge")
