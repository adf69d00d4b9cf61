"""JudgeAdapter: an expert for another kind of query that asks a judge."""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ...config import build
from ...queries.expert import Expert
from ...queries.kinds import Judge, Outcome
from ...queries.prompts import Prompts
from ...queries.specs import Spec


class JudgeAdapter(Expert):
    """Answers its queries with a judge's replies. Subclasses define `kinds`, the prompts and the calls.

    judge: an expert that answers `Judge`, or its spec. prompts: a folder whose `<name>.txt` files replace the prompts
    of the same names. Usage, memory and unloading are those of the judge, and its id is part of this one's.
    """

    topics: ClassVar[tuple[str, ...]]
    """Names of the prompts that the query consists of."""
    package: ClassVar[str] = "editcritic.reward.experts"
    """The package whose folder `prompts` holds them."""
    version: ClassVar[int] = 1
    """Of pre- and post-processing; part of the id."""
    calls_per_query: int = 1
    """The judge's queries for one of ours."""

    def __init__(self, judge: Expert | Spec, *, prompts: str | None) -> None:
        judge_expert = judge if isinstance(judge, Expert) else build(judge, "editcritic.experts")
        if not isinstance(judge_expert, Expert) or Judge not in judge_expert.kinds:
            kinds = ", ".join(kind.__name__ for kind in getattr(judge_expert, "kinds", ())) or "nothing"
            raise ValueError(
                f"{type(self).__name__} needs a judge, {type(judge_expert).__name__} answers {kinds}: "
                "give vlm or openai"
            )
        self.judge = judge
        self.prompts = prompts
        self.judge_expert = judge_expert
        prompt_texts = Prompts(self.package, prompts)
        self.texts = {topic: prompt_texts.render(topic) for topic in self.topics}

    def ask_judge(self, queries: Sequence[Judge]) -> list[Outcome]:
        """The judge's outcomes, in the order of the queries, and in batches of its size."""
        size = max(1, self.judge_expert.batch)
        outcomes: list[Outcome] = []
        for start in range(0, len(queries), size):
            batch = queries[start : start + size]
            replies = self.judge_expert(batch)
            if len(replies) != len(batch):
                raise ValueError(f"the judge gave {len(replies)} replies to {len(batch)} queries")
            outcomes += replies
        return outcomes

    @abstractmethod
    def options_id(self) -> str:
        """Options that change the answers, for the id."""

    @property
    def id(self) -> str:  # type: ignore[override]  # the judge's id is computed on first use
        digest = hashlib.sha256("\0".join(self.texts.values()).encode()).hexdigest()[:12]
        own = f"{type(self).__name__}@{self.version} prompts={digest} {self.options_id()}".rstrip()
        return f"{own} of {self.judge_expert.id}"

    @property
    def batch(self) -> int:  # type: ignore[override]
        """Queries whose calls fit into the judge's batch."""
        return max(1, self.judge_expert.batch // self.calls_per_query)

    @property
    def deadline_s(self) -> float:  # type: ignore[override]
        """The judge's deadline times the number of its sequential calls."""
        at_once = max(
            self.judge_expert.batch if self.judge_expert.concurrency == 1 else self.judge_expert.concurrency, 1
        )
        return self.judge_expert.deadline_s * math.ceil(self.batch * self.calls_per_query / at_once)

    def load(self) -> None:
        self.judge_expert.load()

    def usage(self) -> Mapping[str, float]:
        return self.judge_expert.usage()

    def offload(self) -> None:
        """Offload the judge's weights, if any."""
        self._call_if_supported("offload")

    def unload(self) -> None:
        """Unload the judge's weights, if any."""
        self._call_if_supported("unload")

    def _call_if_supported(self, name: str) -> None:
        method = getattr(self.judge_expert, name, None)
        if method is not None:
            method()

    @property
    def bytes(self) -> dict[str, int]:
        """Memory of the judge; empty for a remote one."""
        sizes: dict[str, int] = getattr(self.judge_expert, "bytes", {})
        return dict(sizes)
