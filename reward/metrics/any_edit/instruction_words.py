"""The words of an instruction, and what of them a plan accounts for. All takes time linear in the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from ...edit_plan import OPERATION_TYPES, EditPlan, OperationType, PlannedOperation, Target
from ...sample import TASK_TYPES


def word_set(words: str) -> frozenset[str]:
    """The words of a list in one string."""
    return frozenset(words.split())


FUNCTION_WORDS = word_set(
    "a an the this that these those it its they them their there he him his she her hers i me my we us our you your "
    "one ones who whose which what where when how of to in on at with from by for into onto as like than via upon "
    "within off out up down over through across along toward towards around about or and but then also so such too "
    "just now next finally first please can could would should will shall may might must want wish need let lets is "
    "are was were be been being do does done did have has had having not no only very more most some any other "
    "another if while during after before until since because instead rather same new whole entire entirely "
    "completely fully slightly little bit lot much well either place pair get rid take see again they're possible "
    "pls plz thanks thank thx cheers advance hello many hey hi kindly give away i'd i'm it's let's that's there's who's"
)
LARGE_WORDS, SMALL_WORDS = word_set("bigger biggest larger largest"), word_set("smaller smallest tinier tiniest")
"""They say which of several is meant, or how one is to become."""
SCENE_WORDS = word_set("image images picture pictures photo photos photograph photographs scene shot frame")
REQUEST_WORDS = word_set("edit edited version result look looks looking appear appears seem seems become style effect")
"""They say that something is requested, not what."""

KEEP_WORDS = word_set(
    "keep keeping preserve preserving maintain maintaining retain retaining remain remains leave leaving unchanged "
    "untouched intact unaltered"
)
WITHOUT_WORDS = word_set("changing altering affecting touching modifying disturbing moving removing")
"""After "without": something must stay."""
REST_WORDS = word_set("everything else rest other others remaining all")
ALL_WORDS = word_set("all both every each everything")
ASPECT_WORDS = word_set("background face identity layout composition light lighting style text object objects")
"""What may be kept of a whole picture."""

TEXT_CARRIERS = word_set(
    "text word letter caption title logo label sign signpost signboard poster banner billboard placard book magazine "
    "newspaper menu map card postcard ticket receipt bill banknote document page notebook calendar chalkboard "
    "blackboard whiteboard screen monitor laptop phone television keyboard clock watch plate jersey bottle can box "
    "package packaging brand shop store market street city storefront graffiti comic meme subtitle watermark writing "
    "inscription handwriting number"
)
"""Things that carry text by nature."""
GENERIC_TEXT_NAMES = word_set("text word letter lettering writing inscription handwriting")
"""A text by what it is: without a place, all that there is."""
TEXT_NAMES = GENERIC_TEXT_NAMES | {
    *word_set("caption subtitle watermark timestamp datestamp date signature headline slogan credit"),
    *("date stamp", "time stamp", "date imprint"),
}
"""A text by what it is or what it is for; not what carries one."""

VERBS: Mapping[str, str] = {
    "remove": "remove delete erase eliminate clear discard",
    "replace": "replace swap substitute exchange",
    "move": "move shift relocate reposition position slide",
    "write": "write type print inscribe label engrave",
    "rotate": "rotate flip tilt mirror",
    "resize": "resize enlarge shrink scale widen",
    "duplicate": "duplicate copy clone multiply",
    "crop": "crop trim",
    "zoom": "zoom",
    "extract": "extract isolate",
    "restore": "restore repair denoise deblur sharpen colorize colourize upscale",
    "light": "brighten darken illuminate dim lighten",
    "filter": "blur soften stylize pixelate",
    "add": "add insert put place draw paint include create introduce give overlay sprinkle scatter hang generate",
    "": "change alter modify convert transform turn make set adjust update recolor recolour dye tint color colour "
    "apply use show render depict have let redo fix improve enhance restyle switch vary",
}
"""Group -> its verbs. The last group says nothing about the kind of change."""
LEADING_WORDS = word_set("please also now finally next first just to can could would you i we want like need so")
"""Words that may stand before the verb of a request."""
NOT_LEADING = word_set(
    "including painting paint drawing printing print label mirror position color colour coloring colouring slide scale "
    "dye tint type show switch clear have having let trim clone copy"
)
"""Forms of verbs of editing that are nouns or adjectives as often."""

_REMOVING = "subject_remove text_remove effect_remove particles_remove extraction crop"
GROUP_TYPES: Mapping[str, frozenset[str]] = {
    "remove": word_set(
        "subject_remove text_remove effect_remove particles_remove count_change restoration extraction attribute "
        "background_change subject_replace text_change weather filter"
    ),
    "replace": word_set(
        "subject_replace text_change background_change material_alter color_alter attribute weather style pose "
        "expression"
    ),
    "move": word_set("position_change pose camera reframe"),
    "write": word_set("text_change text_style"),
    "rotate": word_set("rotate pose camera"),
    "resize": word_set("resize zoom crop reframe attribute"),
    "duplicate": word_set("duplicate count_change subject_add"),
    "crop": word_set("crop reframe zoom subject_remove"),
    "zoom": word_set("zoom crop reframe camera"),
    "extract": word_set("extraction background_change subject_remove"),
    "restore": word_set("restoration filter effect_remove style light"),
    "light": word_set("light filter color_alter weather style restoration"),
    "filter": word_set("filter style effect_add light restoration"),
    "add": frozenset(OPERATION_TYPES) - word_set(_REMOVING),
    "": frozenset(OPERATION_TYPES),
}
"""Group of verbs -> types of operations that they may ask for, beside `CATCH_ALL_TYPES`."""
CATCH_ALL_TYPES: frozenset[OperationType] = frozenset(("reasoning", "composition", "other"))

TYPE_WORDS: Mapping[OperationType, frozenset[str]] = {
    "color_alter": word_set("color hue shade tone"),
    "material_alter": word_set("material texture surface made"),
    "count_change": word_set("count number amount total"),
    "position_change": word_set("position location side spot"),
    "subject_add": word_set("object side"),
    "subject_remove": word_set("object away"),
    "subject_replace": word_set("object"),
    "text_change": word_set("text word letters lettering sign writing written saying says reading caption"),
    "background_change": word_set("background backdrop setting environment"),
}
"""Words that the type of an operation accounts for."""

_PLACES = {
    "left": "left leftmost",
    "right": "right rightmost",
    "above": "above top upper uppermost topmost",
    "below": "below under beneath underneath bottom lower",
    "center": "center centre middle",
    "front": "front foreground forefront",
    "back": "back background rear",
    "beside": "beside next near adjacent",
}
PLACE_GROUPS: Mapping[str, str] = {word: group for group, words in _PLACES.items() for word in words.split()}
"""Word of a place -> group of words of one meaning."""

_NUMBERS = {2: "two second twice", 3: "three third", 4: "four fourth", 5: "five fifth", 6: "six", 7: "seven"}
_NUMBERS |= {8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve"}
NUMBERS: Mapping[str, int] = {word: number for number, words in _NUMBERS.items() for word in words.split()}

IRREGULAR_PLURALS = word_set(
    "people men women children feet geese mice teeth policemen firemen fishermen snowmen businessmen businesswomen"
)
NO_PLURALS = word_set(
    "glasses sunglasses eyeglasses goggles binoculars scissors pliers tongs pants trousers jeans shorts leggings "
    "tights pajamas pyjamas headphones earphones clothes stairs lens canvas atlas gas christmas series species"
)
"""Plurals of one thing, and singulars that end in s."""
MASS_NOUNS = word_set(
    "text writing lettering graffiti snow ice grass foliage vegetation litter trash garbage rubbish debris clutter "
    "dirt mud dust rust smoke fog mist water furniture luggage traffic food jewelry jewellery"
)
"""What is not counted: it means all that is there."""

SPELLINGS: Mapping[str, str] = {
    "colour": "color",
    "colours": "color",
    "coloured": "color",
    "grey": "gray",
    "centre": "center",
    "metre": "meter",
}
"""British spelling -> American."""


_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_MARK = re.compile(r"[,;:.!?，；：。！？]")  # noqa: RUF001  (of Chinese)
_OPENING = "\"'“‘«「『„"  # noqa: RUF001
_CLOSING: Mapping[str, str] = dict(zip(_OPENING, "\"'”’»」』“", strict=True))
_QUOTE = re.compile(f"[{_OPENING}]")
_APOSTROPHES = "'‘’"  # noqa: RUF001


def collapsed(text: str) -> str:
    """The text with single blanks, and with compatibility characters, such as full-width letters, replaced."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def words_of(text: str) -> list[str]:
    """The words and numbers of a text, in lower case; a run of letters of a script without blanks is one word."""
    return [word.casefold().replace("’", "'") for word in _WORD.findall(text)]


def clauses_of(sentence: str) -> list[list[str]]:
    """The words of the parts of a sentence between punctuation marks and the words "and", "then", "while", "but"."""
    clauses: list[list[str]] = []
    for part in _MARK.split(sentence):
        clauses.append([])
        for word in words_of(part):
            if word in ("and", "then", "while", "but"):
                clauses.append([])
            else:
                clauses[-1].append(word)
    return [clause for clause in clauses if clause]


def split_quotes(sentence: str) -> tuple[str, list[str]]:
    """A sentence with quoted texts blanked out, and these. Single quotes open after a blank or mark only, and close
    before one only: they are apostrophes otherwise. Quotes around the whole sentence are none."""
    sentence = sentence.strip()
    is_wrapped = len(sentence) > 1 and sentence[0] in '"“' and sentence[-1] in '"”'
    sentence = sentence[1:-1] if is_wrapped and not set(sentence[1:-1]) & set('"“”') else sentence
    if _QUOTE.search(sentence) is None:
        return sentence, []
    ends = {closing: _next_positions(sentence, closing) for mark, closing in _CLOSING.items() if mark in sentence}
    plain: list[str] = []
    quoted: list[str] = []
    position = 0
    while position < len(sentence):
        mark = sentence[position]
        opens = mark not in _APOSTROPHES or position == 0 or not sentence[position - 1].isalnum()
        end = ends[_CLOSING[mark]][position + 1] if mark in _CLOSING and opens else -1
        if end < 0:
            plain.append(mark)
            position += 1
        else:
            quoted.append(sentence[position + 1 : end])
            plain.append(" ")
            position = end + 1
    return "".join(plain), [text for text in quoted if text.strip()]


def _next_positions(sentence: str, mark: str) -> list[int]:
    """For each position, that of the next closing mark at or after it; -1 without one."""
    positions = [-1] * (len(sentence) + 2)
    for position in range(len(sentence) - 1, -1, -1):
        is_apostrophe = mark in _APOSTROPHES and sentence[position + 1 : position + 2].isalnum()
        positions[position] = position if sentence[position] == mark and not is_apostrophe else positions[position + 1]
    return positions


def is_english(sentence: str, language: str) -> bool:
    """Whether the lists of English words apply: by the plan's language, if at least half of the letters are Latin."""
    if language.lower().split("-")[0] != "en":
        return False
    if sentence.isascii():
        return True
    letters = [character for character in sentence if character.isalpha()]
    return 2 * sum(one.isascii() for one in letters) >= len(letters)


_ENGLISH_SHARE = 0.3
"""Share of words that are English function words or verbs of editing from which on a sentence reads as English. They
make half of an English request; other languages share few of them ("in", "die", "change")."""


def reads_as_english(sentence: str) -> bool:
    """Whether a sentence is English by its own words, whatever a planner says."""
    words = [word for word in words_of(sentence) if word.isascii()]
    known = FUNCTION_WORDS | SCENE_WORDS
    count = sum(word in known or stem(word) in VERB_GROUPS for word in words)
    return is_english(sentence, "en") and count >= max(1.0, _ENGLISH_SHARE * len(words))


_SUFFIXES = ("ingly", "edly", "ing", "ed", "es", "s", "ly", "est", "er", "en", "y", "ish")


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A crude English stem: plurals, -ing, -ed, -er, -est, -ly, -y, -en and British spellings make no difference."""
    word = word.removesuffix("'s").removesuffix("'")
    word = SPELLINGS.get(word, word)
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            word = word[: -len(suffix)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def stems(text: str) -> set[str]:
    """The stems of all words of a text."""
    return {stem(word) for word in words_of(text)}


def stems_of(words: Iterable[str]) -> frozenset[str]:
    """The stems of words."""
    return frozenset(map(stem, words))


VERB_GROUPS: Mapping[str, str] = {stem(verb): group for group, verbs in VERBS.items() for verb in verbs.split()}
"""Stem of a verb of editing -> its group in `VERBS`."""
VERB_FORMS: Mapping[str, str] = {
    form: group
    for group, verbs in VERBS.items()
    for verb in verbs.split()
    for form in (verb, f"{verb}ing", f"{verb.removesuffix('e')}ing", f"{verb}{verb[-1]}ing")
    if form not in NOT_LEADING
}
"""Form of a verb that begins a request inside a sentence -> its group; not "painted", as in "a painted wall"."""
_NO_CONTENT = stems_of(SCENE_WORDS | REQUEST_WORDS) | VERB_GROUPS.keys()


def content_stems(words: Iterable[str]) -> set[str]:
    """Stems of words with a meaning of their own: no function words, words of the scene, or verbs of editing."""
    return {stem(word) for word in words if word not in FUNCTION_WORDS} - _NO_CONTENT


def without_image_numbers(words: Sequence[str]) -> list[str]:
    """The words without those that tell source images apart, as in "of the second picture" and "into the first one"."""
    return [
        word
        for word, after in zip(words, [*words[1:], ""], strict=False)
        if not (word in _ORDINALS and (after in SCENE_WORDS or after == "one"))
    ]


_ORDINALS = frozenset(("first", "second", "third", "fourth"))


def number_of(word: str) -> int | None:
    """The value of a number in digits ("3", "3rd"), or of an English word for it from two to twelve; else None."""
    digits = word.removesuffix("st").removesuffix("nd").removesuffix("rd").removesuffix("th")
    return int(digits) if digits.isdecimal() and len(digits) <= 9 else NUMBERS.get(word)


class PlanAccount:
    """The words that a plan accounts for: its operations, their targets, what is kept. `words` of an operation count
    only if its question repeats them, not where algorithms or questions of the planner check its slots."""

    def __init__(self, plan: EditPlan) -> None:
        self.plan = plan
        self.kept = " ".join(f"{item.aspect} {item.words} {words_of_target(item.target)}" for item in plan.keep)
        checked = [f"{_slots(operation)} {_questions(operation)}" for operation in plan.operations]
        repeated = [
            "" if operation.type in TASK_TYPES or _questions(operation) else operation.words
            for operation in plan.operations
        ]
        of_types = [_TYPE_STEMS.get(operation.type, frozenset()) for operation in plan.operations]
        of_plan = frozenset[str]().union(*of_types)
        self.operation_stems = [
            stems(f"{text} {words}") | own for text, words, own in zip(checked, repeated, of_types, strict=True)
        ]
        self.checked_stems = stems(" ".join((*checked, self.kept))) | of_plan
        self.text = " ".join((*checked, *repeated, self.kept)).casefold()
        words = words_of(self.text)
        self.stems = stems_of(words) | of_plan
        self.targets = all_targets(plan)
        self.numbers = set(self._numbers()) | {value for word in words if (value := number_of(word)) is not None}
        self.places = {group for word in words if (group := PLACE_GROUPS.get(word))}

    def has_text(self, text: str) -> bool:
        """Whether a quoted text is in the plan."""
        return " ".join(words_of(text)) in " ".join(words_of(self.text))

    def has_word(self, word: str) -> bool:
        """Whether a word is accounted for, or needs not be. Places: see `missing_places`."""
        if word in PLACE_GROUPS or not content_stems([word]) or stem(word) in self.stems:
            return True
        number = number_of(word)
        if number is not None:
            return number in self.numbers
        if word in KEEP_WORDS or word in WITHOUT_WORDS or word == "without":
            return True  # see `swallowed`
        if word in LARGE_WORDS or word in SMALL_WORDS:
            return ("largest" if word in LARGE_WORDS else "smallest") in {target.size for target in self.targets}
        if word == "side" and self.places:
            return True  # of the picture
        if word == "both" and len(self.plan.operations) > 1:
            return True  # "both the cup and the plate"
        if word in ALL_WORDS:
            return bool(self.plan.keep) or self.plan.scope == "whole" or any(one.quantity != 1 for one in self.targets)
        return not word.isascii() and word in self.text

    def missing_places(self, words: Sequence[str]) -> list[str]:
        """Words of places that no position, place, order or relation accounts for."""
        missing = []
        for number, word in enumerate(words):
            group = PLACE_GROUPS.get(word)
            is_then = word == "next" and words[number + 1 : number + 2] != ["to"]
            if group and not is_then and group not in self.places and stem(word) not in self.stems:
                missing.append(word)
        return missing

    def swallowed(self, sentence: str) -> Iterator[str]:
        """Parts of an English sentence that ask for something of their own, and that the plan is not about."""
        used: set[int] = set()
        for clause in clauses_of(sentence):
            if (
                self._keeps_something_else(clause)
                or not self._has_request(clause, used)
                or not self._has_purpose(clause)
            ):
                yield " ".join(clause)

    def _keeps_something_else(self, clause: list[str]) -> bool:
        """Whether a clause asks that something stays, and nothing of the kind is kept."""
        triggers = [word for word in clause if word in KEEP_WORDS]
        if triggers:
            nouns = stems(" ".join(target.phrase for target in self.targets))
            triggers = [word for word in triggers if stem(word) not in nouns]
        triggers += [word for word, after in pairwise(clause) if word == "without" and after in WITHOUT_WORDS]
        if not triggers:
            return False
        if not self.plan.keep:
            return True
        if clause[0] in KEEP_WORDS or triggers == ["unchanged"]:
            content = content_stems(word for word in clause if word not in KEEP_WORDS) - _REST_STEMS
            return bool(content) and not content & stems(self.kept) and not content & _ASPECT_STEMS
        return False

    def _has_request(self, clause: list[str], used: set[int]) -> bool:
        """Whether an operation is about a clause that begins with a verb. used: catch-all operations that are spent."""
        words = iter(clause)
        verb = next((word for word in words if word not in LEADING_WORDS), "")
        if verb not in VERB_FORMS:
            return True
        content = content_stems(words)
        types = GROUP_TYPES[VERB_FORMS[verb]]
        for operation, own in zip(self.plan.operations, self.operation_stems, strict=True):
            if operation.type in types and operation.type not in CATCH_ALL_TYPES and (not content or content & own):
                return True
        for index, operation in enumerate(self.plan.operations):
            if operation.type in CATCH_ALL_TYPES and index not in used:
                used.add(index)
                return True
        return False

    def _has_purpose(self, clause: list[str]) -> bool:
        for number, pair in enumerate(pairwise(clause)):
            if pair in (("so", "that"), ("such", "that")):
                return content_stems(clause[number + 2 :]) <= self.checked_stems
        return True

    def _numbers(self) -> Iterator[int]:
        for target in self.targets:
            if target.order is not None:
                yield target.order
            if target.size is not None:
                yield 2  # "the smaller of the two"
            yield 2 if target.quantity == "both" else target.quantity if isinstance(target.quantity, int) else 1
        yield from (operation.count for operation in self.plan.operations if operation.count is not None)


_REST_STEMS, _ASPECT_STEMS = stems_of(REST_WORDS), stems_of(ASPECT_WORDS)
_TYPE_STEMS = {kind: stems_of(words) for kind, words in TYPE_WORDS.items()}


def words_of_target(target: Target | None) -> str:
    """The referring expression; empty without a target."""
    return "" if target is None else target.words


def with_related(target: Target) -> list[Target]:
    """The target, and those that it relates to, one through the other."""
    return [target] if target.relation is None else [target, *with_related(target.relation.of)]


def all_targets(plan: EditPlan) -> list[Target]:
    """The targets of the operations and of what is kept, and those that they relate to."""
    targets = [target for operation in plan.operations for target in operation.targets]
    targets += [item.target for item in plan.keep if item.target is not None]
    return [related for target in targets for related in with_related(target)]


def _slots(operation: PlannedOperation) -> str:
    count = "" if operation.count is None else str(operation.count)
    targets = [target.words for target in operation.targets]
    return " ".join((*targets, operation.value, operation.text, operation.old_text, operation.position or "", count))


def _questions(operation: PlannedOperation) -> str:
    return " ".join(question.text for question in operation.questions if not question.near_miss)
