"""Sample files: valid lines become samples; invalid lines are reported, and reading continues."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Box, EditPlan, EditSample, Image, Operation, PlannedOperation, Pools, Target, Task
from editcritic.reward.sample import POSITIONS
from editcritic.reward.sample_files import InvalidLine, read_samples, sample_from_json, sample_to_json

from .fakes import picture
from .plan_strategies import PLANS

GOOD = {"instruction": "make it blue", "source": "before.png", "edited": "after.png"}
NAN, INF = float("nan"), float("inf")
WRONG = {
    "a field that is none": ({**GOOD, "instructions": "x"}, "instructions: Extra inputs are not permitted"),
    "no instruction": ({"source": "before.png", "edited": "after.png"}, "instruction: Field required"),
    "no edited picture": ({"instruction": "x", "source": "before.png"}, "edited: Field required"),
    "no source": ({"instruction": "x", "edited": "after.png"}, "give either `source` or `sources`"),
    "two sources": ({**GOOD, "sources": ["before.png"]}, "give either `source` or `sources`"),
    "another version": ({**GOOD, "schema": 2}, "schema 2 is not 1: written by another version"),
    "a list": ([1], "Input should be"),
    "a number": ("7", "Input should be"),
    "an instruction that is none": ({**GOOD, "instruction": 7}, "instruction: Input should be a valid string"),
    "a missing picture": ({**GOOD, "edited": "nowhere.png"}, "cannot read image"),
    "a picture that is none": ({**GOOD, "edited": "samples.jsonl"}, "samples.jsonl is not an image"),
    "an unknown task": ({**GOOD, "task": {"type": "paint"}}, "task.type: Input should be 'subject_add'"),
    "a task without its slots": ({**GOOD, "task": {"type": "subject_add"}}, "a subject_add task needs new"),
    "a slot that is none": ({**GOOD, "task": {"type": "subject_add", "name": "x"}}, "task.name: Unexpected"),
    "three corners": ({**GOOD, "boxes": {"cup": [[1, 2, 3]]}}, "boxes.cup.0.3: Field required"),
    "a NaN in a box": ({**GOOD, "boxes": {"cup": [[1, NAN, 3, 4]]}}, "NaN is no number of JSON"),
    "an infinity in a box": ({**GOOD, "boxes": {"cup": [[1, 2, INF, 4]]}}, "Infinity is no number of JSON"),
    "an empty box": ({**GOOD, "boxes": {"cup": [[3, 2, 3, 4]]}}, "is empty: give x0 < x1 and y0 < y1, in pixels"),
    "corners the wrong way": ({**GOOD, "boxes": {"cup": [[5, 2, 3, 4]]}}, "is empty: give x0 < x1"),
    "a box outside": ({**GOOD, "boxes": {"cup": [[1, 2, 17, 4]]}}, "lies outside of its 16 x 8 image: boxes are x0,"),
    "a box above": ({**GOOD, "boxes": {"cup": [[1, -2, 6, 4]]}}, "lies outside of its 16 x 8 image"),
    "a NaN in a recording": ({**GOOD, "fractions": {"cup": [[NAN, 0.5, 0.1, 0.1, 1.0]]}}, "NaN is no number of JSON"),
    "a plan of nothing known": ({**GOOD, "plan": {"operations": [{"type": "paint"}]}}, "plan.operations.0.type"),
    "an earlier turn without a picture": ({**GOOD, "history": [{"instruction": "x"}]}, "history.0.edited: Field"),
}
TEXTS = st.text(max_size=6)
NAMES = st.text(min_size=1, max_size=6)
SHARES = st.floats(0, 1)
SIZES = st.tuples(st.integers(1, 4000), st.integers(1, 4000))
TASKS = st.one_of(
    st.builds(Task, st.just("subject_remove"), object=NAMES),
    st.builds(Task, st.just("count_change"), object=NAMES, count=st.integers(0, 9)),
    st.builds(Task, st.just("position_change"), object=NAMES, position=st.sampled_from(POSITIONS), reference=NAMES),
    st.builds(Task, st.just("text_change"), text=NAMES, object=NAMES, old=NAMES),
    st.builds(Task, st.just("background_change"), value=NAMES, keep=st.lists(NAMES, max_size=2).map(tuple)),
)
OBJECTS = st.lists(NAMES, max_size=3).map(tuple)
POOLS = st.builds(Pools, OBJECTS, OBJECTS, OBJECTS, st.booleans())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
METADATA = st.dictionaries(TEXTS, VALUES, max_size=2)
OPERATIONS = st.lists(st.builds(Operation, TEXTS, TEXTS, st.none() | TASKS), max_size=2).map(tuple)
IMAGES = [Image.from_digest(f"{number:064x}", size) for number, size in enumerate([(1, 1), (16, 8), (640, 427)])]


@pytest.fixture
def folder(tmp_path):
    """Four images of 16 x 8."""
    for seed, name in enumerate(["before.png", "after.png", "later.png", "mask.png"]):
        picture(seed, 16, 8).pil().save(tmp_path / name)
    return tmp_path


def read(folder, *rows, encoding="utf-8"):
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path = folder / "samples.jsonl"
    path.write_bytes("\n".join(lines).encode(encoding))
    return list(read_samples(path))


def problem(folder, row):
    (line,) = read(folder, row)
    assert isinstance(line, InvalidLine)
    assert line.number == 1
    return line.problem


def test_the_least_line_and_one_box_are_samples(folder):
    (sample,) = read(folder, GOOD)
    assert isinstance(sample, EditSample)
    assert (sample.id, sample.instruction) == ("samples:1", "make it blue")
    assert (sample.source, sample.edited) == (picture(0, 16, 8), picture(1, 16, 8))
    boxes = {"cup": [0, 0, 8, 4], "lid": [[0, 0, 8, 4]]}
    sample = sample_from_json({**GOOD, "boxes": boxes}, folder=folder)
    assert sample.boxes == {name: (Box(0.25, 0.25, 0.5, 0.5, label=name),) for name in boxes}
    samples = read(folder, json.dumps(GOOD) + "\r", json.dumps(GOOD) + "\r", "\r")
    assert [type(item) for item in samples] == [EditSample, EditSample]


def test_a_line_with_everything_is_a_sample(folder):
    row = {
        **GOOD,
        "schema": 1,
        "id": "cup",
        "group": "g",
        "task": {"type": "color_alter", "object": "cup", "value": "blue"},
        "pools": {"all": ["cup"], "available": ["cup"], "unchanged": [], "background": False},
        "boxes": {"cup": [[0, 0, 8, 4], [8, 4, 16, 8]]},
        "mask": "mask.png",
        "reference": "later.png",
        "operations": [
            {"instruction": "Make the cup blue", "task": {"type": "color_alter", "object": "cup", "value": "blue"}},
            {"instruction": "Sharpen it", "name": "Apply Filter"},
        ],
        "targets": [[0, 0, 8, 4]],
        "plan": {"operations": [{"type": "color_alter", "target": {"noun": "cup"}, "value": "blue"}]},
        "target_text": "TEA",
        "hint": "the cup is blue",
        "dimensions": ["local_attribute"],
        "metadata": {"seed": 3},
    }
    (sample,) = read(folder, row)
    assert isinstance(sample, EditSample)
    blue = Task("color_alter", object="cup", value="blue")
    assert sample.operations == (Operation("Make the cup blue", task=blue), Operation("Sharpen it", "Apply Filter"))
    assert sample.plan == EditPlan((PlannedOperation("color_alter", target=Target("cup"), value="blue"),))
    assert sample.targets == (Box(0.25, 0.25, 0.5, 0.5),)
    assert (sample.target_text, sample.hint, sample.dimensions) == ("TEA", "the cup is blue", ("local_attribute",))
    assert sample_from_json(sample_to_json(sample)) == sample
    assert (sample.id, sample.group, sample.metadata) == ("cup", "g", {"seed": 3})
    assert sample.task == Task("color_alter", object="cup", value="blue")
    assert sample.pools == Pools(("cup",), ("cup",), (), False)
    assert sample.boxes == {"cup": (Box(0.25, 0.25, 0.5, 0.5, label="cup"), Box(0.75, 0.75, 0.5, 0.5, label="cup"))}
    assert (sample.mask, sample.reference) == (picture(3, 16, 8), picture(2, 16, 8))


def test_earlier_turns_start_each_from_what_the_one_before_it_made(folder):
    row = {
        **GOOD,
        "edited": "later.png",
        "boxes": {"cup": [[0, 0, 8, 4]]},
        "history": [
            {
                "instruction": "remove the lid",
                "edited": "after.png",
                "task": {"type": "subject_remove", "object": "lid"},
            },
            {"instruction": "add a straw", "edited": "mask.png", "pools": {"all": ["cup"]}},
        ],
    }
    (sample,) = read(folder, row)
    assert isinstance(sample, EditSample)
    assert [turn.instruction for turn in sample.turns] == ["remove the lid", "add a straw", "make it blue"]
    before, after, later, mask = (picture(seed, 16, 8) for seed in range(4))
    assert [turn.source for turn in sample.turns] == [before, after, mask]
    assert [turn.edited for turn in sample.turns] == [after, mask, later]
    assert [turn.turn for turn in sample.turns] == [1, 2, 3]
    assert sample.base == before
    assert sample.turns[0].task == Task("subject_remove", object="lid")
    assert sample.turns[1].pools == Pools(all=("cup",))
    assert sample.turns[1].boxes == sample.boxes
    assert [turn.id for turn in sample.history] == ["samples:1/turn-1", "samples:1/turn-2"]


def test_broken_lines_other_encodings_and_paths(folder, monkeypatch, tmp_path_factory):
    lines = read(folder, GOOD, '{"id": ', "", GOOD, '{"instruction"', {**GOOD, "edited": "nowhere.png"}, GOOD)
    kinds = [type(item) for item in lines]
    assert kinds == [EditSample, InvalidLine, EditSample, InvalidLine, InvalidLine, EditSample]
    assert [item.number for item in lines if isinstance(item, InvalidLine)] == [2, 5, 6]
    assert [item.id for item in lines if isinstance(item, EditSample)] == ["samples:1", "samples:4", "samples:7"]
    assert str(lines[1]).startswith(f"{folder / 'samples.jsonl'}:2: not JSON: Expecting value")
    (line,) = read(folder, {**GOOD, "instruction": "rötlich"}, encoding="latin-1")
    assert isinstance(line, InvalidLine)
    assert line.problem.startswith("not JSON: 'utf-8' codec can't decode")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    (folder / "deep").mkdir()
    picture(7).pil().save(folder / "deep" / "a.png")
    lines = read(folder, {**GOOD, "edited": "deep/../deep/a.png"}, {**GOOD, "edited": str(folder / "deep" / "a.png")})
    assert [item.edited for item in lines if isinstance(item, EditSample)] == [picture(7)] * 2


@pytest.mark.parametrize("text", ["\ufeff", "\n\n", "  \n\t\n"])
def test_what_editors_leave_in_front_does_no_harm(text, folder):
    (sample,) = read(folder, text + json.dumps(GOOD))
    assert isinstance(sample, EditSample)


@pytest.mark.parametrize(
    "instruction", ["把杯子变成蓝色", "Смени цвет чашки", "اجعل الكوب أزرق", "कप", "🫖→🔵", "a\u2028b"]
)
def test_instructions_in_any_script_are_kept_verbatim(instruction, folder):
    lines = read(folder, {**GOOD, "instruction": instruction}, json.dumps({**GOOD, "instruction": instruction}))
    assert [item.instruction for item in lines if isinstance(item, EditSample)] == [instruction] * 2


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_line_is_said(name, folder):
    row, says = WRONG[name]
    message = problem(folder, row)
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize("field", [{"boxes": {"cup": [[1, NAN, 3, 4]]}}, {"fractions": {"cup": [[NAN, 0.5, 1, 1, 1]]}}])
def test_a_box_that_is_no_number_is_refused_from_python_too(field, folder):
    with pytest.raises(ValueError, match=r"nan.* of 'cup' holds a NaN or an infinity"):
        sample_from_json({**GOOD, **field}, folder=folder)


@st.composite
def boxes(draw, size):
    """Annotated in whole pixels, or detected anywhere."""
    if draw(st.booleans()):
        return Box(draw(SHARES), draw(SHARES), draw(SHARES), draw(SHARES), draw(SHARES))
    x0, y0 = draw(st.integers(0, size[0] - 1)), draw(st.integers(0, size[1] - 1))
    return Box.from_corners(x0, y0, draw(st.integers(x0 + 1, size[0])), draw(st.integers(y0 + 1, size[1])), size)


def images():
    return st.sampled_from(IMAGES)


@st.composite
def turns(draw, sources, history):
    """Any turn from these sources."""
    size = sources[0].size
    return EditSample(
        id=draw(NAMES),
        instruction=draw(TEXTS),
        sources=sources,
        edited=draw(images()),
        group=draw(TEXTS),
        task=draw(st.none() | TASKS),
        pools=draw(st.none() | POOLS),
        boxes=draw(st.dictionaries(NAMES, st.lists(boxes(size), max_size=2).map(tuple), max_size=2)),
        mask=draw(st.none() | images()),
        reference=draw(st.none() | images()),
        operations=draw(OPERATIONS),
        plan=draw(st.none() | PLANS),
        targets=draw(st.lists(st.builds(Box.with_label, boxes(size), TEXTS), max_size=2).map(tuple)),
        target_text=draw(TEXTS),
        hint=draw(TEXTS),
        dimensions=draw(st.none() | st.lists(NAMES, max_size=2).map(tuple)),
        history=history,
        metadata=draw(METADATA),
    )


@st.composite
def samples(draw):
    """Up to three turns that share nothing, or whatever of the last turn `shared` names."""
    several = st.lists(images(), min_size=1, max_size=3).map(tuple)
    chain: list[EditSample] = []
    for _ in range(draw(st.integers(1, 3))):
        follows = chain and draw(st.booleans())
        sources = (chain[-1].edited,) if follows else draw(several)
        chain.append(draw(turns(sources, tuple(chain) if draw(st.booleans()) else ())))
    *earlier, last = chain
    for number, shared in enumerate(draw(st.lists(st.sampled_from(["", "boxes", "metadata", "id"]))), start=1):
        if shared and number <= len(earlier):
            fields: dict[str, Any] = {shared: getattr(last, shared)}
            if shared == "id":
                fields["id"] = f"{last.id}/turn-{number}"
            earlier[number - 1] = replace(earlier[number - 1], **fields)
    for number, turn in enumerate(earlier):
        if turn.history:
            earlier[number] = replace(turn, history=tuple(earlier[:number]))
    return replace(last, history=tuple(earlier))


def same(sample, other):
    """Whether nothing differs that a metric can read: `==` knows neither the order of boxes nor 1 from True."""
    return repr(sample) == repr(other) and sample == other


@given(samples())
def test_a_recorded_sample_comes_back_as_it_was(sample):
    text = json.dumps(sample_to_json(sample), allow_nan=False)
    again = sample_from_json(json.loads(text))
    assert same(again, sample)
    assert json.dumps(sample_to_json(again)) == text
    sent = sample_from_json(json.loads(text), pictures={image.digest: image for image in IMAGES})
    assert same(sent, sample)


def test_histories_that_contradict_or_share_are_written_or_refused():
    source, first, last = (Image.from_digest(f"{number:064x}", (16, 8)) for number in range(3))
    image = {name: {"digest": f"{number:064x}", "size": [16, 8]} for number, name in enumerate(["s", "f", "l"])}
    box = Box(0.25, 0.5, 0.5, 1.0)
    shared: dict[str, Any] = {"boxes": {"cup": (box,)}, "metadata": {"seed": 3}}
    earlier = EditSample(
        "c/turn-1", "add", (source,), first, task=Task("subject_add", new="hat"), pools=Pools(("cup",)), **shared
    )
    sample = EditSample(
        "c",
        "blue",
        (first,),
        last,
        "g",
        pools=Pools(("cup",)),
        mask=source,
        operations=(Operation("blue"),),
        targets=(box,),
        hint="it is blue",
        dimensions=("style",),
        history=(earlier,),
        **shared,
    )
    pools = {"all": ["cup"], "available": [], "unchanged": [], "background": True}
    recorded = {
        "schema": 1, "id": "c", "group": "g", "instruction": "blue", "edited": image["l"], "pools": pools,
        "sources": [image["s"]], "fractions": {"cup": [[0.25, 0.5, 0.5, 1.0, 1.0]]}, "mask": image["s"],
        "operations": [{"instruction": "blue", "name": ""}], "target_fractions": [[0.25, 0.5, 0.5, 1.0, 1.0]],
        "hint": "it is blue", "dimensions": ["style"],
        "history": [{"instruction": "add", "edited": image["f"], "task": {"type": "subject_add", "new": "hat"},
                     "pools": pools}],
        "metadata": {"seed": 3},
    }  # fmt: skip
    assert json.dumps(sample_to_json(sample)) == json.dumps(recorded)
    assert sample_from_json(recorded) == sample
    turn, other = (EditSample(name, "x", (picture(0),), picture(1)) for name in "ab")
    second = EditSample("c", "y", (picture(1),), picture(2), history=(other,))
    sample = EditSample("d", "z", (picture(2),), picture(3), history=(turn, second))
    with pytest.raises(ValueError, match="turn 2 of sample 'd' has another history than the turns before it"):
        sample_to_json(sample)


def test_a_turn_of_a_file_may_have_fields_of_its_own(folder):
    turn = {
        "id": "first",
        "group": "g",
        "instruction": "add",
        "edited": "after.png",
        "mask": "mask.png",
        "boxes": {"lid": [[0, 0, 4, 4]]},
        "targets": [[0, 0, 8, 4]],
        "metadata": {"n": 1},
        "hint": "a hat",
    }
    second = {"instruction": "add", "edited": "after.png", "turn_sources": ["mask.png", "later.png"], "history": []}
    row = {**GOOD, "boxes": {"cup": [[0, 0, 8, 4]]}, "history": [turn, second], "turn_sources": ["later.png"]}
    (sample,) = read(folder, row)
    assert isinstance(sample, EditSample)
    first, middle = sample.history
    assert (first.id, first.group, first.hint, first.metadata) == ("first", "g", "a hat", {"n": 1})
    assert (list(first.boxes), first.targets, first.mask) == (["lid"], (Box(0.25, 0.25, 0.5, 0.5),), picture(3, 16, 8))
    assert (list(middle.boxes), middle.metadata, middle.history) == (["cup"], {}, ())
    assert middle.sources == (picture(3, 16, 8), picture(2, 16, 8))
    assert sample.sources == (picture(2, 16, 8),)


@pytest.mark.parametrize("row", [{"turn_sources": ["after.png"]}, {"history": [{**GOOD, "turn_sources": ["a.png"]}]}])
def test_the_first_turn_has_no_sources_but_those_of_the_line(row, folder):
    row = {**GOOD, **{name: [{k: v for k, v in turn.items() if k != "source"} for turn in value]
                      if name == "history" else value for name, value in row.items()}}  # fmt: skip
    assert "the first turn starts from `source` or `sources`" in problem(folder, row)


@pytest.mark.parametrize("nameless", ["sample", "turn"])
def test_a_sample_without_an_id_is_not_written_since_it_would_be_given_one(nameless):
    first = EditSample("" if nameless == "turn" else "a", "x", (picture(0),), picture(1))
    sample = EditSample("" if nameless == "sample" else "b", "y", (picture(1),), picture(2), history=(first,))
    with pytest.raises(ValueError, match="need ids to be written as JSON"):
        sample_to_json(sample)
