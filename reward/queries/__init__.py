"""Queries to experts, their answers, response formats and serialization."""

from .answers import Detections, Embeddings, Mask, Measurement, RecognizedText, Region, RegionRating, UpscaledImage
from .change_map import ChangeMap
from .expert import AsyncExpert, Expert, ExpertDown
from .kinds import (
    Detect,
    Differ,
    Embed,
    EmbedText,
    Judge,
    MapChanges,
    Match,
    Measure,
    Plan,
    Rate,
    RateRegion,
    ReadText,
    Remains,
    Segment,
    Upscale,
)
from .outcomes import Abstention, Failure
from .response_formats import FreeText, Grade, Json, Levels, Message, Reply, Tool, ToolCall, YesNo
from .specs import SpecError, spec_of

__all__ = [
    "Abstention",
    "AsyncExpert",
    "ChangeMap",
    "Detect",
    "Detections",
    "Differ",
    "Embed",
    "EmbedText",
    "Embeddings",
    "Expert",
    "ExpertDown",
    "Failure",
    "FreeText",
    "Grade",
    "Json",
    "Judge",
    "Levels",
    "MapChanges",
    "Mask",
    "Match",
    "Measure",
    "Measurement",
    "Message",
    "Plan",
    "Rate",
    "RateRegion",
    "ReadText",
    "RecognizedText",
    "Region",
    "RegionRating",
    "Remains",
    "Reply",
    "Segment",
    "SpecError",
    "Tool",
    "ToolCall",
    "Upscale",
    "UpscaledImage",
    "YesNo",
    "spec_of",
]
