"""Some items of a suite, judged in one process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
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
from .sharing import ALONE, Share
from .spending import Spending, Spent
from .watching import Progress

_LOOK_S = 0.5
"""How often the files of other processes are read."""


class Part:
    """Some items of a suite, judged in this process. book: the journal; None keeps nothing. share: of what is budgeted.

    ended: why it ended early, empty if it did not. lines: the rows as JSON, by item. keys: what each of those that were
    judged now is about.
    """

    def __init__(
        self,
        asked: Asked,
        how: How,
        book: RowJournal | None,
        items: Sequence[Item],
        *,
        share: Share = ALONE,
        before: Spent | None = None,
        log: Path | None = None,
    ) -> None:
        self.asked = asked
        self.how = how
        self.book = book
        self.items = items
        self.share = share
        self.ended = ""
        self.lines: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        if before is None:
            before = Spent() if book is None else book.spent()
        self.spending = Spending(asked.experts, how.prices, how.limits, before, 1 / share.world)
        self._log = log or (None if book is None else book.folder / ANSWERS)
        self._known = 0
        self._began = time.monotonic()
        self._stats: dict[str, Any] = {}
        self._others: tuple[float, tuple[int, int, Spent]] = (0.0, (0, 0, Spent()))

    def work(self) -> dict[str, str]:
        """Judge what is not known. The rows as JSON, by item; those that it did not come to are not there."""
        if self.book is not None:
            self.book.note(Spent(), 0, 0, now=True)
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
                self.book.note(self.spending.spent, len(self.lines), self._known, now=True)
        if log is not None:  # an interrupted engine may be using it until the process ends
            log.close()
        self.ended = self.ended or self.spending.ended
        return self.lines

    def sort_out(self) -> list[Item]:
        """The items that have to be judged; the rows of the others are there."""
        waiting: deque[tuple[Item, str, str]] = deque()
        with nullcontext() if self._log is None else AnswerLog(self._log) as log:
            outputs = Outputs(self.asked.suite, self.asked.outputs, {} if log is None else log.files)
            deque(self._samples(outputs, waiting), maxlen=0)
        return [item for item, _, _ in waiting]

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
            if self.spending.ended:
                continue  # what costs nothing is still there behind it
            waiting.append((item, key, sample.edited.digest))
            yield sample

    def _take(self, item: Item, key: str, edited: str, score: Score) -> None:
        row = row_of(item, edited, score.parts).to_json()
        if self.spending.ended and not good(row):
            return  # it failed for want of money: it was not judged
        if self.book is not None:
            self.book.write(key, row)
        self.keys[item.id] = key
        self._put(item, line_of(row))

    def _put(self, item: Item, line: str, *, known: bool = False) -> None:
        self.lines[item.id] = line
        self._known += known
        if self.book is not None:
            self.book.note(self.spending.spent, len(self.lines), self._known)
        self.tell()

    def tell(self) -> None:
        """Say how far this is; the first of several processes says how far all are."""
        done, known, spent = len(self.lines), self._known, self.spending.spent
        if self.share.world > 1 and self.book is not None:
            if time.monotonic() - self._others[0] > _LOOK_S:
                self._others = time.monotonic(), self.book.others(self.share.world)
            others = self._others[1]
            done, known, spent = done + others[0], known + others[1], spent + others[2]
        total = len(self.asked.suite.items) if self.share.world > 1 else len(self.items)
        self.how.watch(Progress(done, total, known, time.monotonic() - self._began, spent))
