"""The metrics of the dimensions for edits of one picture, each by its name and with the options of its pipeline."""

from __future__ import annotations

from functools import partial

from .levels import FiveLevels, TwoLevels
from .questions import QuestionSet
from .similarity import OutsideSimilarity, RegionSimilarity
from .specialists import Specialist
from .text import TextContentStyle

action_state_change = partial(TwoLevels, "action-state-change")
aesthetic_quality = partial(Specialist, "aesthetic-quality")
blending_naturalness = partial(FiveLevels, "blending-naturalness")
composition_interaction = partial(QuestionSet, "composition-interaction")
editing_artifacts = partial(FiveLevels, "editing-artifacts")
image_quality = partial(Specialist, "image-quality")
instruction_following = partial(FiveLevels, "instruction-following")
local_attribute = partial(TwoLevels, "local-attribute")
non_edited_fidelity = partial(OutsideSimilarity, "non-edited-fidelity")
object_manipulation = partial(TwoLevels, "object-manipulation")
physical_plausibility = partial(QuestionSet, "physical-plausibility")
spatial_accuracy = partial(TwoLevels, "spatial-accuracy")
subject_identity = partial(RegionSimilarity, "subject-identity")
text_content_style = partial(TextContentStyle, "text-content-style")
world_knowledge = partial(TwoLevels, "world-knowledge")
