"""Counts of an EdiVal-Bench instruction file beside those of the published one, which show that our rules for chains
(parsing and wording of instructions, updates of object pools) agree with it. Objects are counted in the thirteen
categories of appendix A by the last word of a name; which word belongs where is ours."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ....reward import Pools, Task
from ....reward.metrics.edival.task_parser import parse_task, update_pools
from ....reward.sample import TASK_TYPES
from ..suite import published_figures
from .construction_tasks import instruction_of
from .reader import EdiValTurn, InstructionFile, read_instruction_file

OTHER = "Other"

_WORDS = {
    "Clothing & Accessories": "shirt jacket pants dress shoe shorts hat necklace coat jeans sweater skirt tie robe top "
    "t-shirt scarf boot cap sock bow watch backpack glove earring blazer belt sandal jersey bracelet ring hoodie "
    "wristband suit blouse uniform bag leggings sneaker vest collar armor overalls headband cardigan cape cloak "
    "accessory undershirt outfit goggles beanie headscarf bodysuit sash crown sunglasses sleeve armband stockings "
    "shawl trousers costume apron swimsuit suspenders handbag bonnet romper bootie beret brooch choker "
    "turtleneck bra hairpin halter briefs gown flip-flop heel cleat zipper bib harness umbrella helmet strap pin",
    "Furniture & Home": "chair table curtain lamp vase blanket cabinet shelf desk bench pillow cloth sofa sink mirror "
    "lantern sheet lampshade faucet towel toilet bed nightstand seat tablecloth headboard bookshelf fan cushion rug "
    "stool dresser showerhead recliner mattress bedding bedsheet footrest candle chest frame drawer couch carpet",
    "Food & Kitchen": "plate bottle bowl cup cake drink pot fork knife mug straw glass spoon ladle dish food pizza "
    "broccoli strawberry apple cookie topping refrigerator napkin jar silverware cream soup garnish blender celery "
    "carrot snack smoothie cheesecake lemon grapefruit lime blueberry tomato vegetable tray pumpkin slice bread fruit "
    "kettle pan",
    "Structures & Places": "wall fence pole door window building railing skyscraper platform tile pavement post "
    "streetlight streetlamp statue floor road roof stairs tower awning bridge pagoda fountain ledge beam deck step "
    "rail handrail baseboard sculpture hydrant pedestal partition countertop house",
    "Vehicles & Transport": "car bus tire airplane boat bicycle wheel motorcycle train truck engine headlight biplane "
    "cart saddle ship van scooter helicopter",
    "Nature & Outdoors": "tree plant flower leaf rock grass log shrubbery foliage rose vegetation petal blossom ground "
    "bush stone mountain cloud sky",
    "Animals": "horse cat bear dog bird sheep zebra elephant animal butterfly giraffe fox goat kitten cub cow fish "
    "duck tail",
    "Sports, Toys & Hobby": "ball guitar toy balloon ski surfboard racket basketball snowboard bat dumbbell instrument "
    "figurine doll kite sword wand skateboard",
    "Stationery & Office": "pen notebook book magazine document board paper clipboard binder folder chalkboard menu "
    "scroll pencil sign signboard",
    "Electronics & Tech": "laptop phone smartphone keyboard headphone camera monitor television tablet speaker headset "
    "computer mouse screen cable device outlet switch machine walkie-talkie conditioner",
    "Body & Medical": "hair hand leg beard ear scar bandage stethoscope skeleton arm face",
    "Tools & Industrial": "rope ladder saw pipe hose hook tripod rod chain rifle cone container box basket stick staff "
    "hammer bucket",
}

CATEGORIES: tuple[str, ...] = (*_WORDS, OTHER)

_CATEGORY: Mapping[str, str] = {word: category for category, words in _WORDS.items() for word in words.split()}


def category_of(name: str) -> str:
    """The category of an object by the last word of its name, singular or plural; `Other` for an unknown word."""
    word = name.rsplit(maxsplit=1)[-1].casefold() if name.split() else ""
    singular = (word, word.removesuffix("s"), word.removesuffix("es"), word.removesuffix("ies") + "y")
    if word == "leaves":
        return _CATEGORY["leaf"]
    return next((_CATEGORY[one] for one in singular if one in _CATEGORY), OTHER)


TURNS = 3


@dataclass(frozen=True, slots=True)
class CountCheck:
    """expected: by the paper, or as counted in the published file (its revision of 2025). counted: in this file."""

    name: str
    expected: int
    counted: int

    @property
    def agrees(self) -> bool:
        return self.counted == self.expected

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "agrees": self.agrees}


def check_counts(path: Path) -> list[CountCheck]:
    """All counts with the expected ones. Raises `InputError` if the file cannot be read or lacks columns."""
    counted = counts(read_instruction_file(path))
    return [CountCheck(name, number, counted[name]) for name, number in expected().items()]


def expected() -> dict[str, int]:
    """Counts of the published file; those of task types are the paper's Table 2."""
    table = published_figures("edival")["tables"]["table2_type_counts_T1_T2_T3"]
    return {
        "rows": 1716,
        "chains": 572,
        "problems": 0,
        "highest image_index": 605,
        **{_of_type(kind, turn): table[kind][turn - 1] for kind in TASK_TYPES for turn in range(1, TURNS + 1)},
        "count_change in literal quotes": 90,
        "position_change in literal quotes": 92,
        "turns without a background to keep": 377,
        "turns without an object to keep": 335,
        "turns without either": 64,
        "instructions parsed as their type only, with the slots in brackets": 1716,
        "instructions worded as by our construction": 1716,
        "first turns whose pools follow from the image's objects": 572,
        "later turns": 1144,
        "later turns whose pools follow from the previous turn": 1069,
        # At a background change the released code drops objects that an earlier turn has added or renamed, although
        # the instruction keeps them. The paper keeps the foreground objects of the pool (section 2.3).
        "background changes whose pools lack objects of later turns": 75,
        "later turns whose pools follow with the first image's foreground": 1144,
    }


def counts(chains: InstructionFile) -> dict[str, int]:
    """The counts of a file in this layout."""
    turns = list(itertools.chain.from_iterable(chains.turns.values()))
    types = Counter((turn.type, turn.number) for turn in turns)
    quoted = Counter(turn.type for turn in turns if turn.instructions[-1].startswith('"'))
    bare = [(not turn.pools.background, not turn.pools.unchanged) for turn in turns]
    return {
        "rows": chains.rows,
        "chains": len(chains.turns),
        "problems": chains.problems.total,
        "highest image_index": max(chains.turns, default=0),
        **{_of_type(kind, turn): types[kind, turn] for kind in TASK_TYPES for turn in range(1, TURNS + 1)},
        "count_change in literal quotes": quoted["count_change"],
        "position_change in literal quotes": quoted["position_change"],
        "turns without a background to keep": sum(background for background, _ in bare),
        "turns without an object to keep": sum(objects for _, objects in bare),
        "turns without either": bare.count((True, True)),
        "instructions parsed as their type only, with the slots in brackets": sum(map(_is_parsed, turns)),
        "instructions worded as by our construction": sum(map(_is_parsed_by_wording, turns)),
        **_pool_counts(chains.turns),
    }


def _of_type(kind: str, turn: int) -> str:
    return f"{kind}, turn {turn}"


def _is_parsed(turn: EdiValTurn) -> bool:
    task = _task(turn)
    if task is None or any(parse_task(turn.instructions[-1], type=kind) for kind in TASK_TYPES if kind != turn.type):
        return False
    slots = (task.object, task.new, task.reference, task.position, task.count, task.value, task.text, task.old)
    kept = re.findall(r", remain the (.*) unchanged", turn.unquoted_instructions[-1])
    return (
        task.type == turn.type
        and sorted(re.findall(r"\[([^\[\]]*)\]", turn.formats[-1]))
        == sorted(str(slot) for slot in slots if slot is not None)
        and list(task.keep) == [name for names in kept for name in names.split(", ")]
    )


def _is_parsed_by_wording(turn: EdiValTurn) -> bool:
    task = _task(turn)
    return task is not None and instruction_of(task, turn.formats[-1]) == turn.instructions[-1]


def _task(turn: EdiValTurn) -> Task | None:
    return parse_task(turn.instructions[-1])


def _pool_counts(chains: Mapping[int, Sequence[EdiValTurn]]) -> dict[str, int]:
    first_follow = later_follow = lacking = follow_with_foreground = later = 0
    for turns in chains.values():
        objects = _objects_before(turns[0])
        first_follow += _follows(Pools(objects, objects, objects), turns[0])
        for before, turn in itertools.pairwise(turns):
            later += 1
            later_follow += _follows(before.pools, turn)
            lacking += _drops_later_objects(before.pools, turn)
            follow_with_foreground += _follows(before.pools, turn, objects)
    return {
        "first turns whose pools follow from the image's objects": first_follow,
        "later turns": later,
        "later turns whose pools follow from the previous turn": later_follow,
        "background changes whose pools lack objects of later turns": lacking,
        "later turns whose pools follow with the first image's foreground": follow_with_foreground,
    }


def _follows(before: Pools, turn: EdiValTurn, originals: Iterable[str] | None = None) -> bool:
    task = _task(turn)
    if task is None:
        return False
    foreground = None if originals is None else [name for name in task.keep if name in set(originals)]
    return update_pools(before, task, foreground=foreground) == turn.pools


def _drops_later_objects(before: Pools, turn: EdiValTurn) -> bool:
    """Whether only `available` differs, by lacking objects that the instruction keeps."""
    task = _task(turn)
    if task is None or task.type != "background_change" or _follows(before, turn):
        return False
    ours, theirs = update_pools(before, task), turn.pools
    rest = (ours.all, ours.unchanged, ours.background) == (theirs.all, theirs.unchanged, theirs.background)
    return rest and set(theirs.available) < set(ours.available) <= set(task.keep)


def _objects_before(first: EdiValTurn) -> tuple[str, ...]:
    after, task = first.pools.all, _task(first)
    before = after[:-1]
    added = task is not None and update_pools(Pools(before, before, before), task).all == after
    return before if added else after
