"""What is missing for a score, and what to type: the one place of these sentences.

They are spelled for Python, as in `boxes={"cup": [[x0, y0, x1, y1]]}` and `experts="small"`; whoever shows them to
people who type something else has them respelled (`for_command`, `for_rows`, `for_page`).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

_MODELS = 'experts="small"'
_DETECTOR = 'experts="laptop"'  # bundles: with a judge, and with a detector alone
_NO_JUDGE = "no judge looks at the pictures"
_CORNERS = ["x0", "y0", "x1", "y1"]
UNKNOWN_POOLS = "what must stay is not known: give `pools`, or `boxes` and operations that can be read"
"""Of a metric that compares what no instruction touches."""
_BOXES_ARGUMENT = re.compile(r"boxes=(\{.*?\]\]\})")
_BOXES_SENTENCE = re.compile(r"give (all, )?boxes=\{.*?\]\]\},? in pixels(?: of the source)?")
_EXPERTS_ARGUMENT = re.compile(r'experts="(\w+)"')


def _boxes(counts: Mapping[str, int]) -> str:
    """The argument that gives as many boxes of these objects."""
    given = json.dumps({name: [_CORNERS] * count for name, count in counts.items()}, ensure_ascii=False)
    return f"boxes={given}".replace('"x0", "y0", "x1", "y1"', "x0, y0, x1, y1")


def _named(names: Iterable[str]) -> str:
    return " and ".join(f"{name!r:.80}" for name in names)


# -- of experts --------------------------------------------------------------------------------------------------------


def _no_box_of(phrase: str) -> str:
    return f"no box for {phrase!r:.200} among the annotations of this sample"


def no_box(phrase: str, given: Sequence[str]) -> str:
    """Nothing is annotated by this name. given: what is."""
    return (
        f"{_no_box_of(phrase)} ({', '.join(given) or 'there are none'}): give {_boxes({phrase: 1})}, in pixels of the "
        f"source, or bind a detector, as in {_DETECTOR}"
    )


def says_no_box(reason: str, phrase: str = "") -> bool:
    """Whether a reason is that of `no_box`, of this name if one is given."""
    return reason.startswith(_no_box_of(phrase) if phrase else "no box for ")


def no_judge(topic: str) -> str:
    """A question for somebody who looks, and none but a judge of colours is bound. topic: of the question."""
    return f"{_NO_JUDGE} (asked: {topic or 'another question'}): bind one, as in {_MODELS}"


def says_no_judge(reason: str) -> bool:
    """Whether a reason is that of `no_judge`."""
    return reason.startswith(_NO_JUDGE)


def unknown_colour(value: str, known: Sequence[str]) -> str:
    """A colour that the judge of colours has no name for."""
    return (
        f"a colour judge cannot tell {value!r:.80}: it knows {', '.join(known)}, and shades of one; name one of these, "
        f"or bind a judge, as in {_MODELS}"
    )


def not_matched(name: str, problem: str) -> str:
    """A box whose content cannot be found again. problem: with it."""
    return (
        f"{name!r:.80} cannot be detected: {problem}; give a box with all of its outline, or bind a detector, as in "
        f"{_DETECTOR}"
    )


def no_plan(sentence: str, unread: str) -> str:
    """A sentence that the rules do not read. unread: the part that stopped them, if known."""
    part = f", and {unread!r:.100} is not read" if unread else ""
    return (
        f"{sentence!r:.200} is not a request that the rules read in every word{part}: say it in simpler words, as in "
        f'"Make the mug blue", or bind a judge, which reads any language, as in {_MODELS}, or give the sample a `plan`'
    )


# -- of metrics --------------------------------------------------------------------------------------------------------


def no_form(instruction: str) -> str:
    """An instruction that EdiVal's parser does not read, in a sample without a task."""
    return (
        f"instruction {instruction!r} is none of EdiVal's nine forms: give the sample its task, as in "
        'EditSample(..., task=Task("color_alter", object="cup", value="blue"))'
    )


def asks_for_fields(reason: str) -> bool:
    """Whether a score is not applicable for want of fields of the sample, and not for what it shows."""
    return reason == UNKNOWN_POOLS or " is none of EdiVal's nine forms: " in reason


# -- of operations -----------------------------------------------------------------------------------------------------


def needs_boxes(counts: Mapping[str, int], given: Sequence[str]) -> str:
    """As many boxes of these objects would decide an operation. given: names that have boxes, and are not of use."""
    other = f" (there is one of {_named(given[:4])}, which the instruction does not name so)" if given else ""
    return (
        f"there is no box of {_named(counts)} in the source{other}: give {_boxes(counts)} in pixels, or bind a "
        f"detector, as in {_DETECTOR}"
    )


def needs_more_boxes(name: str, wanted: int, given: int) -> str:
    """The instruction is about more objects than have boxes."""
    return (
        f"the instruction is about {wanted} of {name!r:.80}, and {given} of them {'has' if given == 1 else 'have'} a "
        f"box: give all, {_boxes({name: wanted})} in pixels"
    )


def needs_models(change: str, *, detector: bool = False) -> str:
    """Only a model that looks can tell. change: the operation in words. detector: whether a detector will do."""
    return (
        f"only a model that looks at the picture can tell whether {change!r:.120} was done: bind one, as in "
        f"{_DETECTOR if detector else _MODELS}"
    )


def needs_readable_text(text: str) -> str:
    """A text that is to be removed, and that no reader sees in the source."""
    return (
        f"{f'{text!r:.80} is' if text else 'which text it is about is'} not to be read in the source: quote it as it "
        f"stands there, or bind a judge, as in {_MODELS}"
    )


# -- spellings ---------------------------------------------------------------------------------------------------------


def for_command(text: str) -> str:
    """A sentence for the command line."""
    text = _BOXES_ARGUMENT.sub(lambda given: f"--boxes {shlex.quote(given[1])}", text)
    return _EXPERTS_ARGUMENT.sub(r"--experts \1", text)


def for_rows(text: str) -> str:
    """A sentence for who scores the rows of a file with a command."""
    text = _BOXES_ARGUMENT.sub(r'the row "boxes": \1', text)
    return _EXPERTS_ARGUMENT.sub(r"--experts \1", text)


def for_page(text: str) -> str:
    """A sentence for the page of `editcritic app`, where boxes are drawn and experts have a list."""
    text = _BOXES_SENTENCE.sub(
        lambda found: f"draw {'all' if found[1] or found[0].count('x0') > 1 else 'one'} on the source", text
    )
    return _EXPERTS_ARGUMENT.sub(r"\1 under Experts", text)
