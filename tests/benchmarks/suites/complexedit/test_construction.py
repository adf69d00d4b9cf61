"""Making Complex-Edit's instructions: three stages of answers become the published columns, or a reason why not."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from editcritic.benchmarks.suites.complexedit.construction import (
    CATEGORIES,
    OPERATIONS,
    ComplexEditBuilder,
    construct,
    operation_list,
    parse_operation,
)
from editcritic.benchmarks.suites.construction.workspace import ConstructionReport, list_numbered_images
from editcritic.reward.queries import Judge
from tests.benchmarks.suites.construction.scripted_experts import Says, Script, lines, photographs

STEPS = [
    ("Add an Object", "Add a lantern to the left of the path to make it look inviting."),
    ("Change Color", "Make the lantern green."),
    ("Adjust Lighting", "Make it evening."),
]


def sequence(*steps: tuple[str, str]) -> str:
    return json.dumps(
        {"reasoning": "…", "sequence": [{"name": name, "instruction": instruction} for name, instruction in steps]}
    )


def simpler(judge: Judge) -> str:
    instruction = dict(judge.slots)["instruction"]
    short = instruction.partition(" to make")[0].rstrip(".") + "."
    return json.dumps({"simplify": short != instruction, "instruction": short})


def compound(judge: Judge) -> str:
    instructions = [line.partition(". ")[2].rstrip(".") for line in dict(judge.slots)["instructions"].splitlines()]
    reply = json.dumps({"reasoning": "…", "compound_instruction": " and ".join(instructions) + "."})
    return f"Thinking first.\n```json\n{reply}\n```"


TABLE: Mapping[str, Says] = {
    "making/complex-edit/sequence": sequence(*STEPS),
    "making/complex-edit/simplify": simpler,
    "making/complex-edit/compound": compound,
}


@pytest.fixture
def photos(tmp_path):
    return photographs(tmp_path / "photos", count=2, side=48)


def made(
    photos: Path, out: Path, table: Mapping[str, Says] | None = None, **options: Any
) -> tuple[ConstructionReport, Script]:
    judge = Script({**TABLE, **(table or {})})
    return construct(list_numbered_images(photos), out, ComplexEditBuilder(count=3, **options), judge=judge), judge


def test_the_parquet_has_the_published_columns_and_the_pictures_own_bytes(photos, tmp_path):
    datasets = pytest.importorskip("datasets")
    report, judge = made(photos, tmp_path / "data")
    assert (report.num_constructed, report.exit_code) == (2, 0)
    rows = pytest.importorskip("pyarrow.parquet").read_table(report.files[0]).to_pylist()
    assert [set(row) for row in rows] == [{"image", "edit"}] * 2
    names = [path.name for path in sorted(photos.iterdir())]
    assert [row["image"]["path"] for row in rows] == names
    assert rows[0]["image"]["bytes"] == (photos / names[0]).read_bytes()
    edit = rows[0]["edit"]
    assert edit["sequence"][0] == {"name": "Add an Object", "instruction": "Add a lantern to the left of the path."}
    levels = [one["compound_instruction"] for one in edit["compound"]]
    assert levels == [
        "Add a lantern to the left of the path.",
        "Add a lantern to the left of the path and Make the lantern green.",
        "Add a lantern to the left of the path and Make the lantern green and Make it evening.",
    ]
    before = report.files[0].read_bytes()
    # a sequence, three to simplify (the same for both images, hence queried once), two to compound
    assert judge.queries.total() == 2 * (1 + 2) + 3
    assert made(photos, tmp_path / "data")[1].queries.total() == 0
    assert report.files[0].read_bytes() == before
    assert not judge.queries.keys() & made(photos, tmp_path / "other", seed=1)[1].queries.keys()
    decoded = datasets.Dataset.from_parquet(str(report.files[0]), cache_dir=str(tmp_path / "cache"))
    assert isinstance(decoded[0]["image"], PIL.Image.Image)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (sequence(*STEPS[:2]), "3 instructions were requested, got 2"),
        (sequence(*STEPS[:2], ("Sing", "Sing a song.")), "none of the 24"),
        (sequence(*STEPS[:2], ("Add Text", "Make the lantern green")), "same instruction twice"),
        (sequence(*STEPS[:2], ("Add Text", "Add оранжевый sign Ελλ on top")), "mixes"),
        (sequence(*STEPS[:2], ("Add Text", "Add {foo: [bar]} <td> here")), "code symbols"),
        (sequence(*STEPS[:2], ("Add Text", "Add the the the sign")), "three times in a row"),
        (sequence(*STEPS[:2], ("Add Text", "Add " + "x" * 40)), "word of 40 letters"),
        (sequence(*STEPS[:2], ("Add Text", "Make it bright " * 30)), "90 words"),
        (sequence(*STEPS[:2], ("Add Text", "Add a sign\ufffd")), "invalid characters"),
        (sequence(*STEPS[:2], ("Add Text", "Add exCepTiOnal sign")), "mixed capitals"),
        (sequence(*STEPS[:2], ("Add Text", " ")), "reply is empty"),
        ("I cannot assist with editing this image.", "refused"),
        ("1. Add a lantern. 2. Make it green.", "not JSON"),
    ],
)
def test_garbled_sequences_are_asked_for_again(photos, tmp_path, reply, reason):
    report, _ = made(photos, tmp_path / "data", {"making/complex-edit/sequence#0": reply})
    assert report.num_constructed == 2
    first = lines(tmp_path / "data" / "rejections.jsonl")[0]
    assert (first["stage"], first["attempt"], first["reply"]) == ("complex-edit/sequence", 0, reply)
    assert reason in first["reason"]


def test_an_instruction_that_gets_longer_is_no_simpler_and_letters_in_quotation_marks_are_of_any_script(
    photos, tmp_path
):
    longer = json.dumps({"simplify": True, "instruction": "Make the lantern on the left of the long path green now."})
    report, _ = made(photos, tmp_path / "data", {"making/complex-edit/simplify": longer})
    assert (report.num_constructed, report.num_rejected) == (0, 2)
    last = lines(tmp_path / "data" / "rejections.jsonl")[-1]
    assert (last["stage"], "it got longer" in last["reason"]) == ("rejected", True)
    steps = (*STEPS[:2], ("Add Text", 'Write "Привет {x}" on the wall.'))
    report, _ = made(photos, tmp_path / "quoted", {"making/complex-edit/sequence": sequence(*steps)})
    assert (report.num_constructed, lines(tmp_path / "quoted" / "rejections.jsonl")) == (2, [])


def test_the_first_stage_is_hotter_than_the_others(photos: Path, tmp_path: Path) -> None:
    heat: dict[str, float] = {}

    def noting(says: Says) -> Says:
        def run(judge: Judge) -> Any:
            heat[judge.topic] = judge.form.temperature  # type: ignore[union-attr]
            return says(judge) if callable(says) else says

        return run

    made(photos, tmp_path / "data", {topic: noting(says) for topic, says in TABLE.items()})
    assert [heat[topic] for topic in TABLE] == [1.15, 1.0, 1.0]


def test_there_are_24_operations_in_9_categories_and_the_prompt_lists_them():
    assert (len(CATEGORIES), len(OPERATIONS)) == (24, 9)
    assert all(f"- {name}: " in operation_list() for name in CATEGORIES)
    assert parse_operation("apply filter / weather") == "Apply Filter/Weather"
