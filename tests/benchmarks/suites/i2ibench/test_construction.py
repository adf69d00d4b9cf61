"""A suite of prompts made of a folder of pictures by a scripted judge, read back, resumed, its rejects kept."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites.construction.workspace import NumberedImage
from editcritic.benchmarks.suites.i2ibench.construction import (
    GeneratedPrompt,
    SourceSet,
    apply_quotas,
    construct_suite,
    dimension_choices,
    dimension_counts,
    parse_prompt_reply,
    sample_scenes,
)
from editcritic.benchmarks.suites.i2ibench.reader import CATEGORIES
from editcritic.benchmarks.suites.i2ibench.suite import I2IBench
from editcritic.reward import Expert
from editcritic.reward.queries import Failure, Judge, Reply
from editcritic.reward.queries.answers import Outcome

from ..construction.scripted_experts import lines
from ..tiny_suite import picture


def answer(category: str, scene: str, count: int) -> dict[str, Any]:
    """What a good judge writes."""
    known = CATEGORIES[category]
    names = [one.title for one in dimension_choices(known)][: 1 if category == "local-editing" else 9]
    if category == "local-editing":
        names = ["Local Attribute Accuracy", "Spatial Accuracy"]
    of = " and ".join(f"picture {number}" for number in range(1, count + 1)) if known.multi else "the picture"
    letters = ' with the letters "OPEN"' if known.text else ""
    return {
        "instruction": f"Do some {category.replace('-', ' ')} with {of}{letters}",
        "target_text": "OPEN" if known.text else None,
        "hint": "It is night." if known.hint else None,
        "dimensions": names,
    }


class Writer(Expert):
    """Writes prompts; `spoils` may say something else for a category and draw."""

    id, kinds = "writer@1", (Judge,)

    def __init__(self, spoils: Callable[[str, str, int], str | Failure | None] = lambda *_: None) -> None:
        self._spoils = spoils
        self.queries: list[tuple[str, str, int]] = []

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        return [self._reply(query) for query in queries]

    def _reply(self, query: Judge) -> Outcome:
        scene, category = (dict(query.slots)[name] for name in ("scene", "category"))
        self.queries.append((scene, category, query.draw))
        spoilt = self._spoils(scene, category, query.draw)
        good = json.dumps(answer(category, scene, len(query.images)))
        return spoilt if isinstance(spoilt, Failure) else Reply(spoilt or good)


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    for number in range(4):
        picture(number).pil().save(folder / f"{number}.png")
    return folder


def test_a_prompt_of_each_category_for_each_scene_and_the_suite_reads_them(images, tmp_path):
    judge = Writer()
    made = construct_suite(images, tmp_path / "out", judge=judge, single=2, multi=2, seed=3)
    assert (made.num_constructed, made.num_rejected, made.failures) == (20, 0, {})
    assert len(judge.queries) == 20
    suite = I2IBench(tmp_path / "out")
    assert not suite.problems
    assert {item.labels["category"] for item in suite.items} == set(CATEGORIES)
    assert [len(item.sample.sources) for item in suite.items[::5]] == [1, 1, 2, 3]
    sample = next(item for item in suite.items if item.labels["category"] == "combination-editing-text").sample
    assert sample.target_text == "OPEN"
    assert {"multi-text-content-style", "multi-subject-extraction"} <= set(sample.dimensions or ())


def test_the_same_call_again_asks_nothing_and_writes_the_same(editcritic, images, tmp_path):
    out, judge = tmp_path / "out", f"{__name__}:Writer"
    options = ("--judge", judge, "-o", out, "--single-scenes", "1", "--multi-scenes", "1")
    editcritic("bench", "build", "i2ibench", images, *options, code=0, shows="10 prompts constructed, 0 rejected")
    assert len(I2IBench(out).items) == 10
    before = {path: path.read_bytes() for path in sorted(out.glob("*.jsonl"))}
    writer = Writer()
    construct_suite(images, out, judge=writer, single=1, multi=1)
    assert writer.queries == []
    assert {path: path.read_bytes() for path in sorted(out.glob("*.jsonl"))} == before
    with pytest.raises(InputError, match="another seed"):
        construct_suite(images, out, judge=Writer(), single=1, multi=1, seed=1)


def test_what_cannot_be_used_is_asked_again_then_given_up_and_kept_with_its_reason(images, tmp_path):
    def spoils(scene: str, category: str, draw: int) -> str | None:
        if category == "text-rendering":
            return json.dumps({**answer(category, scene, 1), "target_text": None})
        return "I am sorry, I cannot do that" if category == "object-manipulation" and draw == 0 else None

    made = construct_suite(images, tmp_path / "out", judge=Writer(spoils), single=1, multi=0)
    assert (made.num_constructed, made.num_rejected) == (4, 1)
    rejections = lines(tmp_path / "out" / "rejections.jsonl")
    assert [(one["stage"], one.get("attempt")) for one in rejections] == [
        ("i2ibench/object-manipulation", 0),
        *(("i2ibench/text-rendering", attempt) for attempt in range(3)),
        ("rejected", None),
    ]
    assert "refused" in rejections[0]["reason"]
    assert "no text to render" in rejections[-1]["reason"]
    assert "text-rendering" in rejections[-1]["reason"]


def test_what_was_not_answered_is_asked_when_it_goes_on(images, tmp_path):
    def down(scene: str, category: str, draw: int) -> Failure | None:
        return Failure("the line is dead") if category == "world-knowledge" else None

    out = tmp_path / "out"
    made = construct_suite(images, out, judge=Writer(down), single=1, multi=0)
    assert (made.num_constructed, made.num_rejected, made.exit_code) == (0, 0, 1)
    assert "the line is dead" in made.failures["s0000"]
    judge = Writer()
    assert construct_suite(images, out, judge=judge, single=1, multi=0).num_constructed == 5
    assert [category for _, category, _ in judge.queries] == ["world-knowledge"]


@pytest.mark.parametrize(
    ("category", "change", "why"),
    [
        ("text-rendering", {"target_text": "CLOSED"}, "does not quote"),
        ("world-knowledge", {"hint": ""}, "no hint for grading"),
        ("basic-combination", {"instruction": "Put the cat of picture 1 into the room"}, "picture 2"),
        ("local-editing", {"dimensions": []}, "neither a changed attribute"),
        ("local-editing", {"dimensions": ["Beauty"]}, "none of the dimensions"),
        ("local-editing", {"instruction": "taken"}, "repeats another prompt"),
        ("local-editing", {"instruction": "word " * 61}, "61 words"),
    ],
)
def test_a_prompt_that_is_none_says_why(category, change, why):
    places = tuple(NumberedImage(number, f"{number}.png", Path(f"{number}.png")) for number in range(2))
    scene = SourceSet("m", places if CATEGORIES[category].multi else places[:1])
    row = {**answer(category, "m", 2), **change}
    with pytest.raises(ValueError, match=why):
        parse_prompt_reply(json.dumps(row), scene, CATEGORIES[category], ["taken"])


def test_a_dimension_has_no_larger_a_share_than_in_the_paper_and_categories_keep_their_own():
    scene = SourceSet("s", ())
    single = [one for one in CATEGORIES.values() if not one.multi]
    made = [
        GeneratedPrompt(
            scene, category, f"{number}", "", "", tuple(dict.fromkeys((*own, "spatial-accuracy", "subject-identity")))
        )
        for number in range(20)
        for category in single
        for own in [("local-attribute",) if category.name == "local-editing" else ()]
    ]
    kept = apply_quotas(made, 0)
    assert kept == apply_quotas(made, 0) != apply_quotas(made, 1)
    counts = dimension_counts(kept)
    assert counts["spatial-accuracy"] == {"prompts": 55, "quota": 55}
    assert counts["subject-identity"] == {"prompts": 47, "quota": 47}
    assert counts["local-attribute"] == {"prompts": 20, "quota": 56}
    assert counts["aesthetic-quality"] == {"prompts": 100, "quota": 100}


def test_scenes_are_drawn_once_each_and_by_seed():
    images = [NumberedImage(number, f"{number}.png", Path(f"{number}.png")) for number in range(4)]
    scenes = sample_scenes(images, None, None, (2, 3), 0)
    sets = [frozenset(picture.name for picture in scene.sources) for scene in scenes]
    assert len(sets) == len(set(sets)) == 4 + 6 + 4
    first, again, other = (sample_scenes(images, 2, 3, (2,), seed) for seed in (0, 0, 1))
    assert first == again != other
    for single, message in ((5, "single is 0 to 4 scenes"), (0, "nothing to construct")):
        with pytest.raises(InputError, match=message):
            sample_scenes(images, single, 0, (2,), 0)
