"""A conversation with a judge that may ask for tools before it comes to a verdict. Knows no benchmark.

Works with any judge that answers `FreeText`: the grammar is plain text (see `replies`). One observation, a user's
message with the results of all calls of a reply in their order, follows each reply that is no verdict. What cannot be
done is told to the judge in its place, and costs it the turn:

- a call that is malformed, of an unknown tool, or with wrong parameters is answered with what is wrong about it;
- a tool whose expert fails or abstains is answered with that it could not answer (why is in the evidence), and the
  conversation goes on: the judge may still know, or say so;
- a reply with a call and a verdict, with two verdicts, or with none of both is answered with what is wrong; none of
  its calls is made;
- what a judge writes behind its calls, as if it were their results, is taken out of the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..asking import Asks, Unanswered, ask
from ..forms import Message, Tool, ToolCall
from ..image import Image
from ..query import Judge
from ..reading import said_json
from ..score import Evidence
from .replies import Calls, Malformed, Verdict, read_reply
from .tools import Observation, ToolError

MOST_CALLS = 8
"""Calls of one reply that are made."""

Words = Callable[[int], str]
"""What is said below the results of a turn, given how many replies the judge has left."""


class NoVerdict(Exception):
    """The judge came to none within its turns. The evidence holds what it said."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool that a judge is offered. use: the program for its parameters; may raise `ToolError`."""

    tool: Tool
    use: Callable[[Mapping[str, Any]], Asks[Observation]]


def converse(
    question: Judge,
    tools: Sequence[Offered],
    verdict: Callable[[str], str],
    *,
    turns: int,
    words: Words,
    evidence: list[Evidence],
) -> Asks[str]:
    """The verdict of a judge that may use tools. turns: most replies of the judge.

    verdict: reads it from a reply, or raises ValueError with what is wrong. evidence: is added to as things happen.
    Raises `NoVerdict`.
    """
    by_name = {offered.tool.name: offered for offered in tools}
    trouble = ""
    for left in reversed(range(turns)):
        reply = yield from ask(question)
        evidence.append(Evidence(f"reply {turns - left}", text=reply.text))
        step = read_reply(reply, verdict)
        if isinstance(step, Verdict):
            return step.label
        trouble = step.why if isinstance(step, Malformed) else "it asked for tools"
        if not left:
            break
        if isinstance(step, Calls):
            said, parts = step.said, (yield from _observed(step, by_name, evidence))
        else:
            said, parts = reply.text, [f"Your reply cannot be used: {trouble}."]
            evidence.append(Evidence("told the judge", text=trouble))
        answer = (Message((said,), "assistant"), Message((*parts, words(left))))
        question = replace(question, messages=(*question.messages, *answer))
    raise NoVerdict(f"the judge came to no verdict in {turns} replies; of the last one: {trouble}")


def _observed(step: Calls, tools: Mapping[str, Offered], evidence: list[Evidence]) -> Asks[list[str | Image]]:
    """What comes of the calls of a reply, in their order."""
    parts: list[str | Image] = []
    for place, call in enumerate(step.wanted, 1):
        name = call.name if isinstance(call, ToolCall) and call.name in tools else "call"
        if place > MOST_CALLS:
            found = Observation(f"not done: no more than {MOST_CALLS} calls are made at once.")
        elif isinstance(call, Malformed):
            found = Observation(f"not done: {call.why}.")
        else:
            found = yield from _result(call, tools, evidence)
        where = found.of.digest if found.of is not None else ""
        evidence.append(Evidence(f"told the judge: {name}", where, found.boxes, found.text))
        parts += [f"Result {place} of {len(step.wanted)}, {name}: {found.text}", *found.pictures]
        if place > MOST_CALLS:
            break
    return parts


def _result(call: ToolCall, tools: Mapping[str, Offered], evidence: list[Evidence]) -> Asks[Observation]:
    """What a call comes to: the tool's observation, or what is wrong with the call."""
    offered = tools.get(call.name)
    if offered is None:
        return Observation(f"not done: there is no tool of this name. There are {', '.join(tools)}.")
    try:
        parameters = said_json(offered.tool.parameters, call.arguments)
    except (ValueError, RecursionError) as error:
        return Observation(f"not done: its parameters do not fit, {error}.")
    try:
        return (yield from offered.use(parameters))
    except ToolError as error:
        return Observation(f"not done: {error}.")
    except Unanswered as unanswered:
        evidence.append(Evidence(f"{call.name} did not answer", text=unanswered.reason))
        return Observation("the tool could not answer. Go on without it, or ask otherwise.")
