"""Verb frames: what each verb takes, and the operation that it asks for. A frame reads every token or gives nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, cast

from ...edit_plan import OperationType, PlannedOperation, Relation, Target
from ...metrics.any_edit.plan_questions import own_questions
from ...sample import TASK_TYPES, Position
from .changes import Change, aspect_of, change_of
from .clauses import is_scene
from .lexicon import (
    ACTIONS,
    ARTICLES,
    BACKGROUND_NOUNS,
    BODY_PARTS,
    COLOR_MODIFIERS,
    COLORS,
    DEGREES,
    DETERMINERS,
    EDIT_VERBS,
    EXPRESSION_VERBS,
    EXPRESSIONS,
    LARGER,
    LOCATED,
    LOOKING,
    MATERIALS,
    NUMBERS,
    OTHER_PREPOSITIONS,
    PERSON_PRONOUNS,
    PERSONS,
    PREPOSITIONS,
    SCENE_HEADS,
    SCENERY,
    SCENES,
    SMALLER,
    STATES,
    TEXT_INTRODUCERS,
    TEXT_NOUNS,
    VERBS,
    WEATHER_WORDS,
    word_set,
)
from .noun_phrases import Phrase, phrase_at, place_at, relation_at, scene_end, whole_phrase, with_pronoun_resolved
from .tokens import Token, Tokens, text_of, words_in
from .values import (
    color_value,
    head_of,
    is_adjective,
    is_description,
    is_filter,
    is_style,
    is_weather,
    material_value,
    plain_text,
    starts_value,
    state_value,
)

Operations = list[PlannedOperation]


@dataclass(slots=True)
class Request:
    """A clause while it is read. words: of the whole clause. note: how it shall be done. antecedent: what "it" is."""

    words: str
    note: str = ""
    antecedent: Target | None = None
    has_scene: bool = False
    extra: list[str] = field(default_factory=list)

    def operation(self, kind: OperationType, *, loose: bool = False, **slots: Any) -> Operations | None:
        """One operation of this clause. loose: its slots leave words out, so that it needs a question of its own."""
        try:
            made = PlannedOperation(kind, words=self.words, **slots)
        except ValueError:
            return None
        if kind in TASK_TYPES and (loose or self.note):
            made = replace(made, questions=own_questions(made))
        return [made]

    def target(self, tokens: Tokens) -> Phrase | None:
        """The object that all the tokens name; pronouns stand for what was named before."""
        words = words_in(tokens)
        if len(words) == 1 and words[0] in ("it", "them", "him", "her", "they"):
            noun = PERSON_PRONOUNS.get(words[0])
            if self.antecedent is not None and (noun is None or self.antecedent.noun.split()[-1] in PERSONS):
                return Phrase(self.antecedent, 1, "the", pronoun=words[0])
            return None if noun is None else Phrase(Target(noun), 1, "the", pronoun=words[0])
        phrase = whole_phrase(tokens)
        return None if phrase is None else with_pronoun_resolved(phrase, self.antecedent)

    def is_scene(self, tokens: Tokens) -> bool:
        """Whether tokens name the whole picture; "it" does where nothing was named before."""
        return is_scene(tokens) or (words_in(tokens) in (["it"], ["this"]) and self.antecedent is None)


Frame = Callable[[str, Tokens, Request], "Operations | None"]


def operations_of(tokens: Tokens, request: Request) -> Operations | None:
    """The operations that a clause asks for; None where it is not read in every word."""
    words = words_in(tokens)
    if not words or tokens[0].is_quote:
        return None
    tokens = _without_edit_lead(tokens)
    words = words_in(tokens)
    if not words:
        return None
    rewritten = _as_imperative(tokens)
    if rewritten is not None:
        if not rewritten:
            return None
        tokens = rewritten
        words = words_in(tokens)
    if "instead" in words:
        return _instead(tokens, request)
    frame, verb, start = _frame_at(words)
    if frame is None:
        return _fragment(tokens, request)
    return frame(verb, tokens[start:], request)


_PHRASAL: tuple[tuple[tuple[str, ...], str], ...] = tuple(
    (tuple(words.split()), name)
    for words, name in (
        ("get rid of", "remove"),
        ("take away", "remove"),
        ("edit out", "remove"),
        ("photoshop out", "remove"),
        ("cut out", "extract"),
        ("swap out", "swap"),
        ("zoom in", "zoom"),
        ("zoom out", "zoom"),
        ("scale up", "resize"),
        ("scale down", "resize"),
    )
)


def _instead(tokens: Tokens, request: Request) -> Operations | None:
    """`add a car instead of the bus`: one takes the place of the other."""
    words = words_in(tokens)
    index = words.index("instead")
    verb, new, old = words[0], tokens[1:index], tokens[index + 2 :]
    if words[index + 1 : index + 2] != ["of"] or not new or not old:
        return None
    if verb == "give":
        start = 1 if words[1] in ("him", "her", "them") else _second_object(words_in(new))
        new = new[start:] if start else []
    elif verb not in ("add", "put", "include", "insert", "use", "draw", "place"):
        return None
    target, phrase = request.target(old), request.target(new) if new else None
    if target is None or phrase is None or phrase.pronoun or target.pronoun:
        return None
    return request.operation("subject_replace", target=target.target, new=phrase.target, loose=True)


def _frame_at(words: list[str]) -> tuple[Frame | None, str, int]:
    for phrase, name in _PHRASAL:
        if tuple(words[: len(phrase)]) == phrase:
            return _FRAMES[name], " ".join(phrase), len(phrase)
    verb = words[0]
    for name, verbs in VERBS.items():
        if verb in verbs and name in _FRAMES and not (name == "pose" and not set(words) & BODY_PARTS):
            if name == "degree" and set(words[1:]) & BODY_PARTS:
                continue
            if name == "rotate" and verb == "tilt" and set(words[1:]) & BODY_PARTS:
                continue
            if name == "change" and verb == "turn" and set(words[1:4]) & {"head", "face"} and "into" not in words:
                continue
            return _FRAMES[name], verb, 1
    if verb == "take":
        return _take, verb, 1
    return None, verb, 0


def _without_edit_lead(tokens: Tokens) -> Tokens:
    """The tokens without "edit the image to", "modify this photo so that"."""
    words = words_in(tokens)
    if words[0] not in ("edit", "modify", "adjust", "alter", "update", "change"):
        return tokens
    for size in (3, 2):
        if len(words) > size + 2 and is_scene(tokens[1:size]):
            if words[size] == "to" and words[size + 1] in EDIT_VERBS:
                return tokens[size + 1 :]
            if words[size : size + 2] == ["so", "that"] or words[size] == "so":
                return _as_made(tokens[size + (2 if words[size + 1] == "that" else 1) :])
    return tokens


def _as_made(tokens: Tokens) -> Tokens:
    """`the car is red` as a request."""
    for index, token in enumerate(tokens):
        if token.word in ("is", "are", "looks", "look", "has", "have", "wears") and index:
            verb = {"is": "be", "are": "be", "looks": "look", "has": "have", "wears": "wear"}.get(
                token.word, token.word
            )
            return [Token("make", "make"), *tokens[:index], Token(verb, verb), *tokens[index + 1 :]]
    return []


def _as_imperative(tokens: Tokens) -> list[Token] | None:
    """A wish ("the cup should be blue", "what if the man had a hat", "let the cup be blue") as an imperative."""
    words = words_in(tokens)
    make, add, give = Token("make", "make"), Token("add", "add"), Token("give", "give")
    start, is_wish = 0, False
    if words[:2] == ["what", "if"]:
        start, is_wish = 2, True
    elif words[:2] in (["i", "want"], ["i'd", "like"], ["i", "need"]):
        start = 2
    elif words[:3] == ["i", "would", "like"]:
        start = 3
    elif words[0] in ("let", "have"):
        start = 1
    rest = list(tokens[start:])
    after = words[start:]
    if start and after[:2] == ["there", "be"]:
        return [add, *rest[2:]]
    if is_wish and after[:2] in (["there", "was"], ["there", "were"], ["there", "is"]):
        return [add, *rest[2:]]
    if is_wish:
        for index, word in enumerate(after):
            if word in ("was", "were") and index:
                return [make, *rest[:index], Token("be", "be"), *rest[index + 1 :]]
            if word == "had" and index:
                return [give, *rest[:index], *rest[index + 1 :]]
        return []
    if words[0] in ("let", "have"):
        return [make, *rest]
    if start:
        for index, word in enumerate(after):
            if word == "to" and after[index + 1 : index + 2] == ["be"] and index:
                return [make, *rest[:index], *rest[index + 1 :]]
            if word == "to" and after[index + 1 : index + 2] and after[index + 1] in ("have", "wear", "hold") and index:
                return [make, *rest[:index], *rest[index + 1 :]]
        return [add, *rest] if after[:1] and after[0] in ("a", "an", "another", *NUMBERS) else []
    for modal in (("should",), ("must",), ("needs", "to"), ("need", "to"), ("ought", "to")):
        size = len(modal)
        for index in range(1, min(len(words) - size, 24)):
            if tuple(words[index : index + size]) != modal:
                continue
            if words[:index] == ["there"] and words[index + size] == "be":
                return [add, *tokens[index + size + 1 :]]
            if words[0] in ("a", "an", "another", "some") and words[index + size] == "be":
                return [add, *tokens[:index], *tokens[index + size + 1 :]]
            if words[0] in DETERMINERS or words[0] in ("all", "both"):
                return [make, *tokens[:index], *tokens[index + size :]]
            return []
    return None


# -- removing, extracting ----------------------------------------------------------------------------------------------


def _objects(tokens: Tokens, request: Request) -> list[Phrase] | None:
    """One or several objects joined by "and" or commas, which are all the tokens; None where one cannot be read."""
    single = request.target(tokens)
    if single is not None:
        return [single]
    found: list[Phrase] = []
    start = 0
    while start < len(tokens):
        phrase = phrase_at(tokens, start)
        if phrase is None:
            return None
        resolved = with_pronoun_resolved(phrase, request.antecedent)
        if resolved is None:
            return None
        found.append(resolved)
        start = phrase.end
        if start == len(tokens):
            return found
        if _has_with(phrase.target):
            return None  # "the man with a hat and a coat"
        separators = 0
        while start < len(tokens) and tokens[start].word in (",", "and", "as", "well"):
            start += 1
            separators += 1
        if not separators:
            return None
    return None


def _remove(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    text = _text_removed(tokens, request)
    if text is not None:
        return text
    tokens = _from_as_relation(tokens)
    objects = _objects(tokens, request)
    if objects is None:
        return None
    operations: Operations = []
    for phrase in objects:
        target = phrase.target
        head = target.noun.split()[-1]
        if head in _NOT_REMOVED or target.noun in SCENES:
            return None
        kind: OperationType = "subject_remove"
        if head in (
            "text",
            "words",
            "lettering",
            "writing",
            "caption",
            "captions",
            "watermark",
            "watermarks",
            "letters",
            "subtitles",
            "subtitle",
        ):
            kind = "text_remove"
        elif head in ("blur", "blurriness", "noise", "grain", "scratches", "artifacts"):
            kind = "restoration"
        elif head in ("filter",):
            kind = "effect_remove"
        made = request.operation(kind, target=target, loose=phrase.loose)
        if made is None:
            return None
        operations += made
    return operations


_NOT_REMOVED = word_set(
    "background backdrop color colour colors fog haze mist rain snow everything anything all else rest glare "
    "light lighting darkness smile effect style details detail foreground skin"
)


def _text_removed(tokens: Tokens, request: Request) -> Operations | None:
    quotes = [index for index, token in enumerate(tokens) if token.is_quote]
    if len(quotes) != 1:
        return None
    index = quotes[0]
    before = [word for word in words_in(tokens[:index]) if word not in ARTICLES]
    if not all(word in TEXT_INTRODUCERS for word in before):
        return None
    carrier = _carrier(tokens[index + 1 :], request)
    if carrier is None:
        return None
    target, loose = carrier
    return request.operation("text_remove", target=target, old_text=tokens[index].text, loose=loose)


def _from_as_relation(tokens: Tokens) -> Tokens:
    """The tokens with "from the table" read as "on the table"; the scene stays as it is."""
    for index in range(len(tokens) - 1, 0, -1):
        if tokens[index].word == "from" and scene_end(tokens, index) is None and place_at(tokens, index) is None:
            return [*tokens[:index], Token("on", "on"), *tokens[index + 1 :]]
    return tokens


def _take(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    words = words_in(tokens)
    if words[-1:] in (["out"], ["away"], ["off"]) and len(words) > 2:
        return _remove("remove", tokens[:-1], request)
    for index, word in enumerate(words):
        if word in ("out", "off", "away") and words[index + 1 : index + 2] in (["of"], ["from"]) and index > 1:
            rest = list(tokens[index + 2 :])
            lead = Token("in", "in") if word == "out" else Token("on", "on")
            return _remove("remove", [*tokens[:index], lead, *rest], request)
        if word == "to" and index > 1:
            return _move(verb, tokens, request)
    return None


def _extract(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    end = len(tokens)
    for index in range(1, end):  # "from the background" is no place of it
        if tokens[index].word == "from" and tokens[-1].word in BACKGROUND_NOUNS and end - index <= 4:
            end = index
            break
    tokens = tokens[:end]
    phrase = phrase_at(tokens)
    if phrase is None or phrase.article == "a":
        return None
    target = phrase.target
    if target.noun.split()[-1] in _NOT_EXTRACTED:
        return None
    resolved = with_pronoun_resolved(phrase, request.antecedent)
    if resolved is None:
        return None
    rest = tokens[phrase.end :]
    if rest and rest[0].word == "from" and phrase_at(rest, 1) is not None:
        end = cast(Phrase, phrase_at(rest, 1)).end
        rest = rest[end:]
    if rest and rest[0].word == "and" and not _has_with(target):
        return _extract_several(tokens, request)
    if rest and rest[0].word in ("and", ",") and _has_with(target) and is_description(rest):
        return request.operation("extraction", target=resolved.target)
    if rest and not (_is_tail(rest) and is_description([t for t in rest if not t.is_quote])):
        return None
    return request.operation("extraction", target=resolved.target)


def _has_with(target: Target) -> bool:
    """Whether a relation says what a target has: what follows "and" is another thing that it has."""
    relation = target.relation
    return relation is not None and (relation.kind == "with" or _has_with(relation.of))


_NOT_EXTRACTED = word_set(
    "text words information data color colors colour palette numbers table content contents details facts "
    "keywords meaning essence key keys honey juice tooth teeth dna"
)


def _extract_several(tokens: Tokens, request: Request) -> Operations | None:
    objects = _objects(tokens, request)
    if objects is None:
        return None
    operations: Operations = []
    for phrase in objects:
        made = request.operation("extraction", target=phrase.target)
        if made is None or phrase.target.noun.split()[-1] in _NOT_EXTRACTED:
            return None
        operations += made
    return operations


def _is_tail(tokens: Tokens) -> bool:
    """Whether tokens may follow an object as a description: a preposition, a participle, a relative clause."""
    words = words_in(tokens)
    word = words[0]
    if word == ",":
        return (len(words) > 1 and _is_tail(tokens[1:])) or (
            len(words) > 1 and words[1] in ("slightly", "close", "visible")
        )
    if word in ("(",):
        return ")" in words
    if word == "without" and len(words) > 1 and words[1].endswith("ing"):
        return False
    if word in PREPOSITIONS or word in LOCATED or word in ("next", "close", "so", "that", "which", "who", "slightly"):
        return word != "so" or words[1:2] == ["that"]
    if word in OTHER_PREPOSITIONS - {"off", "out", "up", "down", "past"}:
        return True
    if word == "to":
        return True
    return (len(word) > 4 and (word.endswith("ing") or word.endswith("ed"))) or word in ("worn", "set", "hung", "seen")


# -- adding ------------------------------------------------------------------------------------------------------------

_SIDE_POSITIONS = ("left", "right", "above", "below")
_NOT_ADDED = word_set(
    "color colour colors contrast brightness saturation detail details depth texture warmth theme atmosphere "
    "mood feel vibe touch style look effect effects drama realism background backdrop smile frown sunset "
    "sunrise night light lighting elements element text word words caption title slogan sense ambiance ambience "
    "space more something anything person's noise sharpness salt sugar butter milk eggs egg garlic onion onions "
    "pepper oil vinegar"
)
_WEATHER_ADDED = word_set("snow rain fog mist snowfall storm thunderstorm lightning")
_PARTICLES = word_set("confetti bubbles sparkles snowflakes raindrops dust smoke embers sparks fireflies petals")
_FILTERS = word_set("filter tint vignette overlay")
_EFFECTS = word_set("glow flare bokeh blur haze")


def _add(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    if any(token.is_quote for token in tokens):
        return _text_added(tokens, request)
    phrase = phrase_at(tokens)
    if phrase is None:
        return None
    is_drawn = verb in ("draw", "create", "generate")
    if is_drawn and phrase.end == len(tokens) and (phrase.target.relation, phrase.target.place) == (None, None):
        return None  # a new picture
    if phrase.article == "the" and verb in ("put", "place", "position", "set", "arrange", "hang", "lay", "stick"):
        return _move(verb, tokens, request)
    resolved = with_pronoun_resolved(phrase, request.antecedent)
    if resolved is None:
        return None
    rest = tokens[phrase.end :]
    if rest and rest[0].word == "and" and _has_with(phrase.target):
        if len(rest) < 2 or rest[1].word in ARTICLES or not is_description(rest):
            return None
        return _added(replace(resolved, loose=True), [], request)
    if rest and rest[0].word == "and" and len(rest) > 1:
        first = _added(resolved, [], request)
        second = _add(verb, rest[1:], request)
        return None if first is None or second is None or len(second) > 3 else [*first, *second]
    return _added(resolved, rest, request)


def _added(phrase: Phrase, rest: Tokens, request: Request) -> Operations | None:
    new, loose = phrase.target, phrase.loose
    head = new.noun.split()[0] if " of " in new.noun else new.noun.split()[-1]
    if (
        head in _NOT_ADDED
        or new.noun.split()[0] in SCENES
        or (new.relation is not None and new.relation.kind == "part" and head in BACKGROUND_NOUNS)
    ):
        return None
    reference = None
    position: Position | None = None
    if new.relation is not None and new.relation.kind in _SIDE_POSITIONS:
        position, reference = new.relation.kind, new.relation.of
        new = replace(new, relation=None)
    if rest:
        ending = _destination(rest, request)
        if ending is not None:
            kind, other, end_loose = ending
            loose = loose or end_loose
            if kind in _SIDE_POSITIONS and position is None and other is not None:
                position, reference = cast(Position, kind), other
            elif other is not None and new.relation is None:
                new = replace(new, relation=Relation("on", other)) if other.nesting < 3 else new
                loose = loose or other.nesting >= 3
            else:
                loose = True
        elif _is_tail(rest) and is_description(rest):
            loose = True
        else:
            return None
    if head in _WEATHER_ADDED and reference is None:
        return request.operation("weather", value=new.phrase)
    if head in _FILTERS:
        return request.operation("filter", value=new.phrase)
    if head in _EFFECTS:
        return request.operation("effect_add", value=new.phrase)
    if head in _PARTICLES:
        return request.operation("particles_add", value=new.phrase, new=new)
    return request.operation("subject_add", new=new, position=position, reference=reference, loose=loose)


def _destination(tokens: Tokens, request: Request) -> tuple[str, Target | None, bool] | None:
    """Where something is put, which all the tokens say: side or "on" or "place", reference, whether words are left."""
    words = words_in(tokens)
    end = scene_end(tokens, 0)
    if end == len(tokens):
        return "place", None, False
    found = place_at(tokens, 0)
    if found is not None:
        after = found[1]
        while after < len(tokens) and (end := scene_end(tokens, after)) is not None:
            after = end
        if after == len(tokens):
            return "place", None, True
    if (
        words[0] in ("to", "on", "at")
        and len(words) == 3
        and words[1] in PERSON_PRONOUNS
        and words[2] in ("left", "right", "side")
    ):
        return (words[2] if words[2] != "side" else "place"), Target(PERSON_PRONOUNS[words[1]]), words[2] == "side"
    relation = relation_at(tokens, 0)
    start = relation[1] if relation is not None else 1 if words[0] in ("to", "around", "for", "between", "from") else 0
    if not start:
        return None
    other = request.target(tokens[start:])
    if other is None:
        return None
    kind = relation[0] if relation is not None else "on"
    return kind, other.target, other.loose or relation is None or relation[2] or kind not in _SIDE_POSITIONS


def _text_added(tokens: Tokens, request: Request) -> Operations | None:
    """`the word "PAUSE" on the wall`, and "WELCOME" above the door."""
    quotes = [index for index, token in enumerate(tokens) if token.is_quote]
    if len(quotes) != 1:
        return None
    index = quotes[0]
    before = [word for word in words_in(tokens[:index]) if word not in ARTICLES]
    colors = [word for word in before if word in COLORS | COLOR_MODIFIERS or word in ("bold", "large", "big", "small")]
    rest = [word for word in before if word not in colors]
    if rest and rest[-1] in ("saying", "reading", "says"):
        return None
    if not all(word in TEXT_INTRODUCERS for word in rest):
        return None
    after = tokens[index + 1 :]
    if after and after[0].word in TEXT_INTRODUCERS and len(after) > 1:
        after = after[1:]
    carrier = _carrier(after, request)
    if carrier is None:
        return None
    target, loose = carrier
    return request.operation("text_change", text=tokens[index].text, target=target, loose=loose or bool(colors))


def _carrier(tokens: Tokens, request: Request) -> tuple[Target | None, bool] | None:
    """What carries a text, as all the tokens say: (None, False) for the whole picture; None where it is unclear."""
    if not tokens or scene_end(tokens, 0) == len(tokens):
        return None, False
    found = place_at(tokens, 0)
    if found is not None:
        end = scene_end(tokens, found[1]) if found[1] < len(tokens) else found[1]
        return (None, True) if end == len(tokens) else None
    relation = relation_at(tokens, 0)
    start = relation[1] if relation is not None else 1 if tokens[0].word in ("to", "across", "from") else 0
    if not start:
        return None
    phrase = request.target(tokens[start:])
    if phrase is None:
        return None
    kind = relation[0] if relation is not None else "on"
    on_it = kind in ("on", "in", "beside", "part") and (relation is None or tokens[0].word != "next")
    return (phrase.target, phrase.loose or relation is None or relation[2]) if on_it else (phrase.target, True)


def _write(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    return _text_added(tokens, request)


def _give(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    words = words_in(tokens)
    if not words:
        return None
    if words[0] in ("him", "her", "them", "it") and len(words) > 1:
        boundary = 1
    else:
        boundary = _second_object(words) or 0
        if not boundary:
            for index, word in enumerate(words):
                if word == "to" and index > 1 and request.target(tokens[index + 1 :]) is not None:
                    return _added_to(tokens[:index], tokens[index + 1 :], request)
            return None
    return _added_to(tokens[boundary:], tokens[:boundary], request)


def _second_object(words: list[str]) -> int | None:
    """The index where a second object begins, as in "the man | a hat" or "the man | glasses"."""
    for index in range(1, len(words)):
        word, before = words[index], words[index - 1]
        if word in PREPOSITIONS or word in OTHER_PREPOSITIONS:
            if index + 1 < len(words) and word not in ("of", "with", "in", "on"):
                return None if word == "to" else _second_object_after(words, index)
        if word in ("a", "an", "some", "another", *NUMBERS) and index > 1 and _may_precede(before):
            return index
        if before in PERSONS and index > 1 and word not in PREPOSITIONS and word != "'s" and word[0].isalnum():
            if word not in OTHER_PREPOSITIONS and word not in LOCATED and not word.endswith("ing"):
                return index
    return None


def _second_object_after(words: list[str], start: int) -> int | None:
    for index in range(start + 2, len(words)):
        if words[index] in ("a", "an", "some", "another") and _may_precede(words[index - 1]):
            return index
    return None


def _may_precede(word: str) -> bool:
    """Whether a word may end an object, so that another one begins after it."""
    return not (
        word in PREPOSITIONS
        or word in OTHER_PREPOSITIONS
        or word in DETERMINERS
        or word in ("and", ",", "'s", "be", "it's")
        or word
        in (
            "wearing",
            "holding",
            "carrying",
            "having",
            "like",
            "such",
            "riding",
            "eating",
            "playing",
            "wear",
            "hold",
            "have",
            "all",
            "both",
            "than",
            "is",
        )
    )


def _added_to(new: Tokens, owner: Tokens, request: Request) -> Operations | None:
    words = words_in(new)
    head = head_of(words)
    if head in (
        "look",
        "style",
        "appearance",
        "finish",
        "feel",
        "aesthetic",
        "vibe",
        "theme",
        "atmosphere",
        "makeover",
    ):
        if request.is_scene(owner):
            return request.operation("style", value=plain_text(new)) if is_description(new, 14) else None
        target = request.target(owner)
        if target is None or not is_description(new, 14) or head in ("atmosphere", "vibe", "theme", "feel"):
            return None
        return request.operation("attribute", target=target.target, value=plain_text(new))
    if request.is_scene(owner) or words_in(owner) == ["it"]:
        return None
    target = request.target(owner)
    phrase = phrase_at(new)
    if words_in(owner) == ["them"] and target is None and phrase is not None and phrase.end == len(new):
        if phrase.article == "the" or head in ("smile", "frown", "grin", "expression", "haircut", "hairstyle", "pose"):
            return None
        return request.operation("subject_add", new=phrase.target, loose=True)
    if target is None or phrase is None or phrase.article == "the":
        return None
    rest = new[phrase.end :]
    if words_in(rest) in (["to", "wear"], ["to", "hold"]):
        rest = []
    if rest or phrase.target.noun in (
        "break",
        "bath",
        "walk",
        "lift",
        "home",
        "chance",
        "name",
        "call",
        "hug",
        "kiss",
        "ride",
        "try",
        "hand",
        "raise",
        "tone",
        "skin",
    ):
        return None
    if head in ("smile", "frown", "grin", "expression"):
        return request.operation("expression", target=target.target, value=phrase.target.phrase)
    if head in ("haircut", "hairstyle", "tone", "complexion", "pose"):
        return request.operation("attribute", target=target.target, value=phrase.target.phrase)
    added = phrase.target
    loose = phrase.loose or target.loose
    if added.relation is None and target.target.nesting < 3:
        added = replace(added, relation=Relation("on", target.target))
    else:
        loose = True
    return request.operation("subject_add", new=added, loose=loose)


def _dress(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    for index, token in enumerate(tokens):
        if token.word in ("in", "with") and index:
            words = words_in(tokens[index + 1 :])
            if not words or words[0] not in ("a", "an", "some") or head_of(words) in ("style",):
                return None
            return _added_to(tokens[index + 1 :], tokens[:index], request)
    return None


def _cover(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    for index in range(len(tokens) - 1, 0, -1):
        if tokens[index].word in ("in", "with"):
            target = request.target(tokens[:index])
            if target is None or not is_description(tokens[index + 1 :], 6) or verb == "surround":
                return None
            participle = {"cover": "covered", "wrap": "wrapped", "fill": "filled", "decorate": "decorated"}[verb]
            return request.operation("attribute", target=target.target, value=f"{participle} {text_of(tokens[index:])}")
    return None


# -- moving ------------------------------------------------------------------------------------------------------------

_STORES = word_set("fridge oven microwave freezer dishwasher sink drawer cupboard closet garage bin car mail")
_DIRECTIONS = word_set(
    "to onto into toward towards closer further farther next behind beside below above under beneath underneath "
    "near up down over upward upwards downward downwards forward backward away left right between around"
)


def _move(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    start = _destination_start(tokens, verb)
    if start is None:
        return None
    target = request.target(tokens[:start])
    if target is None or target.article == "a" or target.target.noun in SCENES or _is_errand(tokens):
        return None
    rest = tokens[start:]
    words = words_in(rest)
    if words[-1] in _STORES:
        return None  # a chore
    found = (
        _destination(rest, request)
        if words[0] not in ("closer", "further", "farther", "away", "up", "down", "lower", "higher")
        else None
    )
    if found is not None:
        kind, reference, loose = found
        if kind in _SIDE_POSITIONS and reference is not None:
            return request.operation(
                "position_change", target=target.target, position=kind, reference=reference, loose=target.loose or loose
            )
        return request.operation("position_change", target=target.target, loose=True)
    if all(word in _DIRECTION_WORDS or word.isdecimal() for word in words):
        return request.operation("position_change", target=target.target, loose=True)
    if words[0] in ("closer", "further", "farther", "away") and words[1:2] and words[1] in ("to", "from"):
        if request.target(rest[2:]) is not None:
            return request.operation("position_change", target=target.target, loose=True)
    return None


_DIRECTION_WORDS = word_set(
    "lower higher to the up down left right upward upwards downward downwards forward backward back a bit little slightly "
    "closer further center centre middle side top bottom towards toward far corner into foreground background "
    "away of edge more over"
)


def _destination_start(tokens: Tokens, verb: str) -> int | None:
    words = words_in(tokens)
    for index in range(1, len(words)):
        if words[index] in ("to", "onto", "into", "toward", "towards", "closer", "further", "farther") and words[
            index - 1
        ] not in ("next", "close"):
            if words[index - 1] in ("slightly", "bit"):
                return index
            return index
    for index in range(len(words) - 1, 0, -1):
        if words[index] in (
            "next",
            "behind",
            "beside",
            "below",
            "above",
            "under",
            "beneath",
            "underneath",
            "near",
            "in",
            "on",
            "up",
            "down",
            "lower",
            "higher",
            "inside",
            "over",
            "between",
            "upwards",
            "downwards",
            "by",
            "against",
        ):
            if (
                words[index] == "in"
                and words[index + 1 : index + 3] not in (["front", "of"], ["the"])
                and verb == "move"
            ):
                return None
            if words[index + 1 : index + 2] == ["top"] and index and words[index] == "on":
                return index
            return index
    return None


def _is_errand(tokens: Tokens) -> bool:
    return any(token.text[:1].isupper() for token in tokens[2:]) and not any(token.word in SCENES for token in tokens)


# -- replacing, changing -----------------------------------------------------------------------------------------------


def _replace(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    return _exchange(tokens, ("with", "by", "for") if verb == "exchange" else ("with", "by"), request)


def _swap(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    return _exchange(tokens, ("for", "with", "to"), request)


def _exchange(tokens: Tokens, separators: Sequence[str], request: Request) -> Operations | None:
    boundaries = [
        index for index, token in enumerate(tokens) if token.word in separators and index and not token.is_quote
    ]
    if not boundaries:
        return None
    if len(boundaries) > 1:
        # "replace the man with a hat with a statue": the first one belongs to the object if two follow each other.
        if len(boundaries) != 2 or tokens[boundaries[0]].word != tokens[boundaries[1]].word:
            boundaries = boundaries[:1]
        else:
            return None
    index = boundaries[0]
    change = Change(tokens[:index], tokens[index + 1 :])
    return _changed(change, request, verb="replace")


def _substitute(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    words = words_in(tokens)
    if "for" in words[1:] and "with" not in words:
        index = words.index("for", 1)
        return _changed(Change(tokens[index + 1 :], tokens[:index]), request, verb="replace")
    return _exchange(tokens, ("with", "by"), request)


def _change(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    change = change_of(tokens)
    if change is None:
        if verb in ("turn",):
            return _make(verb, tokens, request)
        return None
    return _changed(change, request, verb)


def _changed(change: Change, request: Request, verb: str) -> Operations | None:
    old, new = change.old, change.new
    if not new:
        return None
    if any(token.is_quote for token in (*old, *new)):
        return _text_replaced(old, new, request)
    if not old:
        return _whole(new, request)
    if old[-1].word == "back":
        return None
    if request.is_scene(old):
        return _whole(new, request)
    if new[0].word in ("be", "look", "appear", "have", "wear") and verb != "replace":
        return _make("make", [*old, *new], request)
    if not starts_value(new):
        return None
    aspect = aspect_of(old)
    if aspect is not None:
        return _aspect_changed(aspect.name, aspect.owner, new, request, aspect.loose)
    return _object_changed(change, request, verb)


def _whole(new: Tokens, request: Request) -> Operations | None:
    """Another look, weather or filter of the whole picture."""
    new = _without_scene(new)
    if is_filter(new):
        return request.operation("filter", value=plain_text(new))
    if is_weather(new):
        return request.operation("weather", value=plain_text(new))
    if is_style(new):
        return request.operation("style", value=plain_text(new))
    return None


def _aspect_changed(aspect: str, owner: Tokens, new: Tokens, request: Request, loose: bool) -> Operations | None:
    if aspect in ("weather", "season", "time"):
        return request.operation("weather", value=plain_text(new)) if is_weather(new) else None
    if aspect == "style":
        if owner and not request.is_scene(owner):
            return None
        return request.operation("style", value=plain_text(new)) if is_description(new, 14) else None
    if aspect == "lighting":
        return request.operation("light", value=plain_text(new)) if is_description(new, 14) else None
    if not owner:
        return None
    target = request.target(owner)
    if target is None:
        return None
    loose = loose or target.loose
    match aspect:
        case "color":
            value = color_value(new)
            if value is None:
                return None
            return request.operation("color_alter", target=target.target, value=value, loose=loose)
        case "material" | "texture":
            text = plain_text(new)
            if not is_description(new, 8) or len(text) > 80:
                return None
            return request.operation("material_alter", target=target.target, value=text, loose=loose)
        case "count":
            words = words_in(new)
            count = NUMBERS.get(words[0], None) if len(words) == 1 else None
            if count is None and len(words) == 1 and words[0].isdecimal():
                count = int(words[0][:6])
            if count is None:
                return None
            return request.operation("count_change", target=target.target, count=count, loose=loose)
        case "expression":
            return (
                request.operation("expression", target=target.target, value=plain_text(new))
                if is_description(new, 8)
                else None
            )
        case "pose":
            return (
                request.operation("pose", target=target.target, value=plain_text(new))
                if is_description(new, 10)
                else None
            )
        case "pattern" | "shape":
            return (
                request.operation("attribute", target=target.target, value=plain_text(new))
                if is_description(new, 8)
                else None
            )
        case "position":
            found = _destination(new, request) or _destination([Token("to", "to"), *new], request)
            if found is None:
                return None
            kind, reference, _ = found
            if kind in _SIDE_POSITIONS and reference is not None:
                return request.operation(
                    "position_change", target=target.target, position=kind, reference=reference, loose=loose
                )
            return request.operation("position_change", target=target.target, loose=True)
    return None


def _background_target(old: Tokens) -> tuple[Target | None, bool] | None:
    """The target of a change of background whose old one is described; (None, False) for "the background"."""
    words = [word for word in words_in(old) if word not in DETERMINERS]
    while words and len(words) > 2 and words[-1] in SCENES and words[-2] in ("in", "of", "from", "the"):
        words = words[:-2]
    if words[-3:-1] == ["in", "the"]:
        words = words[:-3]
    if words[-2:] == ["in", "background"]:
        words = words[:-2]
    if words in (["background"], ["backdrop"]):
        return None, False
    if not words or len(words) > 12:
        return None
    head = words[-1] if words[-1] in BACKGROUND_NOUNS else ""
    if head:
        rest = " ".join(words[:-1])
        return Target(head, attributes=(rest,) if rest else ()), False
    return Target(" ".join(words)), False


def _background_changed(old: Tokens, new: Tokens, request: Request, *, loose: bool) -> Operations | None:
    if not is_description(new) or not is_description(old) or not starts_value(new):
        return None
    value = plain_text(_without_scene(new))
    if not value:
        return None
    phrase = request.target(old)
    words = words_in(old)
    head = head_of([word for word in words if word not in DETERMINERS])
    if phrase is not None and head in BACKGROUND_NOUNS and phrase.target.relation is None:
        target: Target | None = phrase.target
        if target is not None and target.phrase.casefold() in ("background", "backdrop") and target.place is None:
            target = None
        return request.operation("background_change", target=target, value=value, loose=loose or phrase.loose)
    objects = _objects(old, request)
    if objects is None:
        return None
    target = objects[0].target if len(objects) == 1 else None
    return request.operation("background_change", target=target, value=value, loose=True)


def _without_scene(tokens: Tokens) -> Tokens:
    """The tokens without a scene phrase at their end."""
    for size in (4, 3):
        start = len(tokens) - size
        if start > 0 and scene_end(tokens, start) == len(tokens):
            return tokens[:start]
    return tokens


def _object_changed(change: Change, request: Request, verb: str) -> Operations | None:
    old, new = change.old, change.new
    words = [word for word in words_in(_without_scene(old)) if word not in DETERMINERS]
    head = head_of(words)
    if head in BACKGROUND_NOUNS or (words[-1:] == ["background"] and words[-2:-1] not in (["the"], ["in"])):
        return _background_changed(change.whole_old, new, request, loose=change.source is not None)
    if change.source is not None:
        if is_weather(change.source) and is_weather(new):
            return request.operation("weather", value=plain_text(new))
        if color_value(change.source) is None or color_value(new) is None:
            return None
    if is_weather(old) and is_weather(new) and len(words) == 1:
        return request.operation("weather", value=plain_text(new))
    is_behind = "background" in words_in(old) or head in SCENERY
    if head_of(words_in(new)) in SCENE_HEADS:
        return _background_changed(old, new, request, loose=True) if is_behind else None
    target = request.target(old)
    if target is None:
        return _several_changed(old, new, request)
    if target.article == "a" or target.target.noun in SCENES:
        return None
    return _one_changed(target, new, request)


def _stripped(tokens: Tokens) -> Tokens:
    return tokens[1:] if tokens and tokens[0].word in ARTICLES else tokens


_SETTINGS = word_set(
    "setting environment landscape scene cityscape backdrop background scenery skyline desert jungle beach "
    "forest mountain mountains rainforest tundra city countryside"
)
_GREAT_SCENERY = word_set(
    "forest beach desert field meadow jungle landscape cityscape skyline ocean sea countryside mountains hills "
    "cliffs trees grass greenery woods woodland vegetation"
)


def _several_changed(old: Tokens, new: Tokens, request: Request) -> Operations | None:
    objects = _objects(old, request)
    if objects is None or color_value(new) is None:
        return None
    operations: Operations = []
    for phrase in objects:
        made = _one_changed(phrase, new, request)
        if made is None:
            return None
        operations += made
    return operations


def _one_changed(target: Phrase, new: Tokens, request: Request) -> Operations | None:
    """Another colour, material, property or object in place of one."""
    color = color_value(new)
    if color is not None:
        return request.operation("color_alter", target=target.target, value=color, loose=target.loose)
    material = material_value(new)
    if material is not None:
        return request.operation("material_alter", target=target.target, value=material, loose=target.loose)
    words = words_in(new)
    if words[0] not in ARTICLES and state_value(new, open_ended=False) is not None:
        return request.operation("attribute", target=target.target, value=text_of(new))
    if is_weather(new) or is_style(new) or head_of(words) in ("setting", "environment", "finish", "look", "appearance"):
        return None
    if target.pronoun and target.pronoun not in ("him", "her") and request.antecedent is None:
        return None
    phrase = request.target(new)
    if phrase is None or phrase.pronoun or phrase.target.noun in SCENES:
        return None
    if phrase.article == "the" and phrase.target.relation is None and phrase.target.noun in _PLACES_TO_GO:
        return None
    fresh = phrase.target
    if target.target.noun.split()[-1] in _NOT_REPLACED:
        return None
    if fresh.noun.split()[-1] in (
        "color",
        "shade",
        "tone",
        "match",
        "style",
        "version",
        "design",
        "pattern",
        "one",
        "ones",
        "position",
        "state",
    ):
        if fresh.noun.split()[-1] in ("design", "pattern", "version", "style"):
            return None
        return None
    if fresh.place is not None:
        return None
    return request.operation("subject_replace", target=target.target, new=fresh, loose=target.loose or phrase.loose)


_NOT_REPLACED = word_set(
    "theme mood concept atmosphere style size age name vibe text word words side half resolution format"
)
_PLACES_TO_GO = word_set("beach forest city desert park mountains street countryside moon")


def _text_replaced(old: Tokens, new: Tokens, request: Request) -> Operations | None:
    quoted = [token for token in (*old, *new) if token.is_quote]
    if len(new) < 1 or len(quoted) > 2:
        return None
    after = [token for token in new if token.is_quote]
    if len(after) != 1:
        return None
    lead = [
        word for word in words_in(new[: new.index(after[0])]) if word not in ARTICLES and word not in ("say", "read")
    ]
    if not all(word in TEXT_INTRODUCERS for word in lead):
        return None
    carrier_tokens: Tokens = new[new.index(after[0]) + 1 :]
    before = [token for token in old if token.is_quote]
    if before:
        index = list(old).index(before[0])
        lead = [word for word in words_in(old[:index]) if word not in ARTICLES]
        if not all(word in TEXT_INTRODUCERS for word in lead):
            return None
        tail = old[index + 1 :]
        if tail and tail[0].word in TEXT_INTRODUCERS:
            tail = tail[1:]
        if tail and carrier_tokens:
            return None
        carrier = _carrier(tail or carrier_tokens, request)
    else:
        words = [word for word in words_in(old) if word not in ARTICLES]
        if carrier_tokens:
            return None
        if words and words[0] in TEXT_NOUNS - {"sign", "logo", "label"}:
            start = next(index for index, token in enumerate(old) if token.word == words[0]) + 1
            carrier = _carrier(old[start:], request)
        else:
            phrase = request.target(old)
            if phrase is None or phrase.target.noun.split()[-1] not in TEXT_NOUNS:
                return None
            carrier = (phrase.target, phrase.loose)
    if carrier is None:
        return None
    target, loose = carrier
    return request.operation(
        "text_change", text=after[0].text, old_text=before[0].text if before else "", target=target, loose=loose
    )


# -- making ------------------------------------------------------------------------------------------------------------


def _color(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    if verb in ("colorize", "colourise", "colorise") and (not tokens or tokens[-1].word in SCENES):
        return request.operation("restoration")
    words = words_in(tokens)
    if verb in ("paint", "draw", "repaint") and words and words[0] in ("a", "an", "some"):
        return _add("add", tokens, request) if verb == "paint" and " on " in f" {' '.join(words)} " else None
    boundary = _value_start(tokens)
    if boundary is None:
        return None
    end = boundary
    while end and tokens[end - 1].word in ("in", "to", "into", "with", "a", "the"):
        end -= 1
    if end and tokens[end - 1].word == "color" and verb != "color":
        return None
    value = color_value(tokens[boundary:])
    if value is None:
        return None
    if request.is_scene(tokens[:end]):
        return request.operation("filter", value=value) if is_filter(tokens[boundary:]) else None
    return _each(tokens[:end], request, "color_alter", value)


def _each(tokens: Tokens, request: Request, kind: OperationType, value: str) -> Operations | None:
    """The same change of each of the objects."""
    objects = _objects(tokens, request)
    if objects is None:
        return None
    operations: Operations = []
    for phrase in objects:
        if phrase.article == "a" or phrase.target.noun in SCENES:
            return None
        if phrase.pronoun in ("it", "them") and request.antecedent is None:
            return None
        aspect = phrase.target.noun.split()[-1]
        if aspect in ("color", "colour") and kind == "color_alter":
            return None
        made = request.operation(kind, target=phrase.target, value=value, loose=phrase.loose)
        if made is None:
            return None
        operations += made
    return operations


def _value_start(tokens: Tokens) -> int | None:
    """Where the colour or property at the end begins; None without one, or where nothing is left before it."""
    index = len(tokens)
    while index and _is_value_word(tokens[index - 1].word):
        index -= 1
    while index < len(tokens) and tokens[index].word in ("and", ",", "of"):
        index += 1
    if index == len(tokens):
        return None
    words = words_in(tokens)
    # A noun must be left: "make the orange blue".
    while index < len(tokens) and (index == 0 or not _may_end_object(words[:index])):
        index += 1
    return index if index < len(tokens) and words[index] not in ("and", ",", "of") else None


def _is_value_word(word: str) -> bool:
    return is_adjective(word) or word in _VALUE_WORDS or ("-" in word and word.split("-")[-1] in COLORS)


_VALUE_WORDS = (
    COLORS | COLOR_MODIFIERS | STATES | MATERIALS | DEGREES | LARGER | SMALLER | EXPRESSIONS | WEATHER_WORDS
) | {"and", "shade"}


def _may_end_object(words: list[str]) -> bool:
    last = words[-1]
    if last in ("in", "to", "into"):
        return len(words) > 1 and _may_end_object(words[:-1])
    return last not in DETERMINERS | {"'s", "and", ",", "of", "all", "both"} and (
        last not in PREPOSITIONS and last not in OTHER_PREPOSITIONS
    )


def _make(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    words = words_in(tokens)
    if not words or any(token.is_quote for token in tokens):
        return _text_said(tokens, request)
    if words[0] == "sure" or words[:2] == ["it", "so"]:
        return None
    action = _action_start(words)
    if action is not None:
        return _acted(tokens[:action], tokens[action:], request)
    for index, word in enumerate(words):
        if word == "into" and index:
            return _changed(Change(tokens[:index], tokens[index + 1 :]), request, verb)
        if index and word in ("made", "out") and words[index + 1 : index + 2] == ["of"]:
            value = material_value(tokens[index:])
            return _each(tokens[:index], request, "material_alter", value) if value is not None else None
        if index and word == "of" and words[index - 1] in ("be", "made"):
            return None
    scene = _scene_prefix(tokens, request)
    if scene is not None:
        return _scene_made(tokens[scene:], request)
    boundary = _new_start(words)
    if boundary is not None:
        target = request.target(tokens[:boundary])
        if target is None or target.article == "a" or (target.pronoun and request.antecedent is None):
            return None
        new = tokens[boundary:]
        if "instead" in words:
            return None
        if head_of(words[boundary:]) in ("color", "colour", "shade", "look", "bit", "little", "lot"):
            color = color_value(new)
            if color is None:
                return None
        return _one_changed(target, new, request)
    start = _value_start(tokens)
    if start is None:
        return None
    return _property(tokens[:start], tokens[start:], request)


def _scene_prefix(tokens: Tokens, request: Request) -> int | None:
    """The index after a name of the whole picture that the tokens begin with; None without one."""
    for size in (3, 2, 1):
        if len(tokens) > size and request.is_scene(tokens[:size]):
            if words_in(tokens[:size]) == ["it"] or tokens[size].word not in ("of", "'s", "frame", "frames"):
                return size
    return None


def _scene_made(value: Tokens, request: Request) -> Operations | None:
    words = words_in(value)
    if words[0] == "be":
        value, words = value[1:], words[1:]
    if not words:
        return None
    if words[0] == "look" and words[1:2] == ["like"] and len(words) > 2:
        if is_style(value[2:]) or is_filter(value[2:]):
            return request.operation("style", value=plain_text(value[2:]))
        return request.operation("weather", value=plain_text(value[2:])) if is_weather(value[2:]) else None
    if is_filter(value):
        return request.operation("filter", value=plain_text(value))
    core = [word for word in words if word not in DEGREES]
    if core in (["brighter"], ["darker"], ["lighter"]):
        return request.operation("light", value=text_of(value))
    if core in (["warmer"], ["cooler"], ["colorful"], ["colourful"], ["vibrant"], ["saturated"]):
        return request.operation("filter", value=text_of(value))
    if core in (["sharper"], ["clearer"]):
        return request.operation("restoration", value=text_of(value))
    if core in (["blurry"], ["blurrier"]):
        return request.operation("filter", value=text_of(value))
    if is_weather(value):
        return request.operation("weather", value=plain_text(value))
    if words[0] in ("a", "an") and is_style(value):
        return request.operation("style", value=plain_text(value))
    return None


def _action_start(words: list[str]) -> int | None:
    """Where the verb of what the object shall do begins, as in "make the man | raise his arm"."""
    for index in range(1, len(words)):
        word, before = words[index], words[index - 1]
        if word in LOOKING or word in ("wear", "have", "be") or word in ACTIONS:
            if not _may_precede(before) or (before in STATES and index > 1 and words[index - 2] in DETERMINERS):
                continue
            if (
                word in ACTIONS
                and word not in ("look", "be")
                and (index + 1 < len(words))
                and (words[index + 1] in COLORS and index + 2 == len(words))
            ):
                continue  # "make the picture hang red": a noun
            if word in (
                "open",
                "close",
                "face",
                "play",
                "point",
                "light",
                "stick",
                "drive",
                "drink",
                "rest",
                "cross",
                "bow",
                "wave",
                "fly",
                "drop",
                "bark",
                "swing",
                "smile",
                "fold",
                "lie",
                "shake",
                "roll",
            ) and (index + 1 == len(words) and before in DETERMINERS):
                continue
            return index
    return None


def _acted(object_tokens: Tokens, action: Tokens, request: Request) -> Operations | None:
    words = words_in(action)
    verb, rest = words[0], action[1:]
    if not rest and verb in ("be", "have", "wear", "look", "appear", "seem"):
        return None
    if (request.is_scene(object_tokens) and not words_in(object_tokens) == ["it"]) or (
        words_in(object_tokens) == ["it"] and request.antecedent is None
    ):
        if verb in ("rain", "snow"):
            return request.operation("weather", value=verb)
        return _scene_made(action, request) if verb in ("be", "look") else None
    if words_in(object_tokens) == ["it"] and verb in ("snow", "rain"):
        return request.operation("weather", value=verb)
    target = request.target(object_tokens)
    if target is None or target.article == "a" or (target.pronoun in ("them", "they") and request.antecedent is None):
        return None
    if verb == "be":
        return _became(target, object_tokens, rest, request)
    if verb in LOOKING:
        return _looked(target, object_tokens, verb, rest, request)
    if verb in ("hold", "carry") and words_in(rest)[:1] and words_in(rest)[0] in ("a", "an", "some", "another"):
        return None  # another object, or another pose
    if verb in ("wear", "have"):
        if (words_in(rest)[:1] and words_in(rest)[0] in (*ARTICLES, *NUMBERS, "some", "another")) or verb == "wear":
            if verb == "wear" and (color_value(rest) is not None or head_of(words_in(rest)) in ("clothes", "clothing")):
                return None
            return _added_to(rest, object_tokens, request)
        if verb == "have":
            phrase = request.target(rest)
            if phrase is None:
                return None
            return _added_to(rest, object_tokens, request)
        return None
    if not is_description(action, 16):
        return None
    if verb in EXPRESSION_VERBS:
        return request.operation("expression", target=target.target, value=text_of(action))
    if verb in ("turn",) and words_in(rest) and (color_value(rest) is not None):
        return request.operation("color_alter", target=target.target, value=text_of(rest), loose=target.loose)
    return request.operation("pose", target=target.target, value=text_of(action))


def _became(target: Phrase, object_tokens: Tokens, value: Tokens, request: Request) -> Operations | None:
    words = words_in(value)
    if not words:
        return None
    if words[0] in ("made", "out"):
        material = material_value(value)
        return None if material is None else _each(object_tokens, request, "material_alter", material)
    if words[0].endswith("ing") and len(words[0]) > 4 and is_description(value, 14) and words[0] not in STATES:
        if words[0] in ("wearing", "holding", "carrying") and words[1:2] and words[1] in ("a", "an", "some"):
            return _added_to(value[1:], object_tokens, request) if words[0] == "wearing" else None
        return request.operation("pose", target=target.target, value=text_of(value))
    if words[0] in ("removed", "gone", "deleted", "erased") and len(words) == 1:
        return _remove("remove", object_tokens, request)
    if words[0] in ("replaced",) and words[1:2] in (["with"], ["by"]):
        return _changed(Change(object_tokens, value[2:]), request, "replace")
    if words[0] in ("changed", "turned", "converted") and words[1:2] in (["to"], ["into"]):
        return _changed(Change(object_tokens, value[2:]), request, "change")
    made = _property(object_tokens, value, request)
    if made is not None:
        return made
    if words[0] in ("covered", "filled", "decorated", "wrapped") and words[1:2] in (["with"], ["in"], ["by"]):
        if not is_description(value, 8):
            return None
        return request.operation("attribute", target=target.target, value=text_of(value))
    if words[0] in ("a", "an"):
        return _one_changed(target, value, request)
    return None


def _looked(target: Phrase, object_tokens: Tokens, verb: str, rest: Tokens, request: Request) -> Operations | None:
    words = words_in(rest)
    if words[0] in (
        "to",
        "at",
        "away",
        "up",
        "down",
        "toward",
        "towards",
        "straight",
        "over",
        "into",
        "out",
        "slightly",
    ) and (verb == "look"):
        return (
            request.operation("pose", target=target.target, value=text_of([Token(verb, verb), *rest]))
            if is_description(rest, 10)
            else None
        )
    if target.pronoun and request.antecedent is None:
        if words[0] in ("like", "as"):
            return None
    core = [word for word in words if word not in DEGREES]
    if core and all(word in EXPRESSIONS or word == "and" for word in core):
        return request.operation("expression", target=target.target, value=text_of(rest))
    if words[0] == "like" and words[1:3] in (["it's", "made"], ["they're", "made"]) and material_value(rest[2:]):
        return _each(object_tokens, request, "material_alter", cast(str, material_value(rest[2:])))
    if words[0] in ("like", "as") and len(words) > 1 and is_description(rest, 14):
        return request.operation("attribute", target=target.target, value=text_of([Token(verb, verb), *rest]))
    value = state_value(rest)
    return None if value is None else _property(object_tokens, rest, request)


def _property(object_tokens: Tokens, value: Tokens, request: Request) -> Operations | None:
    """A colour, material, size, expression or other property of objects."""
    words = words_in(value)
    core = [word for word in words if word not in DEGREES]
    if request.is_scene(object_tokens):
        return _scene_made(value, request)
    if not core:
        return None
    color = color_value(value)
    if color is not None:
        return _each(object_tokens, request, "color_alter", color)
    material = material_value(value)
    if material is not None:
        return _each(object_tokens, request, "material_alter", material)
    phrase = request.target(object_tokens)
    if phrase is None or phrase.article == "a" or (phrase.pronoun and request.antecedent is None):
        return None
    target = phrase.target
    if target.noun in ("side", "half", "part", "area", "top", "bottom", "corner") and target.relation is None:
        return None
    if all(word in LARGER or word in SMALLER for word in core):
        return request.operation("resize", target=target, value=text_of(value))
    if core in (["brighter"], ["darker"], ["lighter"]):
        if target.noun.split()[-1] in ("background", "sky", "room", "lighting", "light"):
            return request.operation("light", target=target, value=text_of(value))
        return None  # its colour, or its light
    if all(word in EXPRESSIONS or word == "and" for word in core):
        return request.operation("expression", target=target, value=text_of(value))
    text = state_value(value)
    if text is None or core[0] in ("same", "whole", "real"):
        return None
    return request.operation("attribute", target=target, value=text)


def _new_start(words: list[str]) -> int | None:
    """Where the new object begins, as in "make the donut | a cupcake"."""
    for index in range(1, len(words)):
        if words[index] in ("a", "an") and _may_precede(words[index - 1]):
            rest = words[index + 1 : index + 2]
            return index if rest and rest[0] not in ("bit", "little", "lot") else None
    return None


def _text_said(tokens: Tokens, request: Request) -> Operations | None:
    """`make the sign say "OPEN"`."""
    words = words_in(tokens)
    for index, word in enumerate(words):
        if word in ("say", "read") and index and index + 2 == len(tokens) and tokens[index + 1].is_quote:
            target = request.target(tokens[:index])
            if target is None:
                return None
            return request.operation("text_change", target=target.target, text=tokens[index + 1].text, loose=True)
    return None


# -- the whole picture -------------------------------------------------------------------------------------------------


def _render(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    for index, token in enumerate(tokens):
        if token.word in ("as", "in", "into", "like", "to") and index:
            if not request.is_scene(tokens[:index]):
                return None
            return (
                request.operation("style", value=plain_text(tokens[index + 1 :]))
                if is_style(tokens[index + 1 :])
                else None
            )
    return None


def _fragment(tokens: Tokens, request: Request) -> Operations | None:
    """A look alone: "as a watercolor painting", "in the style of Van Gogh"."""
    words = words_in(tokens)
    if words[0] == "as" and words[1:2] in (["a"], ["an"]) and len(words) <= 10 and is_style(tokens[1:]):
        return request.operation("style", value=plain_text(tokens[1:]))
    if words[:4] == ["in", "the", "style", "of"] and len(words) <= 12 and is_style(tokens[1:]):
        return request.operation("style", value=plain_text(tokens[1:]))
    return None


def _light(verb: str, tokens: Tokens, request: Request) -> Operations | None:
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
    if target is None or target.article == "a" or (target.pronoun and request.antecedent is None):
        return None
    return request.operation("light", target=target.target, value={"dim": "dimmed"}.get(verb, f"{verb.rstrip('e')}ed"))


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
    }
)


def _degree(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    words = words_in(tokens)
    if verb in ("adjust",):
        return _change("change", tokens, request)
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
        if target is None or verb not in ("increase", "decrease", "reduce"):
            return None
        return request.operation("resize", target=target.target, value=f"{verb} size")
    if core[0] in ("number", "count") and core[1:2] == ["of"]:
        return _change("change", tokens, request)
    return None


def _rotate(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    words = words_in(tokens)
    end = next((index for index, word in enumerate(words) if word in _ROTATION_WORDS and index), len(words))
    tail = words[end:]
    if not tokens or not all(word in _ROTATION_WORDS or word.isdecimal() for word in tail):
        return None
    if request.is_scene(tokens[:end]):
        return request.operation("rotate", target=Target("image"), value=" ".join(tail))
    target = request.target(tokens[:end])
    if target is None or target.article == "a" or (target.pronoun and request.antecedent is None):
        return None
    return request.operation("rotate", target=target.target, value=" ".join(tail))


_ROTATION_WORDS = word_set(
    "by degrees degree ° 90 180 45 270 360 30 60 15 clockwise counterclockwise counter-clockwise anticlockwise "
    "anti-clockwise horizontally vertically upside down to the left right over around slightly"
)


def _crop(verb: str, tokens: Tokens, request: Request) -> Operations | None:
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
    if target is not None:
        return request.operation("crop", target=target.target)
    return request.operation("crop", value=plain_text(rest)) if is_description(rest, 8) else None


def _zoom(verb: str, tokens: Tokens, request: Request) -> Operations | None:
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


def _filter(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    words = words_in(tokens)
    while words and words[0] in ("out",):
        words, tokens = words[1:], tokens[1:]
    while words and words[-1] in ("slightly", "out"):
        words, tokens = words[:-1], tokens[:-1]
    value = (
        f"{verb}led"
        if False
        else {"blur": "blurred", "pixelate": "pixelated", "soften": "softened", "defocus": "defocused"}[verb]
    )
    if request.is_scene(tokens):
        return request.operation("filter", value=value)
    objects = _objects(tokens, request) if tokens else None
    if objects is None or len(objects) != 1 or (objects[0].pronoun and request.antecedent is None):
        return None
    return request.operation("filter", target=objects[0].target, value=value)


def _restore(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    if request.is_scene(tokens):
        return request.operation("restoration", value=f"{verb.removesuffix('e')}ed")
    words = [word for word in words_in(tokens) if word not in DETERMINERS]
    if words[-1:] and words[-1] in SCENES and all(word in ("old", "damaged", "blurry", "faded") for word in words[:-1]):
        return request.operation("restoration", value=f"{verb.removesuffix('e')}ed")
    return None


def _resize(verb: str, tokens: Tokens, request: Request) -> Operations | None:
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
    if target is None or target.article == "a" or (target.pronoun and request.antecedent is None):
        return None
    return request.operation("resize", target=target.target, value=" ".join([verb, *tail]))


_RESIZE_WORDS = word_set("by to slightly up down half twice double its original size the percent a bit little of")


def _duplicate(verb: str, tokens: Tokens, request: Request) -> Operations | None:
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


def _pose(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`raise the person's right arm`: a part of a body is put elsewhere."""
    phrase = phrase_at(tokens)
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


_FRAMES: Mapping[str, Frame] = MappingProxyType(
    {
        "remove": _remove,
        "extract": _extract,
        "add": _add,
        "put": _add,
        "move": _move,
        "replace": _replace,
        "swap": _swap,
        "substitute": _substitute,
        "change": _change,
        "color": _color,
        "make": _make,
        "render": _render,
        "give": _give,
        "light": _light,
        "degree": _degree,
        "rotate": _rotate,
        "crop": _crop,
        "zoom": _zoom,
        "filter": _filter,
        "restore": _restore,
        "resize": _resize,
        "duplicate": _duplicate,
        "write": _write,
        "pose": _pose,
        "dress": _dress,
        "cover": _cover,
    }
)
