"""The engine: runs programs, deduplicates and batches their queries, and isolates failures."""

from .answer_log import AnswerLog
from .engine import Engine
from .program import Abstained, Failed, Program, Unanswered, ask, ask_many, gather, reply_value

__all__ = [
    "Abstained",
    "AnswerLog",
    "Engine",
    "Failed",
    "Program",
    "Unanswered",
    "ask",
    "ask_many",
    "gather",
    "reply_value",
]
