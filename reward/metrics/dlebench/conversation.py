"""A conversation with a judge that may call tools before its verdict, and the three tools of DLEBench for one edit.

Conversations work with any judge that answers `FreeText`: the grammar is plain text (see `replies`). After each reply
without a verdict follows one user message with the results of all its calls, in order. Errors are reported to the judge
in place of results, and use up the turn:

- a malformed call, an unknown tool or wrong parameters: the message states the error;
- a tool whose expert fails or abstains: the message states that the tool could not answer (the reason is in the
  evidence), and the conversation continues;
- a reply with a call and a verdict, with two verdicts, or with neither: the message states the error, and none of its
  calls is run;
- text after the calls of a reply, such as invented results, is removed from the conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...engine.program import Program, Unanswered, ask
from ...image import Image
from ...queries.kinds import Judge
from ...queries.parsing import parse_json
from ...queries.response_formats import Message, Tool, ToolCall
from ...score import Evidence
from ..prompted_metric import object_schema
from .replies import FinalAnswer, MalformedReply, ToolCallReply, parse_tool_reply
from .tools import Observation, ToolError, detect_program, localize_program, zoom_program

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


SOURCE, EDITED = "Source Image", "Edited Image"

OBJECT_NAMES = ("substring", "words")
"""What a judge may have detected: a part of the instruction, or words of it in any order."""

_ARTICLES = frozenset({"a", "an", "the"})

_NAMES = {"sourceimage": SOURCE, "originalimage": SOURCE, "editedimage": EDITED}
"""The paper's prompts use Source Image, its examples Original Image."""


def _tool(name: str, description: str, **parameters: object) -> Tool:
    return Tool(name, description, json.dumps(object_schema(**parameters)))


# Image names are plain strings in the schema and checked below, so that other spellings are accepted.
ZOOM = _tool(
    "zoom_in_image",
    "Shows a part of an image, enlarged where it is small.",
    bbox_2d={"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4},
    target_image={"type": "string"},
)
LOCALIZE = _tool(
    "localize_differences",
    "Compares two images pixel by pixel and shows each region that differs, as a pair of crops.",
    comparison_image_1={"type": "string"},
    comparison_image_2={"type": "string"},
)
DETECT = _tool(
    "detect_object",
    "Looks for an object in an image and draws a box around it.",
    target_image={"type": "string"},
    detect_object_name={"type": "string"},
)


def offered_tools(
    source: Image,
    edited: Image,
    instruction: str,
    *,
    regions: int,
    threshold: float,
    enhance_below: int,
    object_names: str = "substring",
) -> tuple[OfferedTool, ...]:
    """The tools for two images of one size. Only what the instruction names, by `object_names`, is detected."""
    pictures = {SOURCE: source, EDITED: edited}

    def zoom_in(arguments: Mapping[str, Any]) -> Program[Observation]:
        name = resolve_image_name(arguments["target_image"])
        return zoom_program(pictures[name], arguments["bbox_2d"], name, enhance_below)

    def differences(arguments: Mapping[str, Any]) -> Program[Observation]:
        if resolve_image_name(arguments["comparison_image_1"]) == resolve_image_name(arguments["comparison_image_2"]):
            raise ToolError(f"both images are the same one: compare {SOURCE} and {EDITED}")
        return localize_program(source, edited, regions, enhance_below, (SOURCE, EDITED))

    def detect(arguments: Mapping[str, Any]) -> Program[Observation]:
        name, object_name = resolve_image_name(arguments["target_image"]), str(arguments["detect_object_name"])
        if not _is_named(object_name, instruction, object_names):
            raise ToolError(
                f"{object_name!r} is not a part of the editing instruction: copy the object's name from it"
                if object_names == "substring"
                else f"{object_name!r} has words that the editing instruction lacks: name the object in its words"
            )
        return detect_program(pictures[name], " ".join(object_name.split()), name, threshold)

    return (OfferedTool(ZOOM, zoom_in), OfferedTool(LOCALIZE, differences), OfferedTool(DETECT, detect))


def resolve_image_name(image: str) -> str:
    """The canonical name of an image, ignoring case and spaces. Raises `ToolError`."""
    name = _NAMES.get(re.sub(r"[\s_]+", "", image).casefold())
    if name is None:
        raise ToolError(f"there is no image {image!r}: there are {SOURCE} and {EDITED}")
    return name


def _is_named(name: str, instruction: str, object_names: str) -> bool:
    if object_names == "substring":
        return bool(name.strip()) and _plain(name) in _plain(instruction)
    words = set(re.findall(r"\w+", name.casefold())) - _ARTICLES
    return bool(words) and words <= set(re.findall(r"\w+", instruction.casefold()))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
