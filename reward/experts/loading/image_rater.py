"""ImageRater: base class of experts whose model rates images, each alone or for a prompt."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import Unpack

from ...queries.kinds import Measurement, Outcome, Rate
from ...queries.outcomes import Failure
from .checkpoint import LoadedModel, LoadOptions
from .local_expert import LocalExpert


class ImageRater(LocalExpert[Outcome]):
    """Answers `Rate` of one quality. Subclasses say how long a prompt may be, and rate. truncate_prompt: whether
    prompts longer than the model's limit are truncated, as the authors do, and counted as `prompts_cut`; else such a
    query fails. None: the image is rated alone, prompt and sources are ignored."""

    kinds = (Rate,)
    quality: ClassVar[str] = "preference"

    def __init__(
        self,
        name: str,
        *,
        base: str,
        truncate_prompt: bool | None,
        batch: int,
        cache_bytes: int,
        **loading: Unpack[LoadOptions],
    ) -> None:
        super().__init__(name, base=base, batch=batch, cache_bytes=cache_bytes, **loading)
        self.base = base
        self.truncate_prompt = truncate_prompt

    def options_id(self) -> str:
        return "whole prompts" if self.truncate_prompt is False else ""

    def prompt_tokens(self, loaded: LoadedModel, prompt: str) -> tuple[int, int]:
        """The length of a prompt, and the most that the model reads, in tokens."""
        raise NotImplementedError(f"{type(self).__name__} rates an image without a prompt")

    @abstractmethod
    def rate(self, loaded: LoadedModel, queries: Sequence[Rate]) -> Sequence[float]:
        """The ratings of different images or prompts."""

    def answer_batch(self, queries: Sequence[Rate]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            self.check(loaded)
            failures = [self._failure(loaded, query) for query in queries]
            prompted = self.truncate_prompt is not None
            keys = [(query.image.digest, query.prompt if prompted else "") for query in queries]
            distinct = {key: query for key, query, failure in zip(keys, queries, failures, strict=True) if not failure}
            ratings = dict(zip(distinct, self.rate(loaded, list(distinct.values())), strict=True))
        return [failure or Measurement(ratings[key]) for key, failure in zip(keys, failures, strict=True)]

    def _failure(self, loaded: LoadedModel, query: Rate) -> Failure | None:
        if query.quality != self.quality:
            return Failure(f"{self.name} rates {self.quality} only, got {query.quality}")
        if self.truncate_prompt is None:
            return None
        if not query.prompt.strip():
            return Failure(
                f"{self.name} rates an image for a prompt, and the prompt is empty: the score would be meaningless"
            )
        length, longest = self.prompt_tokens(loaded, query.prompt)
        if length > longest and not self.truncate_prompt:
            return Failure(
                f"a prompt of {length} tokens is longer than the {longest} that {self.name} reads: shorten it, or set "
                "truncate_prompt=True"
            )
        if length > longest:
            self.counts["prompts_cut"] += 1
        return None
