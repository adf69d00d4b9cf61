"""The mean over all dimensions of I2I-Bench that apply to a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

from ...card import Card
from ...engine.program import Program
from ...queries.prompts import Prompts
from ...sample import EditSample
from ...score import Score
from ..compose import Metric, WeightedMean
from .dimensions import DIMENSIONS, PACKAGE, DimensionMetric, FiveLevelRating, Pipeline, QuestionSet, YesNoRating
from .specialists import OutsideSimilarity, RegionSimilarity, SpecialistRating, SubjectExtraction, TextContentStyle

_KINDS: tuple[type[DimensionMetric], ...] = (
    *(FiveLevelRating, YesNoRating, QuestionSet, OutsideSimilarity, RegionSimilarity, TextContentStyle),
    *(SubjectExtraction, SpecialistRating),
)
PIPELINES: Mapping[Pipeline, type[DimensionMetric]] = MappingProxyType({kind.pipeline: kind for kind in _KINDS})
"""The metric of each pipeline."""

SYSTEM_PROMPTS: Mapping[str, bool] = MappingProxyType(
    {name: PIPELINES[dimension.pipeline].has_system_prompt for name, dimension in DIMENSIONS.items()}
)
"""Dimension -> whether the paper marks a part of its prompt as a system prompt; in the order of `DIMENSIONS`."""
_NAME = "i2i-overall"


@dataclass(frozen=True)
class I2IBenchOverall:
    """The mean over the dimensions that apply to a sample, of one source or of several; `parts` has them.

    Dimensions that are not applicable, which the inputs alone decide, are left out. If one fails or abstains, so does
    the whole. The paper's Overall is the mean over all values of all prompts (appendix D), not the mean of these means.

    Args:
        excluded_dimensions: Dimensions to leave out for all samples, such as those without an expert.
        judge_only: See `DimensionMetric`.
        prompts: See `DimensionMetric`.
        paper: See `DimensionMetric`.
    """

    excluded_dimensions: tuple[str, ...] = ()
    judge_only: bool = False
    prompts: str | None = None
    paper: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "excluded_dimensions", tuple(self.excluded_dimensions))  # a spec may have a list
        for name in self.excluded_dimensions:
            if not any(dimension.is_called(name) for dimension in DIMENSIONS.values()):
                raise ValueError(f"no dimension of I2I-Bench is called {name!r}: they are {', '.join(DIMENSIONS)}")
        if len(self._means) < 2:
            raise ValueError("excluded_dimensions leaves out every dimension: leave one in")

    @cached_property
    def card(self) -> Card:
        both = WeightedMean(self.parts, name=_NAME).card
        return replace(
            both,
            version=3,
            summary="good in every dimension of I2I-Bench that applies",
            source="I2I-Bench, sections 3.2 and 4.1, appendix D",
            failure_modes=(
                "Half of the dimensions are high where next to nothing was edited, and a mean makes up for that."
            ),
            aspect="overall",
        )

    @cached_property
    def signature(self) -> str:
        options = [
            *(["judge_only"] if self.judge_only else []),
            *(["paper=True"] if self.paper else []),
            *(f"excluded_dimensions={name}" for name in self.excluded_dimensions),
        ]
        return self.card.signature_with(options=[*options, *self.prompt_pack.options])

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from self._means[len(sample.sources) > 1](sample)
        return score.with_signature(self.signature)

    @cached_property
    def parts(self) -> Mapping[str, Metric]:
        """The metrics of all dimensions, of one source and of several."""
        return {
            name: PIPELINES[dimension.pipeline](
                name, judge_only=self.judge_only, prompts=self.prompts, paper=self.paper and SYSTEM_PROMPTS[name]
            )
            for name, dimension in DIMENSIONS.items()
            if dimension.in_overall and not any(map(dimension.is_called, self.excluded_dimensions))
        }

    @cached_property
    def prompt_pack(self) -> Prompts:
        """The prompts of its parts."""
        return Prompts(PACKAGE, self.prompts)

    @property
    def identity_options(self) -> dict[str, Any]:
        """See `queries.identity`."""
        return {"parts": self.parts}

    @cached_property
    def _means(self) -> Mapping[bool, WeightedMean]:
        """By whether there are several sources: the mean over their dimensions, if any is left."""
        parts: dict[bool, dict[str, Metric]] = {}
        for name, metric in self.parts.items():
            parts.setdefault(DIMENSIONS[name].multi, {})[name] = metric
        return {multi: WeightedMean(of_kind, name=_NAME) for multi, of_kind in parts.items()}


# -- the metric of each dimension, as its entry point names it --------------------------------------------------------

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

multi_aesthetic_quality = partial(SpecialistRating, "multi-aesthetic-quality")
multi_blending_naturalness = partial(FiveLevelRating, "multi-blending-naturalness")
multi_composition_interaction = partial(QuestionSet, "multi-composition-interaction")
multi_cross_source_attribute = partial(QuestionSet, "multi-cross-source-attribute")
multi_detail_fidelity = partial(RegionSimilarity, "multi-detail-fidelity")
multi_editing_artifacts = partial(FiveLevelRating, "multi-editing-artifacts")
multi_image_quality = partial(SpecialistRating, "multi-image-quality")
multi_instruction_following = partial(FiveLevelRating, "multi-instruction-following")
multi_inter_subject_consistency = partial(QuestionSet, "multi-inter-subject-consistency")
multi_non_edited_fidelity = partial(RegionSimilarity, "multi-non-edited-fidelity")
multi_physical_plausibility = partial(QuestionSet, "multi-physical-plausibility")
multi_spatial_accuracy = partial(YesNoRating, "multi-spatial-accuracy")
multi_subject_consistency = partial(RegionSimilarity, "multi-subject-consistency")
multi_subject_extraction = partial(SubjectExtraction, "multi-subject-extraction")
multi_text_content_style = partial(TextContentStyle, "multi-text-content-style")
multi_world_knowledge = partial(YesNoRating, "multi-world-knowledge")
