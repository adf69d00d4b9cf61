"""Pictures that an editor makes when it is asked wrongly, or is run too weakly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from editcritic.reward.audit.audited_edit import AuditedEdit, EditAgain
from editcritic.reward.sample import EditSample

_UNRELATED = "A wooden sailing boat in a bottle on a shelf."
_SAME_ASK = 0.5  # of the words of two instructions: with so many in common they may ask for the same


@dataclass(frozen=True, slots=True)
class Misuse:
    """One way to use an editor wrongly. name: as in recipes. request: what the editor gets, its `edited` being the
    source. is_wrong: the picture cannot show what its sample asks for; without it, it may be as good as the edit.
    """

    name: str
    request: EditSample
    editor: EditAgain
    is_wrong: bool


def misuses(edit: AuditedEdit, edit_again: EditAgain | None, weakened: Mapping[str, EditAgain]) -> list[Misuse]:
    """All ways for an edit. weakened: editors with few steps, without guidance and so on, by what they lack."""
    sample = edit.sample
    ways: list[Misuse] = []
    if edit_again is not None:
        if (other := _other_instruction(edit)) is not None:
            ways.append(Misuse("asked for another edit", _request(sample, other), edit_again, is_wrong=True))
        ways += [
            Misuse("asked for nothing", _request(sample, ""), edit_again, is_wrong=True),
            Misuse("asked for something unrelated", _request(sample, _UNRELATED), edit_again, is_wrong=True),
            Misuse(
                "edited twice",
                EditSample(sample.id, sample.instruction, (sample.edited, *sample.sources[1:]), sample.edited),
                edit_again,
                is_wrong=False,
            ),
        ]
    ways += [
        Misuse(name, _request(sample, sample.instruction), editor, is_wrong=False) for name, editor in weakened.items()
    ]
    return ways


def _request(sample: EditSample, instruction: str) -> EditSample:
    """Without annotations: they are of the right instruction."""
    return EditSample(sample.id, instruction, sample.sources, sample.source, history=sample.history)


def _other_instruction(edit: AuditedEdit) -> str | None:
    """Another sample's, with hardly a word in common: two sources may have much the same instruction."""
    words = _words(edit.sample.instruction)
    for other in edit.others:
        common, both = words & _words(other.instruction), words | _words(other.instruction)
        if len(common) < _SAME_ASK * len(both):
            return other.instruction
    return None


def _words(instruction: str) -> set[str]:
    return set(instruction.casefold().split())
