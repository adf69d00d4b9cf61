"""Requests about the whole picture that are said in one way: turned, cropped, resized, more contrast, without colour.

Each is a whole clause. Objects in it are read as elsewhere; what is not one of these clauses is left to the verbs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from ...edit_plan import Kept, OperationType, Target
from .pictures import crop
from .request import Operations, Request
from .tokens import Token, Tokens, text_of, words_in

_PICTURE = r"(?:(?:the |this |my )?(?:whole |entire )?(?:image|picture|photo|photograph)|it|this)"
_SLIGHTLY = r"(?: (?:slightly|a bit|a little(?: bit)?|a lot))?"
_WAY = r"(?:to the (?:left|right)|left|right|clockwise|(?:counter|anti)-?clockwise|sideways)"
_TURNED = re.compile(rf"(?:rotate|turn)(?P<of> {_PICTURE})? (?P<value>(?:by )?\d+ degrees?(?: {_WAY})?|{_WAY})")
_FLIPPED = re.compile(r"(?:flip|mirror) (?P<value>horizontally|vertically|upside down)")
_CROPPED = re.compile(
    rf"crop(?: {_PICTURE})?(?: down)? (?:(?:in)?to|in) (?:a |an |the )?(?P<value>square(?: format| shape)?|\d+ : \d+"
    r"(?: aspect ratio| ratio| format)?|cent(?:er|re)|middle|(?:left|right|top|bottom|upper|lower)(?: left| right)? "
    r"(?:half|third|quarter))"
)
_CUT_OFF = re.compile(
    rf"crop (?:out|off) the (?P<side>left|right|top|bottom) (?P<share>half|third|quarter)(?: of {_PICTURE})?"
)
_SIZED = re.compile(
    rf"(?:resize|rescale|scale|shrink|enlarge|upscale|downscale)(?: {_PICTURE})?(?: (?:up|down))?(?: (?:to|by))? "
    r"(?P<value>\d+ ?(?:x|by) ?\d+(?: (?:pixels|px))?|\d+ (?:pixels|px) (?:wide|tall|high)|half|double|"
    r"half (?:of )?(?:its|the)(?: original)? size|half size|(?:double|twice) (?:its|the)(?: original)? size|"
    r"double size|\d+x|a factor of \d+)"
)
_PROPERTY = r"(?P<property>brightness|exposure|contrast|saturation|vibrance|warmth|sharpness)"
_TURNED_UP = re.compile(
    rf"(?:turn|tone|dial|bump|pump) (?:(?P<way>up|down) the {_PROPERTY}|the (?P<property2>\w+) (?P<way2>up|down))"
    rf"(?: (?:of|in) {_PICTURE})?{_SLIGHTLY}"
)
_MORE = re.compile(
    rf"(?:(?:add|use|apply|give {_PICTURE}) )?(?:a bit |a little |slightly )?(?P<way>more|less) {_PROPERTY}"
    rf"(?: to {_PICTURE})?"
)
_WITHOUT_COLOUR = re.compile(rf"remove (?:all |all the |the )?colou?rs?(?: (?:of|from|in) {_PICTURE})?")
_DESATURATED = re.compile(rf"desaturate (?P<what>{_PICTURE}|the colou?rs|the background){_SLIGHTLY}(?: completely)?")
_WARMED = re.compile(
    rf"(?P<way>warm|cool)(?: (?:up|down))? (?:{_PICTURE}|the (?:colou?rs|tones?)(?: of {_PICTURE})?)(?: (?:up|down))?"
    rf"{_SLIGHTLY}"
)
_COLDER = re.compile(rf"make {_PICTURE}(?: look)?{_SLIGHTLY} colder")
_LOOK = (
    r"(?P<value>black and white|gr[ae]yscale|monochrome|blurry|blurrier|blurred|darker|brighter|lighter|desaturated)"
)
_BACKGROUND = re.compile(rf"(?:make|turn|convert|change) the background (?:(?:in)?to )?{_LOOK}")
_LIGHT = ("brightness", "exposure", "darker", "brighter", "lighter", "darken", "brighten", "lighten")
_OF_SHARPNESS: OperationType = "restoration"
_OF_LIGHT: OperationType = "light"
_TYPES: Mapping[str, OperationType] = MappingProxyType({**dict.fromkeys(_LIGHT, _OF_LIGHT), "sharpness": _OF_SHARPNESS})
"""Of a property or a look; of others `filter`."""
_OPPOSITE = MappingProxyType({"left": "right", "right": "left", "top": "bottom", "bottom": "top"})
_REST = MappingProxyType({"half": "half", "third": "two thirds", "quarter": "three quarters"})


def pixel_operation(tokens: Tokens, request: Request) -> Operations | None:
    """What one of these clauses asks for; None for any other one."""
    words = words_in(tokens)
    if request.antecedent is not None and {"it", "this"} & set(words):
        return None  # an object that was named before
    text = " ".join(words)
    if match := _TURNED.fullmatch(text):
        if words[0] == "turn" and match["of"] is None:
            return None
        return request.operation("rotate", target=Target("image"), value=match["value"])
    if match := _FLIPPED.fullmatch(text):
        return request.operation("rotate", target=Target("image"), value=match["value"])
    if match := _CROPPED.fullmatch(text):
        return request.operation("crop", value=match["value"])
    if match := _CUT_OFF.fullmatch(text):
        return request.operation("crop", value=f"{_OPPOSITE[match['side']]} {_REST[match['share']]}")
    if match := _SIZED.fullmatch(text):
        return request.operation("resize", target=Target("image"), value=f"{words[0]} {match['value']}")
    if words[0] == "crop" and (object_start := _object_of_crop(words)):
        return crop("crop", [Token("it", "it"), Token("to", "to"), *tokens[object_start:]], request)
    return _look(text, request)


def _object_of_crop(words: list[str]) -> int:
    """Where the object begins in "crop tightly around the dog"; 0 where the picture is named, or no object is."""
    start = 2 if words[1:2] in (["tightly"], ["closely"], ["in"], ["down"]) else 1
    if words[start : start + 1] in (["to"], ["around"], ["on"]):
        return start + 1
    return 0


def _look(text: str, request: Request) -> Operations | None:
    if match := _TURNED_UP.fullmatch(text):
        what, way = match["property"] or match["property2"], match["way"] or match["way2"]
        if re.fullmatch(_PROPERTY, what) is None:
            return None
        return request.operation(
            _TYPES.get(what, "filter"), value=f"{'increase' if way == 'up' else 'decrease'} {what}"
        )
    if match := _MORE.fullmatch(text):
        what = match["property"]
        return request.operation(_TYPES.get(what, "filter"), value=f"{match['way']} {what}")
    if _WITHOUT_COLOUR.fullmatch(text):
        return request.operation("effect_remove", value="color")
    if match := _DESATURATED.fullmatch(text):
        target = Target("background") if match["what"] == "the background" else None
        return request.operation("filter", target=target, value="desaturated")
    if match := _WARMED.fullmatch(text):
        return request.operation("filter", value="warmer" if match["way"] == "warm" else "cooler")
    if _COLDER.fullmatch(text):
        return request.operation("filter", value="colder")
    if match := _BACKGROUND.fullmatch(text):
        return request.operation(
            _TYPES.get(match["value"], "filter"), target=Target("background"), value=match["value"]
        )
    return None


_BUT = r"(?:but|except(?: for)?|apart from|other than|besides)"
_ALL_BUT = re.compile(rf"(?P<verb>blur|darken|brighten|lighten|desaturate) everything {_BUT} (?P<object>.+)")
_MADE_ALL_BUT = re.compile(
    rf"(?:make|turn) everything (?:(?:in)?to )?{_LOOK} {_BUT} (?P<object>.+)"
    rf"|(?:make|turn) everything {_BUT} (?P<object2>.+?) (?:(?:in)?to )?{_LOOK.replace('value', 'value2')}"
)
_MADE = MappingProxyType(
    {"blur": "blurred", "darken": "darkened", "brighten": "brightened", "lighten": "lightened"}
    | {"desaturate": "desaturated"}
)


def all_but(tokens: Tokens, request: Request) -> tuple[Operations, Kept] | None:
    """`blur everything but the cat`: another look of the background, and what stays before it; None for others."""
    text = " ".join(words_in(tokens))
    if match := _ALL_BUT.fullmatch(text):
        value, name = _MADE[match["verb"]], match["object"]
        kind = _TYPES.get(match["verb"], "filter")
    elif match := _MADE_ALL_BUT.fullmatch(text):
        value, name = match["value"] or match["value2"], match["object"] or match["object2"]
        kind = _TYPES.get(value, "filter")
    else:
        return None
    start = next(
        (index for index in range(len(tokens)) if " ".join(words_in(tokens[index:])).startswith(f"{name}")), None
    )
    if start is None:
        return None
    phrase = request.target(tokens[start : start + len(name.split())])
    if phrase is None or phrase.pronoun or phrase.article == "a":
        return None
    made = request.operation(kind, target=Target("background"), value=value)
    return None if made is None else (made, Kept("object", phrase.target, text_of(tokens)))
