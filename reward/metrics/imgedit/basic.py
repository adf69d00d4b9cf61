"""ImgEdit-Bench's basic suite: three grades of one edit by criteria of its type, and their mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import ClassVar

from ...card import Card
from ...engine.program import Program
from ...queries.kinds import Judge
from ...queries.response_formats import Reply
from ...sample import EditSample
from ...score import Evidence, Score
from .criteria import CRITERIA, EDIT_TYPES, EditType, edit_type_of
from .graded_edit import CAPPED, GRADES, PROTOCOLS, GradedEdit
from .reply_reading import HIGHEST, LOWEST, read_grades


@dataclass(frozen=True)
class ImgEditScore(GradedEdit):
    """The mean of three grades, from 1 to 5, by criteria of the edit's type. Both images and the instruction are shown.

    The second and the third grade may not exceed the first: the judge is told so. In `fixed` one that does counts as
    the first, and the evidence `capped` says how many did; `parts` has the grades that count, by criterion. In
    `official` they count as given, and evidence alone has them; a mean may then be outside of 1 to 5.

    edit_type: of all edits; by default that of each sample (`criteria.edit_type_of`). Where it is not known, and for
    several sources, the metric is not applicable.
    extract_source: whether the judge sees the source of an extraction beside the extracted object. The published words
    speak of the extracted image alone, and the released code shows both. By default as the words in `fixed`, as the
    code in `official`.
    """

    edit_type: EditType | None = None
    extract_source: bool | None = None

    card: ClassVar[Card] = Card(
        name="imgedit",
        version=1,
        summary="what was asked for is done exactly, and looks natural and physically right",
        range=(float(LOWEST), float(HIGHEST)),
        unit="grade 1-5",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        protocols=PROTOCOLS,
        source=(
            "ImgEdit (arXiv 2505.20275), ImgEdit-Bench, and the released code (PKU-YuanGroup/ImgEdit, Benchmark/Basic) "
            "for criteria, parsing and means. The published judge is GPT-4o in the code and GPT-4.1 in the table."
        ),
        failure_modes=(
            "One impression of one judge, on five coarse steps: many edits tie, words written into the image may sway "
            "it, and changes that it overlooks cost nothing. Of an extraction it sees the extracted object alone in "
            "protocol fixed: any object of the kind on white wins (extract_source=true shows the source)."
        ),
        aspect="overall",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.edit_type is not None and self.edit_type not in EDIT_TYPES:
            raise ValueError(f"unknown edit_type {self.edit_type!r}: imgedit has {', '.join(EDIT_TYPES)}")
        if self.extract_source not in (None, True, False):
            raise ValueError(f"extract_source is true or false, got {self.extract_source!r}")

    @cached_property
    def signature(self) -> str:
        """As in `imgedit@1/fixed[edit_type=add]`, with a prompt pack's digest."""
        values = {"edit_type": self.edit_type, "extract_source": self.extract_source}
        options = [f"{name}={value}" for name, value in values.items() if value is not None]
        return self.card.signature_with(self.protocol, [*options, *self.prompt_pack.options])

    def _score(self, sample: EditSample) -> Program[Score]:
        edit_type = self._type_of(sample)
        if edit_type is None:
            return Score.not_applicable(
                f"the type of this edit is not known: give edit_type, or operations with one of the names "
                f"{', '.join(EDIT_TYPES)}"
            )
        return (yield from self._graded(self._question_about(sample, edit_type), sample))

    def _type_of(self, sample: EditSample) -> EditType | None:
        return self.edit_type or edit_type_of(sample)

    def _question_about(self, sample: EditSample, edit_type: EditType) -> Judge:
        first, second, third = CRITERIA[edit_type]
        ending = self.prompt_pack.render("ending", first=first, second=second, third=third)
        alone = edit_type == "extract" and not (
            self.protocol == "official" if self.extract_source is None else self.extract_source
        )
        pictures = (sample.edited,) if alone else (sample.source, sample.edited)
        return self._question(edit_type, pictures, sample.instruction, ending)

    def _fixed_score(self, reply: Reply, sample: EditSample) -> Score:
        """The mean of the grades that count."""
        edit_type = self._type_of(sample)
        assert edit_type is not None  # it was asked about
        criteria = CRITERIA[edit_type]
        given = read_grades(reply.text, criteria)
        counted = [min(grade, given[0]) for grade in given]
        capped = sum(low < grade for low, grade in zip(counted, given, strict=True))
        numbers = {name: float(grade) for name, grade in zip(criteria, given, strict=True)}
        evidence = [Evidence(GRADES, sample.edited.digest, text=reply.text, numbers=numbers)]
        if capped:
            evidence.append(Evidence(CAPPED, numbers={GRADES: float(capped)}))
        listed = ", ".join(map(str, given))
        reason = f"mean of {listed}" + (f", none above {given[0]}" if capped else "")
        parts = {name: Score.of(grade) for name, grade in zip(criteria, counted, strict=True)}
        return Score.of(fmean(counted), reason, evidence=evidence, parts=parts)
