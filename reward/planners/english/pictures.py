"""Operations on the whole picture, and on objects as they are: light, filters, turning, scaling, copying."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...edit_plan import OperationType, Target
from .lexicon import ARTICLES, BODY_PARTS, DETERMINERS, SCENES, word_set
from .noun_phrases import phrase_at, with_pronoun_resolved
from .places import scene_end
from .replacements import change_object
from .request import Operations, Request, objects_of
from .tokens import Tokens, text_of, words_in
from .values import head_of, is_description, is_filter, is_style, is_viewpoint, plain_text


def render(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`render the image as a sketch`."""
    if verb == "show":
        return _shown(tokens, request)
    for index, token in enumerate(tokens):
        if token.word in ("as", "in", "into", "like", "to") and index:
            if not request.is_scene(tokens[:index]):
                return None
            if is_filter(tokens[index + 1 :]):
                return request.operation("filter", value=plain_text(tokens[index + 1 :]))
            return (
                request.operation("style", value=plain_text(tokens[index + 1 :]))
                if is_style(tokens[index + 1 :])
                else None
            )
    return None


def _shown(tokens: Tokens, request: Request) -> Operations | None:
    """`show it from above`: another viewpoint."""
    for index, token in enumerate(tokens):
        if token.word != "from" or not index or not is_viewpoint(tokens[index + 1 :]):
            continue
        value = text_of(tokens[index:])
        if request.is_scene(tokens[:index]):
            return request.operation("camera", value=value)
        target = request.target(tokens[:index])
        is_clear = target is not None and target.article != "a"
        return request.operation("camera", target=target.target, value=value) if target and is_clear else None
    return None


def camera(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`move the camera closer`, `tilt the camera up`."""
    words = words_in(tokens)
    start = words.index("camera") + 1
    rest = words[start:]
    return request.operation("camera", value=" ".join([verb, *rest])) if rest and set(rest) <= _WAYS else None


_WAYS = word_set(
    "up down left right closer further farther away back to the higher lower in out forward forwards backward "
    "backwards around slightly a bit little from above below behind downwards upwards"
)


def fragment(tokens: Tokens, request: Request) -> Operations | None:
    """A look alone: "as a watercolor painting", "in the style of Van Gogh"."""
    words = words_in(tokens)
    if words[0] == "as" and words[1:2] in (["a"], ["an"]) and len(words) <= 10 and is_style(tokens[1:]):
        return request.operation("style", value=plain_text(tokens[1:]))
    if words[:4] == ["in", "the", "style", "of"] and len(words) <= 12 and is_style(tokens[1:]):
        return request.operation("style", value=plain_text(tokens[1:]))
    return None


def light(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`brighten the image`."""
    words = words_in(tokens)
    while words and words[-1] in ("up", "slightly", "bit", "a", "little", "down"):
        words, tokens = words[:-1], tokens[:-1]
    while words and words[0] in ("up",):
        words, tokens = words[1:], tokens[1:]
    if not tokens or (verb == "dim" and words[-1:] == ["lights"] and len(words) == 2):
        return None
    if request.is_scene(tokens):
        return request.operation("light", value=f"{verb}ed" if not verb.endswith("e") else f"{verb}d")
    target = request.target(tokens)
    if target is None or target.article == "a" or request.is_unnamed(target):
        return None
    if target.target.noun.split()[-1] in ("color", "colour", "tone", "mood"):
        return None
    return request.operation("light", target=target.target, value={"dim": "dimmed"}.get(verb, f"{verb.rstrip('e')}ed"))


def apply_look(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`apply a sepia filter (to the image)`, `apply a blur to the background`."""
    index = next((number for number, token in enumerate(tokens) if token.word == "to" and number), len(tokens))
    applied, owner = tokens[:index], tokens[index + 1 :]
    head = head_of(words_in(applied))
    is_whole = not owner or request.is_scene(owner)
    if not is_description(applied, 8):
        return None
    if head in ("filter", "tone", "tones", "tint") and is_whole:
        return request.operation("filter", value=plain_text(applied))
    if head == "effect" and is_style(applied[:-1]):
        head = "style"
    if head == "style":
        target = None if is_whole else request.target(owner)
        if not is_whole and target is None:
            return None
        return request.operation("style", target=None if target is None else target.target, value=plain_text(applied))
    if head == "blur":
        target = None if is_whole else request.target(owner)
        if not is_whole and target is None:
            return None
        return request.operation("filter", target=None if target is None else target.target, value=plain_text(applied))
    return None


_PICTURE_PROPERTIES: Mapping[str, OperationType] = MappingProxyType(
    {
        "brightness": "light",
        "exposure": "light",
        "lighting": "light",
        "light": "light",
        "contrast": "filter",
        "saturation": "filter",
        "warmth": "filter",
        "vibrance": "filter",
        "sharpness": "restoration",
        "noise": "restoration",
        "blur": "restoration",
    }
)


def change_degree(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`increase the contrast`, `reduce the size of the ball`."""
    words = words_in(tokens)
    if verb == "adjust":
        return change_object("change", tokens, request)
    while words and words[-1] in ("bit", "little", "slightly", "a", "lot"):
        words, tokens = words[:-1], tokens[:-1]
    core = [word for word in words if word not in ARTICLES and word not in ("overall", "slightly")]
    if not core:
        return None
    if core[0] in _PICTURE_PROPERTIES:
        start = words.index(core[0]) + 1
        rest = tokens[start:]
        if rest and scene_end(rest, 0) != len(rest):
            return None
        return request.operation(_PICTURE_PROPERTIES[core[0]], value=f"{verb} {core[0]}")
    if core[0] in ("size", "scale") and core[1:2] == ["of"]:
        target = request.target(tokens[words.index("of") + 1 :])
        if target is None or verb not in ("increase", "decrease", "reduce", "double", "triple", "halve"):
            return None
        return request.operation("resize", target=target.target, value=f"{verb} size")
    if core[0] in ("number", "count") and core[1:2] == ["of"]:
        return change_object("change", tokens, request)
    return None


def rotate(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`rotate the chair to the left`, `flip the image`."""
    words = words_in(tokens)
    end = next((index for index, word in enumerate(words) if word in _ROTATION_WORDS and index), len(words))
    tail = words[end:]
    if not tokens or not all(word in _ROTATION_WORDS or word.isdecimal() for word in tail):
        return None
    if request.is_scene(tokens[:end]):
        return request.operation("rotate", target=Target("image"), value=" ".join(tail))
    target = request.target(tokens[:end])
    if target is None or target.article == "a" or request.is_unnamed(target):
        return None
    return request.operation("rotate", target=target.target, value=" ".join(tail))


_ROTATION_WORDS = word_set(
    "by degrees degree ° 90 180 45 270 360 30 60 15 clockwise counterclockwise counter-clockwise anticlockwise "
    "anti-clockwise horizontally vertically sideways upside down to the left right over around slightly"
)


def crop(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`crop the image to the dog`."""
    words = words_in(tokens)
    index = next((number for number, word in enumerate(words) if word in ("to", "around") and number), len(words))
    if not tokens or not request.is_scene(tokens[:index]):
        return None
    rest = tokens[index + 1 :]
    if not rest:
        return request.operation("crop") if index == len(words) else None
    while rest and rest[0].word in ("show", "only", "just", "focus", "on"):
        rest = rest[1:]
    target = request.target(rest)
    if target is not None and target.article != "a":
        return request.operation("crop", target=target.target)
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
        target = request.target(tokens[1:])
        return None if target is None else request.operation("zoom", target=target.target, value=value)
    return None


def soften(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`blur the background`."""
    words = words_in(tokens)
    while words and words[0] in ("out",):
        words, tokens = words[1:], tokens[1:]
    while words and words[-1] in ("slightly", "out"):
        words, tokens = words[:-1], tokens[:-1]
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
    words = [word for word in words_in(tokens) if word not in DETERMINERS]
    if words[-1:] and words[-1] in SCENES and all(word in ("old", "damaged", "blurry", "faded") for word in words[:-1]):
        return request.operation("restoration", value=f"{verb.removesuffix('e')}ed")
    return None


def resize(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`enlarge the cat`."""
    words = words_in(tokens)
    end = next(
        (index for index, word in enumerate(words) if index and word in ("by", "to", "slightly", "up", "down")),
        len(words),
    )
    tail = words[end:]
    if not all(word in _RESIZE_WORDS or word.isdecimal() for word in tail) or not tokens:
        return None
    if request.is_scene(tokens[:end]):
        return None
    target = request.target(tokens[:end])
    if target is None or target.article == "a" or request.is_unnamed(target):
        return None
    return request.operation("resize", target=target.target, value=" ".join([verb, *tail]))


_RESIZE_WORDS = word_set("by to slightly up down half twice double its original size the percent a bit little of")


def reframe(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`extend the image to the left`."""
    words = words_in(tokens)
    end = next((index for index, word in enumerate(words) if index and word in ("to", "on", "at", "by")), len(words))
    is_picture = request.is_scene(tokens[:end]) or words[:end] in _CANVASES
    if not end or not is_picture or not set(words[end:]) <= _REFRAME_WORDS:
        return None
    return request.operation("reframe", value=" ".join([verb, *words[end:]]))


_CANVASES = [["the", word] for word in ("background", "canvas", "frame")]
_REFRAME_WORDS = word_set("to on at by the left right top bottom side sides both all upwards downwards up down and")


def duplicate(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`duplicate the tree`."""
    phrase = phrase_at(tokens)
    if phrase is None or phrase.article == "a" or phrase.target.noun in SCENES:
        return None
    rest = tokens[phrase.end :]
    if rest and not (words_in(rest) in (["twice"], ["once"], ["three", "times"]) or _is_place_after(rest)):
        return None
    return request.operation("duplicate", target=phrase.target)


def _is_place_after(tokens: Tokens) -> bool:
    words = words_in(tokens)
    return words[:2] == ["and", "place"] and is_description(tokens, 12)


_POSE_ENDS = word_set("to up down towards toward away back over into")


def pose(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`raise the person's right arm`: a part of a body is put elsewhere."""
    words = words_in(tokens)
    end = next((index for index, word in enumerate(words) if index and word in _POSE_ENDS), len(tokens))
    if end == len(tokens) > 2 and words[-1] in ("left", "right", "forward", "sideways"):
        end -= 1
    phrase = phrase_at(tokens[:end])
    if phrase is None or phrase.article == "a":
        return None
    target = phrase.target
    if target.noun.split()[-1] not in BODY_PARTS or target.relation is None:
        return None
    rest = tokens[phrase.end :]
    if rest and not is_description(rest, 8):
        return None
    resolved = with_pronoun_resolved(phrase, request.antecedent)
    if resolved is None:
        return None
    return request.operation("pose", target=resolved.target, value=" ".join([verb, *words_in(rest)]))
