"""A conversation with a judge that may call tools before its verdict. Independent of the benchmark.

Works with any judge that answers `FreeText`: the grammar is plain text (see `tool_replies`). After each reply without a
verdict follows one user message with the results of all its calls, in order. Errors are reported to the judge in place
of results, and use up the turn:

- a malformed call, an unknown tool or wrong parameters: the message states the error;
- a tool whose expert fails or abstains: the message states that the tool could not answer (the reason is in the
  evidence), and the conversation continues;
- a reply with a call and a verdict, with two verdicts, or with neither: the message states the error, and none of its
  calls is run;
- text after the calls of a reply, such as invented results, is removed from the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...engine.program import Program, Unanswered, ask
from ...image import Image
from ...queries.kinds import Judge
from ...queries.parsing import parse_json
from ...queries.response_formats import Message, Tool, ToolCall
from ...score import Evidence
from .tool_replies import FinalAnswer, MalformedReply, ToolCallReply, parse_tool_reply
from .tools import Observation, ToolError

MAX_TOOL_CALLS = 8
"""Maximum number of calls per reply."""

TurnPrompt = Callable[[int], str]
"""Remaining replies of the judge -> the text below the results of a turn."""


class NoVerdict(Exception):
    """The judge gave no verdict within its turns. The evidence holds its replies."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool and its implementation. run: parameters -> program; may raise `ToolError`."""

    tool: Tool
    run: Callable[[Mapping[str, Any]], Program[Observation]]


def run_conversation(
    question: Judge,
    tools: Sequence[OfferedTool],
    parse_verdict: Callable[[str], str],
    *,
    max_turns: int,
    turn_prompt: TurnPrompt,
    evidence: list[Evidence],
) -> Program[str]:
    """The verdict of a judge that may use tools. max_turns: maximum number of replies of the judge.

    parse_verdict: reply text -> verdict, or raises ValueError with the reason. evidence: extended during the
    conversation. Raises `NoVerdict`.
    """
    by_name = {offered.tool.name: offered for offered in tools}
    problem = ""
    for turns_left in reversed(range(max_turns)):
        reply = yield from ask(question)
        evidence.append(Evidence(f"reply {max_turns - turns_left}", text=reply.text))
        step = parse_tool_reply(reply, parse_verdict)
        if isinstance(step, FinalAnswer):
            return step.label
        problem = step.reason if isinstance(step, MalformedReply) else "it asked for tools"
        if not turns_left:
            break
        if isinstance(step, ToolCallReply):
            text, content = step.text, (yield from _run_tool_calls(step, by_name, evidence))
        else:
            text, content = reply.text, [f"Your reply cannot be used: {problem}."]
            evidence.append(Evidence("told the judge", text=problem))
        answer = (Message((text,), "assistant"), Message((*content, turn_prompt(turns_left))))
        question = replace(question, messages=(*question.messages, *answer))
    raise NoVerdict(f"the judge came to no verdict in {max_turns} replies; of the last one: {problem}")


def _run_tool_calls(
    step: ToolCallReply, tools: Mapping[str, OfferedTool], evidence: list[Evidence]
) -> Program[list[str | Image]]:
    """The results of the calls of a reply, in order."""
    parts: list[str | Image] = []
    for position, call in enumerate(step.calls, 1):
        name = call.name if isinstance(call, ToolCall) and call.name in tools else "call"
        if position > MAX_TOOL_CALLS:
            observation = Observation(f"not done: no more than {MAX_TOOL_CALLS} calls are made at once.")
        elif isinstance(call, MalformedReply):
            observation = Observation(f"not done: {call.reason}.")
        else:
            observation = yield from _run_tool_call(call, tools, evidence)
        digest = observation.image.digest if observation.image is not None else ""
        evidence.append(Evidence(f"told the judge: {name}", digest, observation.boxes, observation.text))
        parts += [f"Result {position} of {len(step.calls)}, {name}: {observation.text}", *observation.pictures]
        if position > MAX_TOOL_CALLS:
            break
    return parts


def _run_tool_call(call: ToolCall, tools: Mapping[str, OfferedTool], evidence: list[Evidence]) -> Program[Observation]:
    """The tool's observation, or the error of the call."""
    offered = tools.get(call.name)
    if offered is None:
        return Observation(f"not done: there is no tool of this name. There are {', '.join(tools)}.")
    try:
        parameters = parse_json(offered.tool.parameters, call.arguments)
    except (ValueError, RecursionError) as error:
        return Observation(f"not done: its parameters do not fit, {error}.")
    try:
        return (yield from offered.run(parameters))
    except ToolError as error:
        return Observation(f"not done: {error}.")
    except Unanswered as unanswered:
        evidence.append(Evidence(f"{call.name} did not answer", text=unanswered.reason))
        return Observation("the tool could not answer. Go on without it, or ask otherwise.")
