"""Some items of a suite, judged in one process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...reward import AnswerLog, EditSample, Engine, Reward, Score, TooManyFailures
from ...reward.stats import Stats
from ..suites.suite import Item
from .asked import Asked, How
from .journal import ANSWERS, RowJournal, good
from .judging import Judged
from .outputs import MissingPicture, Outputs, key_of
from .rows import line_of, missing_row, row_of
from .spending import Spending, Spent
from .watching import Progress


class Part:
    """Some items of a suite, judged in this process. book: the journal; None keeps nothing.

    ended: why it ended early, empty if it did not.
    """

    def __init__(
        self,
        asked: Asked,
        how: How,
        book: RowJournal | None,
        items: Sequence[Item],
        *,
        share: float = 1.0,
        before: Spent | None = None,
        log: Path | None = None,
    ) -> None:
        self.asked = asked
        self.how = how
        self.book = book
        self.items = items
        self.ended = ""
        self.lines: dict[str, str] = {}
        if before is None:
            before = Spent() if book is None else book.spent()
        self.spending = Spending(asked.experts, how.prices, how.limits, before, share)
        self._log = log or (None if book is None else book.folder / ANSWERS)
        self._known = 0
        self._began = time.monotonic()
        self._stats: dict[str, Any] = {}

    def work(self) -> dict[str, str]:
        """Judge what is not known. The rows as JSON, by item; those that it did not come to are not there."""
        judging = Judged(self.asked.suite, self.asked.judges.metrics, lambda: bool(self.spending.ended))
        log = None if self._log is None else AnswerLog(self._log)
        engine = Engine(window=self.how.window, log=log, reproducible=self.asked.reproducible)
        reward = Reward(
            judging,
            self.spending.experts,
            engine=engine,
            max_failed=self.how.max_failed,
            on_failures=self.how.on_failures,
            patience_s=self.how.patience_s,
        )
        outputs = Outputs(self.asked.suite, self.asked.outputs, {} if log is None else log.files)
        waiting: deque[tuple[Item, str, str]] = deque()
        try:
            for score in reward.stream(self._samples(outputs, waiting)):
                self._take(*waiting.popleft(), score)
        except TooManyFailures as error:
            for score in error.scores[-1:]:
                self._take(*waiting.popleft(), score)
            self.ended = str(error)
        finally:
            self._stats = engine.stats().since(Stats())
            engine.close()
            if self.book is not None:
                self.book.note(self.spending.spent, now=True)
        if log is not None:  # an interrupted engine may be using it until the process ends
            log.close()
        self.ended = self.ended or self.spending.ended
        return self.lines

    def facts(self) -> dict[str, Any]:
        """What this took, for `run.json`."""
        return {
            "items": len(self.items),
            "known": self._known,
            "seconds": round(time.monotonic() - self._began, 3),
            "spent": self.spending.spent.to_json(),
            "stats": self._stats,
        }

    def _samples(self, outputs: Outputs, waiting: deque[tuple[Item, str, str]]) -> Iterator[EditSample]:
        known = {} if self.book is None else self.book.rows()
        for item in self.items:
            if self.spending.ended:
                return
            try:
                sample = outputs.sample(item)
            except MissingPicture as error:
                self._put(item, line_of(missing_row(item, str(error))), known=True)
                continue
            key = key_of(sample)
            row = next((row for of, row in reversed(known.get(item.id, ())) if of == key and good(row)), None)
            if row is not None:
                self._put(item, line_of(row), known=True)
                continue
            waiting.append((item, key, sample.edited.digest))
            yield sample

    def _take(self, item: Item, key: str, edited: str, score: Score) -> None:
        row = row_of(item, edited, score.parts).to_json()
        if self.spending.ended and not good(row):
            return  # it failed for want of money: it was not judged
        if self.book is not None:
            self.book.write(key, row)
        self._put(item, line_of(row))

    def _put(self, item: Item, line: str, *, known: bool = False) -> None:
        self.lines[item.id] = line
        self._known += known
        if self.book is not None:
            self.book.note(self.spending.spent)
        seconds = time.monotonic() - self._began
        self.how.watch(Progress(len(self.lines), len(self.items), self._known, seconds, self.spending.spent))
