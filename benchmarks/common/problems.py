"""Problems with data: the first of them, and how many there are. A stranger's file may have millions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar, overload

T = TypeVar("T")

MAX_PROBLEMS = 1_000
"""Problems of a file that are kept and shown; the others are counted."""


class Problems(Sequence[T], Generic[T]):
    """A sequence of the first `MAX_PROBLEMS` that were appended. total: how many were."""

    def __init__(self, problems: Iterable[T] = ()) -> None:
        self._kept: list[T] = []
        self.total = 0
        for problem in problems:
            self.append(problem)

    def append(self, problem: T) -> bool:
        """Whether it is kept."""
        self.total += 1
        if self.total <= MAX_PROBLEMS:
            self._kept.append(problem)
        return self.total <= MAX_PROBLEMS

    def copy(self) -> Problems[T]:
        """The same problems, to append others to."""
        copied = Problems(self._kept)
        copied.total = self.total
        return copied

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._kept[index]

    def __len__(self) -> int:
        return len(self._kept)


def num_problems(problems: Sequence[object]) -> int:
    """How many there are, whether or not all of them are kept."""
    return problems.total if isinstance(problems, Problems) else len(problems)
