"""The dimensions of I2I-Bench, in one table: names of tables 1 and 2, titles and quotas of tables 4 and 5."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ...card import Aspect
from ...sample import EditSample

Pipeline = Literal["five levels", "two levels", "questions", "outside", "regions", "text", "extraction", "specialist"]


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension.

    name: as in `object-manipulation` and `multi-subject-extraction`. title: full name. meaning: of a high value. quota:
    number of the paper's 500 prompts that it is scored on; None if the paper's tables omit it, and then it is not in
    the overall score. section: of the paper, for its pipeline. aliases: other names in the paper. required_field: the
    sample field it requires besides images and instruction.
    """

    name: str
    title: str
    meaning: str
    pipeline: Pipeline
    quota: int | None
    aspect: Aspect
    section: str
    aliases: tuple[str, ...] = ()
    required_field: Literal["", "hint", "target_text"] = ""

    @property
    def multi(self) -> bool:
        """Whether it is about images composed of several sources."""
        return self.name.startswith("multi-")

    @property
    def in_overall(self) -> bool:
        return self.quota is not None

    def is_called(self, name: str) -> bool:
        """Whether `name` is one of its names, ignoring case and punctuation; names of several sources may start with
        `multi`.
        """
        short_name = self.name.removeprefix("multi-")
        plain_names = {short_name, *map(_plain, (self.title, *self.aliases))}
        plain = _plain(name)
        return plain in plain_names or (self.multi and plain.removeprefix("multi-") in plain_names)

    def accepts(self, sample: EditSample) -> bool:
        """Whether the number of sources of a sample fits."""
        return self.multi == (len(sample.sources) > 1)

    def not_applicable_reason(self, sample: EditSample) -> str:
        """Why it does not apply to a sample; empty if it does. Depends on the sample's inputs only, not on the edit."""
        if not self.accepts(sample):
            expected = "several pictures" if self.multi else "one picture"
            return f"{self.title} is about edits of {expected}, and the sample has {len(sample.sources)}"
        if sample.dimensions is not None and not any(map(self.is_called, sample.dimensions)):
            return f"{self.title} is none of the sample's dimensions ({', '.join(sample.dimensions) or 'it has none'})"
        if self.required_field and not getattr(sample, self.required_field).strip():
            return f"{self.title} needs the sample's {self.required_field}, and it has none"
        return ""


def unknown_dimensions(sample: EditSample) -> tuple[str, ...]:
    """The sample's dimensions that I2I-Bench does not have; a misspelled one would be ignored silently."""
    return tuple(
        name
        for name in sample.dimensions or ()
        if not any(dimension.is_called(name) for dimension in DIMENSIONS.values())
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-").removeprefix("i2i-")


_SINGLE = (
    Dimension(
        "action-state-change",
        "Action/State Change Accuracy",
        "actions, poses and states have changed as the instruction says",
        "two levels",
        86,
        "following",
        "section 3.2.1, appendix F.1.2",
    ),
    Dimension(
        "aesthetic-quality",
        "Aesthetic Quality",
        "the edited picture is beautiful in composition, colour and light",
        "specialist",
        500,
        "quality",
        "section 3.2.1, appendix F.1.1",
    ),
    Dimension(
        "blending-naturalness",
        "Blending Naturalness",
        "what was edited is one with its surroundings, without a seam",
        "five levels",
        500,
        "quality",
        "section 3.2.1, appendix F.1.1",
    ),
    Dimension(
        "composition-interaction",
        "Composition & Interaction",
        "what is new or changed has a sensible place, size and perspective, and touches other things believably",
        "questions",
        350,
        "quality",
        "section 3.2.1, appendix F.1.2",
    ),
    Dimension(
        "editing-artifacts",
        "Editing Artifacts",
        "the editing has brought in no flaws, such as broken structures and unnatural textures",
        "five levels",
        500,
        "quality",
        "section 3.2.1, appendix F.1.1",
        aliases=("Generative/Editing Artifacts",),
    ),
    Dimension(
        "image-quality",
        "Image Quality",
        "the edited picture is technically good, such as sharp and free of noise",
        "specialist",
        500,
        "quality",
        "section 3.2.1, appendix F.1.1",
        aliases=("Overall Image Quality",),
    ),
    Dimension(
        "instruction-following",
        "Instruction Following (Macro)",
        "the instruction as a whole was understood and carried out",
        "five levels",
        500,
        "following",
        "section 3.2.1, appendix F.1.1",
    ),
    Dimension(
        "local-attribute",
        "Local Attribute Accuracy",
        "attributes such as colour and material have changed as the instruction says",
        "two levels",
        282,
        "following",
        "section 3.2.1, appendix F.1.2",
        aliases=("Local Attribute Editing",),
    ),
    Dimension(
        "non-edited-fidelity",
        "Non-Edited Element Fidelity",
        "what the instruction does not speak of looks as before",
        "outside",
        500,
        "consistency",
        "section 3.2.1, appendix F.1.1",
        aliases=("Non-Edited Region Fidelity",),
    ),
    Dimension(
        "object-manipulation",
        "Object Manipulation Accuracy",
        "objects were added, removed or replaced as the instruction says",
        "two levels",
        332,
        "following",
        "section 3.2.1, appendix F.1.2",
    ),
    Dimension(
        "physical-plausibility",
        "Physical Plausibility",
        "the edited picture obeys the laws of physics, such as those of light, perspective and gravity",
        "questions",
        500,
        "quality",
        "section 3.2.1, appendix F.1.1",
    ),
    Dimension(
        "spatial-accuracy",
        "Spatial Accuracy",
        "things are where the instruction says",
        "two levels",
        275,
        "following",
        "section 3.2.1, appendix F.1.2",
    ),
    Dimension(
        "subject-identity",
        "Subject Identity Fidelity",
        "subjects are still themselves where attributes of them have changed",
        "regions",
        233,
        "consistency",
        "section 3.2.1, appendix F.1.2",
    ),
    Dimension(
        "text-content-style",
        "Text Content & Style Accuracy",
        "the requested text is there, correctly spelled, in the requested style and place",
        "text",
        100,
        "following",
        "section 3.2.1, appendix F.1.2",
        required_field="target_text",
    ),
    Dimension(
        "world-knowledge",
        "World Knowledge & Reasoning",
        "the edited picture shows what knowledge and reasoning lead to, as the hint says",
        "two levels",
        100,
        "following",
        "section 3.2.1, appendix F.1.2",
        required_field="hint",
    ),
)

_MULTI = (
    Dimension(
        "multi-aesthetic-quality",
        "Aesthetic Quality",
        "the edited picture is beautiful in composition, colour and light",
        "specialist",
        500,
        "quality",
        "appendix F.2.1",
    ),
    Dimension(
        "multi-blending-naturalness",
        "Blending Naturalness",
        "what was edited is one with its surroundings, without a seam",
        "five levels",
        500,
        "quality",
        "appendix F.2.1",
    ),
    Dimension(
        "multi-composition-interaction",
        "Composition & Interaction",
        "what was put together has sensible places, sizes and perspective, and touches believably",
        "questions",
        500,
        "quality",
        "appendix F.2.1",
    ),
    Dimension(
        "multi-cross-source-attribute",
        "Cross-Source Attribute/Pose Transfer",
        "an attribute or pose from one source was carried over to a subject of another, exactly and completely",
        "questions",
        126,
        "following",
        "section 3.2.2, appendices C.3.4 and F.2.2",
    ),
    Dimension(
        "multi-detail-fidelity",
        "Detail Fidelity/Preservation",
        "fine details of the subjects look as in their sources",
        "regions",
        500,
        "consistency",
        "section 3.2.2, appendix F.2.2",
        aliases=("Detail Preservation",),
    ),
    Dimension(
        "multi-editing-artifacts",
        "Editing Artifacts",
        "the editing has brought in no flaws, such as broken structures and unnatural textures",
        "five levels",
        None,
        "quality",
        "appendix F.2.1",
        aliases=("Generative/Editing Artifacts",),
    ),
    Dimension(
        "multi-image-quality",
        "Image Quality",
        "the edited picture is technically good, such as sharp and free of noise",
        "specialist",
        500,
        "quality",
        "appendix F.2.1",
        aliases=("Overall Image Quality",),
    ),
    Dimension(
        "multi-instruction-following",
        "Instruction Following (Macro)",
        "the instruction as a whole was understood and carried out",
        "five levels",
        500,
        "following",
        "appendix F.2.1",
    ),
    Dimension(
        "multi-inter-subject-consistency",
        "Inter-Subject Consistency",
        "subjects from different sources agree in light, scale and style",
        "questions",
        412,
        "quality",
        "section 3.2.2, appendices C.3.4 and F.2.2",
    ),
    Dimension(
        "multi-non-edited-fidelity",
        "Non-Edited Element Fidelity",
        "what of the sources is to be preserved looks as it did there",
        "regions",
        500,
        "consistency",
        "section 3.2.2, appendix F.2.1",
        aliases=("Non-Edited Region Fidelity",),
    ),
    Dimension(
        "multi-physical-plausibility",
        "Physical Plausibility",
        "the edited picture obeys the laws of physics, such as those of light, perspective and gravity",
        "questions",
        500,
        "quality",
        "appendix F.2.1",
    ),
    Dimension(
        "multi-spatial-accuracy",
        "Spatial Accuracy",
        "things are where the instruction says",
        "two levels",
        476,
        "following",
        "appendix F.2.1",
    ),
    Dimension(
        "multi-subject-consistency",
        "Subject Consistency",
        "subjects look as in their sources",
        "regions",
        500,
        "consistency",
        "section 3.2.2, appendix F.2.2",
    ),
    Dimension(
        "multi-subject-extraction",
        "Subject Extraction & Composition",
        "all required subjects are there, in the right number, and look as in their sources",
        "extraction",
        500,
        "overall",
        "section 3.2.2, appendix F.2.2",
    ),
    Dimension(
        "multi-text-content-style",
        "Text Content & Style Accuracy",
        "the requested text is there, correctly spelled, in the requested style and place",
        "text",
        200,
        "following",
        "appendix F.2.2",
        required_field="target_text",
    ),
    Dimension(
        "multi-world-knowledge",
        "World Knowledge & Reasoning",
        "the edited picture shows what knowledge and reasoning lead to, as the hint says",
        "two levels",
        100,
        "following",
        "appendices C.3.4 and F.2.2",
        required_field="hint",
    ),
)

DIMENSIONS: Mapping[str, Dimension] = MappingProxyType({dimension.name: dimension for dimension in (*_SINGLE, *_MULTI)})
"""Every dimension by name: 15 of one source, 15 of several, and Editing Artifacts of several (appendix F.2.1)."""
