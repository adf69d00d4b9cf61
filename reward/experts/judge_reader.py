"""JudgeReader: a vision-language model as reader of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..queries.expert import Expert
from ..queries.kinds import InvalidAnswer, Judge, Outcome, Query, ReadText, RecognizedText
from ..queries.outcomes import Abstention, Failure
from ..queries.response_formats import FreeText, Message, Reply, check_max_tokens
from ..queries.specs import Spec
from ..sample import EditSample
from .judging.judge_adapter import JudgeAdapter

NO_TEXT = "[no text]"
"""The reply about a picture without text. A reply that is empty says nothing about the picture."""


class JudgeReader(JudgeAdapter):
    """Answers `ReadText` with a judge that is asked for the text in the image, as the released code of EdiVal does.

    The image comes first, then the question (`prompts/judge_reader.txt`), at temperature 0. The whole reply is one text
    line, line breaks included, whose box is the whole image, since a judge gives no positions: bind an OCR reader to
    `reader.boxes`, and to `reader.guard`, which reads every edit. Its score is 1: a judge says nothing about its
    confidence.

    judge: an expert that answers `Judge`, or its spec. In specs of experts (`load_experts`) it may be left out: the
    expert bound to the role `judge` reads. A judge that is known to answer a part of all questions only, such as
    `colour`, is refused with ValueError. prompts: see `JudgeAdapter`; the reply about an image without text is
    `[no text]` in any case. max_tokens: of a reply; EdiVal's are cut off at 1024.

    Fails where the judge fails or its reply is empty, and abstains where it does.
    """

    kinds = (ReadText,)
    adapts: ClassVar[tuple[type[Query[Any]], ...] | None] = ()
    topics: ClassVar[tuple[str, ...]] = ("judge_reader",)

    def __init__(self, judge: Expert | Spec, *, prompts: str | None = None, max_tokens: int = 1024) -> None:
        check_max_tokens(max_tokens)
        super().__init__(judge, prompts=prompts)
        if scope := self.judge_expert.answerable.get(Judge):
            raise ValueError(
                f"{type(self).__name__} needs a judge that reads, and {type(self.judge_expert).__name__} answers about "
                f"{scope} only: give vlm or openai"
            )
        self.max_tokens = max_tokens

    def options_id(self) -> str:
        return f"max_tokens={self.max_tokens}"

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Without the wanted text: which letters a judge knows is not known, and it is not asked twice."""
        return ReadText(query.image) if isinstance(query, ReadText) else query

    def __call__(self, queries: Sequence[ReadText]) -> list[Outcome]:
        questions = [self._question(query) for query in queries]
        replies = self.ask_judge(questions)
        return [_reading(question, reply) for question, reply in zip(questions, replies, strict=True)]

    def _question(self, query: ReadText) -> Judge:
        text = self.texts["judge_reader"]
        return Judge((Message((query.image, text)),), FreeText(self.max_tokens), "judge_reader")


def _reading(question: Judge, reply: Outcome) -> Outcome:
    if isinstance(reply, Abstention | Failure):
        return reply
    try:
        question.check(reply)
    except InvalidAnswer as error:
        return Failure(str(error), raw=getattr(reply, "text", ""))
    assert isinstance(reply, Reply)
    text = reply.text.strip()
    if not text:
        return Failure(f"the judge was asked which text it reads, and its reply is empty: expected it, or {NO_TEXT}")
    return RecognizedText.without_boxes("" if text.rstrip(".").casefold() == NO_TEXT else text)
