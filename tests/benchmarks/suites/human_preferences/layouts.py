"""Small data in the published layouts of the preference sets, with flat pictures whose level a reward can read. An
edited picture is as bright as `Brightness` says: the order of that reward is known, and every expected figure of the
tests can be counted by hand."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import PIL.Image

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.reward import Card, EditSample, Program, Score

SIDE = 40

# Of two edits: what people say, and the levels of the two pictures.
VOTES = (
    ("leftvote", (200, 100)),
    ("rightvote", (60, 190)),
    ("leftvote", (90, 130)),
    ("tievote", (120, 118)),
    ("bothbad_vote", (33, 32)),
    ("tievote", (20, 220)),
    ("rightvote", (77, 77)),
    ("leftvote", (81, 80)),
)
# Of EditReward-Bench: the order of people, and the levels.
GROUPS: Mapping[int, Sequence[tuple[str, tuple[int, ...]]]] = {
    2: (
        ("A>B", (200, 100)),
        ("A=B=Good", (150, 148)),
        ("B>A", (90, 180)),
        ("A=B=Bad", (30, 90)),
        ("A>B", (100, 101)),
        ("A<B", (60, 61)),
        ("A=B=Good", (44, 40)),
    ),
    3: (("C>A>B", (120, 60, 180)), ("A>B>C", (50, 100, 20)), ("B>A>C", (90, 100, 10))),
    4: (
        ("A>B>C>D", (200, 150, 100, 50)),
        ("D>C>B>A", (11, 22, 33, 44)),
        ("A>C>B>D", (201, 151, 101, 51)),
        ("B>A>D>C", (10, 20, 5, 8)),
    ),
}


@dataclass(frozen=True)
class Brightness:
    """The mean level of the edited picture; below `low`, there is no value."""

    sign: int = 1
    low: float = -1.0
    card: ClassVar[Card] = Card("brightness", 1, "a bright picture", range=(-255.0, 255.0))

    def __call__(self, sample: EditSample) -> Program[Score]:
        yield from ()
        level = float(sample.edited.pixels.mean())
        return Score.abstained("too dark to see") if level < self.low else Score.of(self.sign * level)


BRIGHT = f"{__name__}:Brightness"


def png(level: int, mark: int = 0) -> bytes:
    """A flat picture; `mark` makes a source different from others of its level."""
    pixels = np.full((SIDE, SIDE, 3), level, np.uint8)
    pixels[:2, :2] = [mark % 256, mark // 256, 7] if mark else pixels[0, 0]
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def source(number: int) -> bytes:
    return png(128, mark=number + 1)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Rows as a parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    bench_library("pyarrow.parquet").write_table(bench_library("pyarrow").Table.from_pylist(list(rows)), path)
    return path


def cell(data: bytes | None) -> dict[str, Any]:
    """A picture as `datasets` writes it."""
    return {"bytes": data, "path": None}


def file(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return name


# -- GenAI-Bench -------------------------------------------------------------------------------------------------------


def genai_rows() -> list[dict[str, Any]]:
    return [
        {
            "instruct_prompt": f"make it brighter, number {number}",
            "source_prompt": "before",
            "target_prompt": "after",
            "source_image": cell(source(number)),
            "left_output_image": cell(png(left)),
            "right_output_image": cell(png(right)),
            "left_model": "MagicBrush",
            "right_model": "SDEdit",
            "vote_type": vote,
        }
        for number, (vote, (left, right)) in enumerate(VOTES)
    ]


def genai_on_hub(folder: Path) -> Path:
    rows = genai_rows()
    write_rows(folder / "image_edition" / "test_v1-00000-of-00002.parquet", rows[:5])
    write_rows(folder / "image_edition" / "test_v1-00001-of-00002.parquet", rows[5:])
    write_rows(folder / "image_edition" / "test-00000-of-00001.parquet", rows[:1])
    return folder


def genai_json(folder: Path, name: str = "valid_set2_full.json") -> Path:
    scores = {"leftvote": (4, 2), "rightvote": (2, 4), "tievote": (4, 4), "bothbad_vote": (1, 1)}
    rows = [
        {
            "prompt": f"make it brighter, number {number}",
            "choice_dist": None,
            "confidence": None,
            "path_src": file(folder, f"GenAI-Bench/image_edition/images/{number}_src.jpg", source(number)),
            "path1": file(folder, f"GenAI-Bench/image_edition/images/{number}a_out.jpg", png(left)),
            "path2": file(folder, f"GenAI-Bench/image_edition/images/{number}b_out.jpg", png(right)),
            "model1": "MagicBrush",
            "model2": "SDEdit",
            "model1_dim1_score": scores[vote][0],
            "model2_dim1_score": scores[vote][1],
        }
        for number, (vote, (left, right)) in enumerate(VOTES)
    ]
    (folder / name).write_text(json.dumps(rows), encoding="utf-8")
    return folder


# -- EditReward-Bench of TIGER-Lab -------------------------------------------------------------------------------------


def edit_reward_json(folder: Path) -> Path:
    for size, groups in GROUPS.items():
        rows = [
            {
                "prompt": f"edit {size} {number}",
                "path_src": file(folder, f"images/{size}_{number}_src.png", source(10 * size + number)),
                "paths_generated": [
                    file(folder, f"images/{size}_{number}_{place}.png", png(level))
                    for place, level in enumerate(levels)
                ],
                "human_vote": {"ranking": ranking, "preference": ranking},
            }
            for number, (ranking, levels) in enumerate(groups)
        ]
        (folder / f"EditReward_Bench_{size}pair.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


def edit_reward_rows() -> list[dict[str, Any]]:
    rows = []
    for size, groups in GROUPS.items():
        for number, (ranking, levels) in enumerate(groups):
            for a in range(size):
                for b in range(a + 1, size):
                    first, second = "ABCD"[a], "ABCD"[b]
                    if "=" in ranking:
                        pair = "A=B"
                    else:
                        order = {"A<B": "B>A"}.get(ranking, ranking)
                        ahead = order.index(first) < order.index(second)
                        pair = f"{first}>{second}" if ahead else f"{second}>{first}"
                    kind = f"{first}vs{second}"
                    rows.append(
                        {
                            "id": f"{size}x{number}" + ("" if size == 2 else f"_{kind}"),
                            "dataset": f"{size}pair",
                            "instruction": f"edit {size} {number}",
                            "source_image": cell(source(10 * size + number)),
                            "candidate_1": cell(png(levels[a])),
                            "candidate_2": cell(png(levels[b])),
                            "ranking": pair,
                            "comparison_type": kind,
                            "model_1": "one",
                            "model_2": "two",
                        }
                    )
    return rows


# -- the others --------------------------------------------------------------------------------------------------------

# Of EditScore's set: dimension, task, levels of the better and the worse edit.
SCORED_PAIRS = (
    ("overall", "color_alter", (200, 100)),
    ("overall", "color_alter", (90, 120)),
    ("overall", "subject-add", (210, 110)),
    ("consistency", "color_alter", (50, 60)),
    ("consistency", "subject-add", (150, 149)),
    ("prompt_following", "extract", (70, 70)),
)


def edit_score_rows() -> list[dict[str, Any]]:
    return [
        {
            "key": [f"{better}-edit", f"{worse}-edit" + ("'" if better == worse else "")],
            "instruction": "make it brighter",
            "input_image": cell(source(0)),
            "output_images": [cell(png(better)), cell(png(worse))],
            "task_type": task,
            "dimension": dimension,
        }
        for dimension, task, (better, worse) in SCORED_PAIRS
    ]


def vc_reward_rows() -> list[dict[str, Any]]:
    pairs = [
        ("color_alteration", "Image A", (200, 100)),
        ("color_alteration", "Image B", (200, 100)),
        ("subject_removal", "Image B", (30, 40)),
        ("subject_removal", "Image A", (99, 99)),
    ]
    return [
        {
            "key": f"{task}_pair_{number}",
            "instruction": f"keep the rest, {number}",
            "source_image": cell(source(number)),
            "edited_images": [cell(png(level)) for level in levels],
            "winner": winner,
            "task": task,
        }
        for number, (task, winner, levels) in enumerate(pairs)
    ]


def compass_json(folder: Path) -> Path:
    pairs = [
        ("IA", "preference", (200, 100)),
        ("IA", "tie", (88, 88)),
        ("IA", "tie", (88, 87)),
        ("VC", "preference", (55, 56)),
        ("VQ", "preference", (60, 60)),
    ]
    rows = [
        {
            "source_image": file(folder, f"images/{number}.png", source(number)),
            "prompt": f"edit {number}",
            "winner": file(folder, f"images/{number}_w.png", png(levels[0])),
            "loser": file(folder, f"images/{number}_l.png", png(levels[1])),
            "label": label,
            "dimension": dimension,
        }
        for number, (dimension, label, levels) in enumerate(pairs)
    ]
    (folder / "reward_eval.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


# ImagenHub: for each sample and model, the ratings of three people and the level of the edit.
RATED: Mapping[str, Sequence[tuple[tuple[str, str, str], int]]] = {
    "MagicBrush": (
        (("[1, 1]", "[1,1]", "[1, 0.5]"), 220),
        (("[0.5, 0.5]", "[0.5, 1]", "[0 , 1]"), 140),
        (("[0, 1]", "[0, 0.5]", "[0.5,0.5]"), 90),
        (("[0, 0]", "[0, 0]", "[0,0]"), 30),
    ),
    "SDEdit": (
        (("[0, 1]", "[0, 1]", "[0,1]"), 100),
        (("[0.5, 1]", "[1, 1]", "[0.5,1]"), 80),
        (("[0, 0]", "[0.5, 0.5]", "[0,1]"), 60),
        (("[0, 1]", "[0, 1]", "[0,0]"), 40),
    ),
    "Imagic": ((("[0, 1]", "[0, 0]", "[0,1]"), 10),) * 4,
}


def imagenhub_museum(folder: Path) -> Path:
    uids = [f"sample_{number}_1.jpg" for number in range(4)]
    for number, uid in enumerate(uids):
        file(folder, f"input/{uid}", source(number))
        for model, rated in RATED.items():
            file(folder, f"{model}/{uid}", png(rated[number][1]))
    lookup = {uid: {"instruction": f"edit {uid}", "source_global_caption": "a"} for uid in uids}
    (folder / "dataset_lookup.json").write_text(json.dumps(lookup), encoding="utf-8")
    for rater in range(3):
        lines = ["\t".join(["uid", *RATED])]
        lines += [
            "\t".join([uid, *(rated[number][0][rater] for rated in RATED.values())]) for number, uid in enumerate(uids)
        ]
        path = folder / "Text-Guided_IE" / f"Text-Guided_IE_rater{rater + 1}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes("\r\n".join([*lines, ""]).encode())
    return folder
