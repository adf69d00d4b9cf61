"""The dimensions of I2I-Bench, in one table: names of tables 1 and 2, titles and quotas of tables 4 and 5."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from ...card import Aspect
from ...sample import EditSample

Pipeline = Literal["five levels", "two levels", "questions", "outside", "regions", "text", "extraction", "specialist"]


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension.

    name: as in `object-manipulation` and `multi-subject-extraction`. title: full name. quota: number of the paper's 500
    prompts that it is scored on; None if the paper's tables omit it, and then it is not in the overall score. section:
    of the paper, for its pipeline. meaning: of a high value. aliases: other names in the paper. required_field: the
    sample field it requires besides images and instruction.
    """

    name: str
    title: str
    pipeline: Pipeline
    aspect: Aspect
    quota: int | None
    section: str
    meaning: str
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


_ALL, _SOME = "section 3.2.1, appendix F.1.1", "section 3.2.1, appendix F.1.2"
_MULTI_ALL, _MULTI_SOME = "appendix F.2.1", "appendix F.2.2"
_SUBJECTS, _RELATIONS = "section 3.2.2, appendix F.2.2", "section 3.2.2, appendices C.3.4 and F.2.2"

# fmt: off
_SINGLE = (
    Dimension("action-state-change", "Action/State Change Accuracy", "two levels", "following", 86, _SOME,
              "actions, poses and states have changed as the instruction says"),
    Dimension("aesthetic-quality", "Aesthetic Quality", "specialist", "quality", 500, _ALL,
              "the edited picture is beautiful in composition, colour and light"),
    Dimension("blending-naturalness", "Blending Naturalness", "five levels", "quality", 500, _ALL,
              "what was edited is one with its surroundings, without a seam"),
    Dimension("composition-interaction", "Composition & Interaction", "questions", "quality", 350, _SOME,
              "what is new or changed has a sensible place, size and perspective, and touches other things believably"),
    Dimension("editing-artifacts", "Editing Artifacts", "five levels", "quality", 500, _ALL,
              "the editing has brought in no flaws, such as broken structures and unnatural textures",
              aliases=("Generative/Editing Artifacts",)),
    Dimension("image-quality", "Image Quality", "specialist", "quality", 500, _ALL,
              "the edited picture is technically good, such as sharp and free of noise",
              aliases=("Overall Image Quality",)),
    Dimension("instruction-following", "Instruction Following (Macro)", "five levels", "following", 500, _ALL,
              "the instruction as a whole was understood and carried out"),
    Dimension("local-attribute", "Local Attribute Accuracy", "two levels", "following", 282, _SOME,
              "attributes such as colour and material have changed as the instruction says",
              aliases=("Local Attribute Editing",)),
    Dimension("non-edited-fidelity", "Non-Edited Element Fidelity", "outside", "consistency", 500, _ALL,
              "what the instruction does not speak of looks as before", aliases=("Non-Edited Region Fidelity",)),
    Dimension("object-manipulation", "Object Manipulation Accuracy", "two levels", "following", 332, _SOME,
              "objects were added, removed or replaced as the instruction says"),
    Dimension("physical-plausibility", "Physical Plausibility", "questions", "quality", 500, _ALL,
              "the edited picture obeys the laws of physics, such as those of light, perspective and gravity"),
    Dimension("spatial-accuracy", "Spatial Accuracy", "two levels", "following", 275, _SOME,
              "things are where the instruction says"),
    Dimension("subject-identity", "Subject Identity Fidelity", "regions", "consistency", 233, _SOME,
              "subjects are still themselves where attributes of them have changed"),
    Dimension("text-content-style", "Text Content & Style Accuracy", "text", "following", 100, _SOME,
              "the requested text is there, correctly spelled, in the requested style and place",
              required_field="target_text"),
    Dimension("world-knowledge", "World Knowledge & Reasoning", "two levels", "following", 100, _SOME,
              "the edited picture shows what knowledge and reasoning lead to, as the hint says", required_field="hint"),
)
_MULTI = (
    Dimension("multi-composition-interaction", "Composition & Interaction", "questions", "quality", 500, _MULTI_ALL,
              "what was put together has sensible places, sizes and perspective, and touches believably"),
    Dimension("multi-cross-source-attribute", "Cross-Source Attribute/Pose Transfer", "questions", "following", 126,
              _RELATIONS,
              "an attribute or pose from one source was carried over to a subject of another, exactly and completely"),
    Dimension("multi-detail-fidelity", "Detail Fidelity/Preservation", "regions", "consistency", 500, _SUBJECTS,
              "fine details of the subjects look as in their sources", aliases=("Detail Preservation",)),
    Dimension("multi-inter-subject-consistency", "Inter-Subject Consistency", "questions", "quality", 412, _RELATIONS,
              "subjects from different sources agree in light, scale and style"),
    Dimension("multi-non-edited-fidelity", "Non-Edited Element Fidelity", "regions", "consistency", 500,
              "section 3.2.2, appendix F.2.1",
              "what of the sources is to be preserved looks as it did there", aliases=("Non-Edited Region Fidelity",)),
    Dimension("multi-subject-consistency", "Subject Consistency", "regions", "consistency", 500, _SUBJECTS,
              "subjects look as in their sources"),
    Dimension("multi-subject-extraction", "Subject Extraction & Composition", "extraction", "overall", 500, _SUBJECTS,
              "all required subjects are there, in the right number, and look as in their sources"),
)
# fmt: on

# Those of one source that are also ones of several: quota and section there.
_MULTI_AS_SINGLE: Mapping[str, tuple[int | None, str]] = {
    "aesthetic-quality": (500, _MULTI_ALL),
    "blending-naturalness": (500, _MULTI_ALL),
    "editing-artifacts": (None, _MULTI_ALL),
    "image-quality": (500, _MULTI_ALL),
    "instruction-following": (500, _MULTI_ALL),
    "physical-plausibility": (500, _MULTI_ALL),
    "spatial-accuracy": (476, _MULTI_ALL),
    "text-content-style": (200, _MULTI_SOME),
    "world-knowledge": (100, "appendices C.3.4 and F.2.2"),
}


def _by_name() -> Mapping[str, Dimension]:
    found = {dimension.name: dimension for dimension in (*_SINGLE, *_MULTI)}
    for name, (quota, section) in _MULTI_AS_SINGLE.items():
        found[f"multi-{name}"] = replace(found[name], name=f"multi-{name}", quota=quota, section=section)
    return MappingProxyType(dict(sorted(found.items(), key=lambda entry: (entry[1].multi, entry[0]))))


DIMENSIONS: Mapping[str, Dimension] = _by_name()
"""Every dimension by name: 15 of one source, 15 of several, and Editing Artifacts of several (appendix F.2.1)."""
