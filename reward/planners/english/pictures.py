"""Operations on the whole picture, and on objects as they are: light, filters, turning, scaling, cropping, copying."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from ...edit_plan import Kept, OperationType, Target
from ...metrics.any_edit.instruction_words import word_set
from . import lexicon as lex
from .lexicon import by_word
from .noun_phrases import Operations, Request, objects_of, phrase_at, with_pronoun_resolved
from .replacements import change_object
from .sentences import Token, Tokens, first_at, scene_end, stripped, text_of, words_in
from .values import head_of, is_description, is_filter, is_style, is_viewpoint, plain_text

_WAYS = word_set(
    "up down left right closer further farther away back to the higher lower in out forward forwards backward "
    "backwards around slightly a bit little from above below behind downwards upwards"
)
_PICTURE_PROPERTIES: Mapping[str, OperationType] = by_word(
    {
        "light": "brightness exposure lighting light",
        "filter": "contrast saturation warmth vibrance",
        "restoration": "sharpness noise blur",
    }
)
_SIZING = word_set("increase decrease reduce double triple halve")
_ROTATION_WORDS = word_set(
    "by degrees degree ° 90 180 45 270 360 30 60 15 clockwise counterclockwise counter-clockwise anticlockwise "
    "anti-clockwise horizontally vertically sideways upside down to the left right over around slightly"
)
_RESIZE_WORDS = word_set("by to slightly up down half twice double its original size the percent a bit little of")
_CANVASES = [["the", word] for word in ("background", "canvas", "frame")]
_REFRAME_WORDS = word_set("to on at by the left right top bottom side sides both all upwards downwards up down and")
_POSE_ENDS = word_set("to up down towards toward away back over into")
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
_TYPES: Mapping[str, OperationType] = by_word(
    {"light": "brightness exposure darker brighter lighter darken brighten lighten", "restoration": "sharpness"}
)
"""Of a property or a look; of others `filter`."""
_OPPOSITE = MappingProxyType({"left": "right", "right": "left", "top": "bottom", "bottom": "top"})
_REST = MappingProxyType({"half": "half", "third": "two thirds", "quarter": "three quarters"})
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


def render(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`render the image as a sketch`."""
    if verb == "show":
        return _shown(tokens, request)
    index = first_at(tokens, ("as", "in", "into", "like", "to"))
    look = tokens[index + 1 :]
    if index == len(tokens) or not request.is_scene(tokens[:index]):
        return None
    if is_filter(look):
        return request.operation("filter", value=plain_text(look))
    return request.operation("style", value=plain_text(look)) if is_style(look) else None


def _shown(tokens: Tokens, request: Request) -> Operations | None:
    """`show it from above`: another viewpoint."""
    for index, token in enumerate(tokens):
        if token.word != "from" or not index or not is_viewpoint(tokens[index + 1 :]):
            continue
        value = text_of(tokens[index:])
        if request.is_scene(tokens[:index]):
            return request.operation("camera", value=value)
        return request.on(request.definite(tokens[:index]), "camera", value=value)
    return None


def camera(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`move the camera closer`, `tilt the camera up`."""
    words = words_in(tokens)
    start = words.index("camera") + 1
    rest = words[start:]
    return request.operation("camera", value=" ".join([verb, *rest])) if rest and set(rest) <= _WAYS else None


def fragment(tokens: Tokens, request: Request) -> Operations | None:
    """A look alone: "as a watercolor painting", "in the style of Van Gogh"."""
    words = words_in(tokens)
    is_look = words[0] == "as" and words[1:2] in (["a"], ["an"]) and len(words) <= 10
    is_named = words[:4] == ["in", "the", "style", "of"] and len(words) <= 12
    is_alone = (is_look or is_named) and is_style(tokens[1:])
    return request.operation("style", value=plain_text(tokens[1:])) if is_alone else None


def light(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`brighten the image`."""
    tokens = stripped(tokens, ("up",), ("up", "slightly", "bit", "a", "little", "down"))
    words = words_in(tokens)
    if not tokens or (verb == "dim" and words[-1:] == ["lights"] and len(words) == 2):
        return None
    value = f"{verb.rstrip('e')}ed"
    if request.is_scene(tokens):
        return request.operation("light", value=value)
    target = request.known(tokens)
    if target is None or target.target.noun.split()[-1] in ("color", "colour", "tone", "mood"):
        return None
    return request.on(target, "light", value={"dim": "dimmed"}.get(verb, value))


def apply_look(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`apply a sepia filter (to the image)`, `apply a blur to the background`."""
    index = first_at(tokens, ("to",))
    applied, owner = tokens[:index], tokens[index + 1 :]
    head = head_of(words_in(applied))
    is_whole = not owner or request.is_scene(owner)
    if not is_description(applied, 8):
        return None
    if head in ("filter", "tone", "tones", "tint") and is_whole:
        return request.operation("filter", value=plain_text(applied))
    if head == "effect" and is_style(applied[:-1]):
        head = "style"
    if head not in ("style", "blur"):
        return None
    kind: OperationType = "style" if head == "style" else "filter"
    if is_whole:
        return request.operation(kind, value=plain_text(applied))
    return request.on(request.target(owner), kind, value=plain_text(applied))


def change_degree(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`increase the contrast`, `reduce the size of the ball`."""
    if verb == "adjust":
        return change_object("change", tokens, request)
    tokens = stripped(tokens, last=("bit", "little", "slightly", "a", "lot"))
    words = words_in(tokens)
    core = [word for word in words if word not in lex.ARTICLES and word not in ("overall", "slightly")]
    if not core:
        return None
    if core[0] in _PICTURE_PROPERTIES:
        rest = tokens[words.index(core[0]) + 1 :]
        if rest and scene_end(rest, 0) != len(rest):
            return None
        return request.operation(_PICTURE_PROPERTIES[core[0]], value=f"{verb} {core[0]}")
    if core[0] in ("number", "count") and core[1:2] == ["of"]:
        return change_object("change", tokens, request)
    if core[0] not in ("size", "scale") or core[1:2] != ["of"] or verb not in _SIZING:
        return None
    return request.on(request.target(tokens[words.index("of") + 1 :]), "resize", value=f"{verb} size")


def rotate(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`rotate the chair to the left`, `flip the image`."""
    words = words_in(tokens)
    end = first_at(tokens, _ROTATION_WORDS)
    tail = words[end:]
    if not tokens or not all(word in _ROTATION_WORDS or word.isdecimal() for word in tail):
        return None
    if request.is_scene(tokens[:end]):
        return request.operation("rotate", target=Target("image"), value=" ".join(tail))
    return request.on(request.known(tokens[:end]), "rotate", value=" ".join(tail))


def crop(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`crop the image to the dog`."""
    index = first_at(tokens, ("to", "around"))
    if not tokens or not request.is_scene(tokens[:index]):
        return None
    rest = tokens[index + 1 :]
    if not rest:
        return request.operation("crop") if index == len(tokens) else None
    rest = stripped(rest, ("show", "only", "just", "focus", "on"))
    target = request.definite(rest)
    if target is not None:
        return request.on(target, "crop")
    return request.operation("crop", value=plain_text(rest)) if is_description(rest, 8) else None


def zoom(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`zoom in on the flower`."""
    value = verb.removeprefix("zoom ")
    if value == verb:
        return None
    words = words_in(tokens)
    while words and words[0] in ("slightly", "a", "bit", "little", "closer", "more"):
        if words[0] == "a" and words[1:2] not in (["bit"], ["little"]):
            break
        words, tokens = words[1:], tokens[1:]
    if not tokens or scene_end(tokens, 0) == len(tokens):
        return request.operation("zoom", value=value)
    if words[0] in ("on", "to", "onto", "from", "of"):
        return request.on(request.target(tokens[1:]), "zoom", value=value)
    return None


def soften(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`blur the background`."""
    tokens = stripped(tokens, ("out",), ("slightly", "out"))
    value = {"blur": "blurred", "pixelate": "pixelated", "soften": "softened", "defocus": "defocused"}[verb]
    if request.is_scene(tokens):
        return request.operation("filter", value=value)
    objects = objects_of(tokens, request) if tokens else None
    if objects is None or len(objects) != 1 or request.is_unnamed(objects[0]):
        return None
    return request.operation("filter", target=objects[0].target, value=value)


def restore(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`sharpen the image`, `restore the old photo`."""
    if request.is_scene(tokens) or (not tokens and verb in ("denoise", "deblur", "upscale")):
        return request.operation("restoration", value=f"{verb.removesuffix('e')}ed")
    *before, last = [word for word in words_in(tokens) if word not in lex.DETERMINERS] or [""]
    is_old = last in lex.SCENES and set(before) <= {"old", "damaged", "blurry", "faded"}
    return request.operation("restoration", value=f"{verb.removesuffix('e')}ed") if is_old else None


def resize(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`enlarge the cat`."""
    words = words_in(tokens)
    end = first_at(tokens, ("by", "to", "slightly", "up", "down"))
    tail = words[end:]
    is_read = all(word in _RESIZE_WORDS or word.isdecimal() for word in tail)
    if not tokens or not is_read or request.is_scene(tokens[:end]):
        return None
    return request.on(request.known(tokens[:end]), "resize", value=" ".join([verb, *tail]))


def reframe(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`extend the image to the left`."""
    words = words_in(tokens)
    end = first_at(tokens, ("to", "on", "at", "by"))
    is_picture = request.is_scene(tokens[:end]) or words[:end] in _CANVASES
    if not end or not is_picture or not set(words[end:]) <= _REFRAME_WORDS:
        return None
    return request.operation("reframe", value=" ".join([verb, *words[end:]]))


def duplicate(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`duplicate the tree`."""
    phrase = phrase_at(tokens)
    if phrase is None or phrase.article == "a" or phrase.target.noun in lex.SCENES:
        return None
    rest = tokens[phrase.end :]
    words = words_in(rest)
    is_placed = words[:2] == ["and", "place"] and is_description(rest, 12)
    if not is_placed and words not in ([], ["twice"], ["once"], ["three", "times"]):
        return None
    return request.on(phrase, "duplicate")


def pose(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`raise the person's right arm`: a part of a body is put elsewhere."""
    words = words_in(tokens)
    end = first_at(tokens, _POSE_ENDS)
    if end == len(tokens) > 2 and words[-1] in ("left", "right", "forward", "sideways"):
        end -= 1
    phrase = phrase_at(tokens[:end])
    if phrase is None or phrase.article == "a" or phrase.target.relation is None:
        return None
    rest = tokens[phrase.end :]
    if phrase.target.noun.split()[-1] not in lex.BODY_PARTS or not is_description(rest, 8):
        return None
    resolved = with_pronoun_resolved(phrase, request.antecedent)
    return request.on(resolved, "pose", value=" ".join([verb, *words_in(rest)]))


def pixel_operation(tokens: Tokens, request: Request) -> Operations | None:
    """What one of these clauses asks for; None for any other one."""
    words = words_in(tokens)
    if request.antecedent is not None and {"it", "this"} & set(words):
        return None  # an object that was named before
    text = " ".join(words)
    if match := _TURNED.fullmatch(text) or _FLIPPED.fullmatch(text):
        if words[0] == "turn" and match["of"] is None:
            return None
        return request.operation("rotate", target=Target("image"), value=match["value"])
    if match := _CROPPED.fullmatch(text):
        return request.operation("crop", value=match["value"])
    if match := _CUT_OFF.fullmatch(text):
        return request.operation("crop", value=f"{_OPPOSITE[match['side']]} {_REST[match['share']]}")
    if match := _SIZED.fullmatch(text):
        return request.operation("resize", target=Target("image"), value=f"{words[0]} {match['value']}")
    start = 2 if words[1:2] in (["tightly"], ["closely"], ["in"], ["down"]) else 1
    if words[0] == "crop" and words[start : start + 1] in (["to"], ["around"], ["on"]):  # "tightly around the dog"
        return crop("crop", [Token("it", "it"), Token("to", "to"), *tokens[start + 1 :]], request)
    return _look(text, request)


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
    tails = (index for index in range(len(tokens)) if " ".join(words_in(tokens[index:])).startswith(name))
    start = next(tails, len(tokens))
    phrase = request.definite(tokens[start : start + len(name.split())])
    if phrase is None or phrase.pronoun:
        return None
    made = request.operation(kind, target=Target("background"), value=value)
    return None if made is None else (made, Kept("object", phrase.target, text_of(tokens)))
