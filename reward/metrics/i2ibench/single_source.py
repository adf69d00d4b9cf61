"""The metrics of the dimensions for edits of one image, by name, with the options of their pipelines."""

from __future__ import annotations

from functools import partial

from .level_ratings import FiveLevelRating, YesNoRating
from .questions import QuestionSet
from .similarity import OutsideSimilarity, RegionSimilarity
from .specialists import SpecialistRating
from .text_content_style import TextContentStyle

action_state_change = partial(YesNoRating, "action-state-change")
aesthetic_quality = partial(SpecialistRating, "aesthetic-quality")
blending_naturalness = partial(FiveLevelRating, "blending-naturalness")
composition_interaction = partial(QuestionSet, "composition-interaction")
editing_artifacts = partial(FiveLevelRating, "editing-artifacts")
image_quality = partial(SpecialistRating, "image-quality")
instruction_following = partial(FiveLevelRating, "instruction-following")
local_attribute = partial(YesNoRating, "local-attribute")
non_edited_fidelity = partial(OutsideSimilarity, "non-edited-fidelity")
object_manipulation = partial(YesNoRating, "object-manipulation")
physical_plausibility = partial(QuestionSet, "physical-plausibility")
spatial_accuracy = partial(YesNoRating, "spatial-accuracy")
subject_identity = partial(RegionSimilarity, "subject-identity")
text_content_style = partial(TextContentStyle, "text-content-style")
world_knowledge = partial(YesNoRating, "world-knowledge")
