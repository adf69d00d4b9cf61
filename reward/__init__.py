"""Score image edits: samples, scores, rewards and the experts that they query.

    from editcritic.reward import score

    print(score("before.png", "after.png", "Change the color of cup to blue", boxes={"cup": [(120, 80, 260, 240)]}))

The rest is in subpackages: `queries` (queries to experts and their answers), `engine` (programs), `metrics` (metrics
and compositions), `experts`, `training`. Importing this package loads neither torch nor transformers.
"""

from .base_reward import BaseReward
from .boxes import Box
from .card import Card
from .config import build, load_experts
from .edit_plan import EditPlan, Kept, PlannedOperation, Question, Relation, Target
from .engine import AnswerLog, Engine, Program, ask
from .image import Image, ImageError
from .queries import Expert, SpecError, spec_of
from .reward import Reward, TooManyFailures, default_experts, score
from .sample import EditSample, Operation, Pools, Task
from .score import Evidence, Score, Scores

__all__ = [
    "AnswerLog",
    "BaseReward",
    "Box",
    "Card",
    "EditPlan",
    "EditSample",
    "Engine",
    "Evidence",
    "Expert",
    "Image",
    "ImageError",
    "Kept",
    "Operation",
    "PlannedOperation",
    "Pools",
    "Program",
    "Question",
    "Relation",
    "Reward",
    "Score",
    "Scores",
    "SpecError",
    "Target",
    "Task",
    "TooManyFailures",
    "ask",
    "build",
    "default_experts",
    "load_experts",
    "score",
    "spec_of",
]
