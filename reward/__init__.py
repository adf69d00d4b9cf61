"""What an edit is worth: samples, scores, the engine, metrics, experts.

from editcritic.reward import score
print(score("before.png", "after.png", "Change the color of cup to blue", boxes={"cup": [(120, 80, 260, 240)]}))
"""

from .answers import AnswerLog
from .any_reward import AnyReward
from .asking import Abstained, Asks, Failed, Unanswered, ask, ask_each, gather, value_of
from .binding import load_experts
from .boxes import Box
from .card import Card
from .compose import Fallback, Gate, GeometricMean, Metric, Minimum, Product, Threshold, WeightedMean
from .engine import Engine
from .expert import AsyncExpert, Expert, ExpertDown
from .forms import FreeText, Grade, Json, Levels, Message, Reply, Tool, ToolCall, YesNo
from .guards import all_guards
from .image import Image, ImageError
from .outcomes import Abstention, Failure
from .pairwise import Comparison, PairwiseJudge
from .query import (
    Detect,
    Detections,
    Differ,
    Embed,
    EmbedText,
    Enhanced,
    Judge,
    Mask,
    Match,
    Measure,
    Measured,
    Rate,
    Reading,
    ReadText,
    Region,
    Segment,
    Upscale,
    Vectors,
)
from .reward import Reward, TooManyFailures, no_download, score
from .sample import EditSample, Operation, Pools, Task
from .score import Evidence, Score, Scores
from .spec import SpecError, build, spec_of

__all__ = [
    "Abstained",
    "Abstention",
    "AnswerLog",
    "AnyReward",
    "Asks",
    "AsyncExpert",
    "Box",
    "Card",
    "Comparison",
    "Detect",
    "Detections",
    "Differ",
    "EditSample",
    "Embed",
    "EmbedText",
    "Engine",
    "Enhanced",
    "Evidence",
    "Expert",
    "ExpertDown",
    "Failed",
    "Failure",
    "Fallback",
    "FreeText",
    "Gate",
    "GeometricMean",
    "Grade",
    "Image",
    "ImageError",
    "Json",
    "Judge",
    "Levels",
    "Mask",
    "Match",
    "Measure",
    "Measured",
    "Message",
    "Metric",
    "Minimum",
    "Operation",
    "PairwiseJudge",
    "Pools",
    "Product",
    "Rate",
    "ReadText",
    "Reading",
    "Region",
    "Reply",
    "Reward",
    "Score",
    "Scores",
    "Segment",
    "SpecError",
    "Task",
    "Threshold",
    "TooManyFailures",
    "Tool",
    "ToolCall",
    "Unanswered",
    "Upscale",
    "Vectors",
    "WeightedMean",
    "YesNo",
    "all_guards",
    "ask",
    "ask_each",
    "build",
    "gather",
    "load_experts",
    "no_download",
    "score",
    "spec_of",
    "value_of",
]
