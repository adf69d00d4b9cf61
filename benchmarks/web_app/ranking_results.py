"""What the tab "Score and rank" shows of scores: rows, captions, and texts as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import PIL.Image

from ...reward import EditSample, Image, Score
from ...reward.missing_inputs import for_page
from ...reward.score import score_lines
from ..common.errors import InputError
from ..common.markdown import markdown_text, table_lines
from ..common.reward_catalogue import describe
from ..report.edit_picture import edit_panels
from ..report.ranking import CandidateRanking, RankedCandidate, rank_candidates
from ..report.ranking_sheet import boxes_on, draw, evidence
from ..report.score_comparison import compare_scores
from .settings import AppSettings

_COLUMNS = ("rank", "edit", "score", "margin", "accepted", "why")
THUMBNAIL_SIDE = 480

DROPPED_SIDE, MAX_DROPPED = 160, 24  # pixels of the thumbnails of dropped edits, and how many are shown
MAX_EVIDENCE = 40  # observations of a score that are listed


@dataclass(frozen=True, eq=False)
class RankedEdits:
    """Scored samples, ranked in their groups. range: of the reward, as on its card. reward, experts, options: what they
    were scored with."""

    samples: Sequence[EditSample]
    scores: Sequence[Score]
    range: tuple[float | None, float | None]
    reward: str
    experts: str
    options: Mapping[str, float]

    @cached_property
    def rankings(self) -> list[CandidateRanking]:
        return rank_candidates(self.samples, self.scores, self.range[0])

    @property
    def limits(self) -> tuple[float, float]:
        """The range; where it has no end, the lowest and the highest value."""
        values = [score.value for score in self.scores if score.value is not None] or [0.0]
        low = min(values) if self.range[0] is None else self.range[0]
        high = max(values) if self.range[1] is None else self.range[1]
        return low, high if high > low else low + 1.0

    def ranking(self, group: str | None) -> CandidateRanking:
        """That of a group; the first one for an unknown name."""
        rankings = self.rankings
        return next((ranking for ranking in rankings if ranking.group == group), rankings[0])

    def candidate(self, name: str) -> RankedCandidate:
        """By the sample's id. Raises `InputError`."""
        for ranking in self.rankings:
            for candidate in ranking.candidates:
                if candidate.sample.id == name:
                    return candidate
        raise InputError(f"no edit is called {name!r:.100}: choose one of the list")


def group_names(ranked: RankedEdits) -> list[tuple[str, str]]:
    """Title and name of each group."""
    return [
        (f"{number}. {ranking.reference_sample.instruction[:80]}", ranking.group)
        for number, ranking in enumerate(ranked.rankings, start=1)
    ]


def ranking_text(ranking: CandidateRanking, accepted_from: float) -> str:
    """How many are accepted, and a table with a row for each candidate."""
    accepted = [is_accepted(one.score, accepted_from) for one in ranking.candidates]
    rows = [
        (
            str(one.rank or "–"),
            markdown_text(one.sample.id),
            value_text(one.score),
            "" if one.margin is None else f"{one.margin:.3f}",
            "yes" if passes else "no",
            markdown_text(for_page(one.reason)),
        )
        for one, passes in zip(ranking.candidates, accepted, strict=True)
    ]
    lines = [f"**{sum(accepted)} of {len(accepted)} accepted.**"]
    if ranking.no_best:
        lines.append(f"No edit is the best: {markdown_text(for_page(ranking.no_best))}")
    return "\n".join([" ".join(lines), "", *table_lines(_COLUMNS, rows)])


def is_accepted(score: Score, accepted_from: float) -> bool:
    """A missing value is never accepted, nor what a guard rejected."""
    return score.value is not None and not score.rejected and score.value >= accepted_from


def value_text(score: Score) -> str:
    """The value, and "rejected" for what a guard rejected; or the status of a score without one, with its bound."""
    if score.value is not None:
        return f"{score.value:.3f}{', rejected' if score.rejected else ''}"
    bound = dict(score_lines(score)).get("known", "").replace("the score cannot", "cannot")
    return score.status.replace("_", " ") + (f", {bound}" if bound else "")


def dropped_pictures(paths: Sequence[str]) -> list[tuple[PIL.Image.Image, str]]:
    """The first pictures that were dropped, small, by their names. Raises `ImageError`."""
    return [(draw(Image.open(Path(path)), (), {}, DROPPED_SIDE), Path(path).name) for path in paths[:MAX_DROPPED]]


def thumbnails(candidates: Sequence[RankedCandidate]) -> list[tuple[PIL.Image.Image, str]]:
    """Each candidate's picture in order, with a caption."""
    return [
        (
            draw(one.sample.edited, (), {}, THUMBNAIL_SIDE),
            f"{f'{one.rank}. ' if one.rank else ''}{one.sample.id}: {value_text(one.score)}",
        )
        for one in candidates
    ]


def panels(settings: AppSettings, ranked: RankedEdits, name: str) -> list[tuple[PIL.Image.Image, str]]:
    """Source with its target, edit with what experts found, and what changed where nothing should have."""
    one = ranked.candidate(name)
    experts = settings.scorers.reward(ranked.reward, ranked.experts).experts
    titled = [(picture, title) for title, picture in edit_panels(one.sample, one.score, experts.get("changes"))]
    boxes = [box for box in boxes_on(one.sample.edited, one.sample, one.score) if box.label != "may change"]
    if boxes:
        titled[1] = (draw(one.sample.edited, boxes, {}, 2 * THUMBNAIL_SIDE), "edit, with what experts found")
    return titled


def parts_text(ranked: RankedEdits, name: str) -> str:
    """The plan and the parts of a score."""
    one = ranked.candidate(name)
    lines = [(markdown_text(part), markdown_text(for_page(text))) for part, text in score_lines(one.score)]
    return (
        "\n".join([f"**{markdown_text(name)}**: {markdown_text(one.sample.instruction)}", ""])
        + "\n"
        + "\n".join(table_lines(("", ""), lines))
    )


def evidence_text(ranked: RankedEdits, name: str) -> str:
    """What experts said, with the judge's words, and the part that each observation belongs to."""
    items = list(evidence(ranked.candidate(name).score))
    shown = [
        (markdown_text(part), markdown_text(item.what), markdown_text(item.text), _numbers(item.numbers))
        for part, item in items[:MAX_EVIDENCE]
    ]
    if not shown:
        return "No expert was asked."
    more = f"\n\nand {len(items) - MAX_EVIDENCE} more" if len(items) > MAX_EVIDENCE else ""
    return "\n".join(table_lines(("part", "what", "words", "numbers"), shown)) + more


def _numbers(numbers: Mapping[str, float]) -> str:
    return ", ".join(f"{markdown_text(name)} {value:.3g}" for name, value in numbers.items())


def why_text(ranked: RankedEdits, first: str, second: str) -> str:
    """Why one edit is above another: a sentence, and a table of the parts that differ."""
    scores = ranked.candidate(first).score, ranked.candidate(second).score
    comparison = compare_scores((first, second), *scores)
    lines = [
        (
            markdown_text(pair.path),
            "" if pair.first is None else value_text(pair.first),
            "" if pair.second is None else value_text(pair.second),
            "" if pair.exchanged is None else f"{pair.exchanged:.3f}",
        )
        for pair in comparison.differing
    ]
    columns = ("part", markdown_text(first), markdown_text(second), "score of the first with this part of the second")
    table = table_lines(columns, lines)
    rule = f"The score is the {comparison.rule} of its parts." if comparison.rule else ""
    return "\n".join([f"**{markdown_text(for_page(comparison.sentence))}**", "", rule, "", *(table if lines else ())])


def movable_thresholds(reward: str) -> dict[str, float]:
    """Options of a reward that are thresholds or shares, with their defaults: numbers in 0 to 1."""
    options: dict[str, Any] = describe(reward).options
    return {
        name: value
        for name, value in options.items()
        if isinstance(value, float) and 0 <= value <= 1 and name != "temperature"
    }
