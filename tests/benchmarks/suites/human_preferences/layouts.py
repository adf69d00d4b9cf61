"""Small data in the published layouts of the preference sets, with flat pictures whose level a reward can read. An
edited picture is as bright as `Brightness` says: the order of that reward is known, and every expected figure of the
tests can be counted by hand."""

import io
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import PIL.Image

from editcritic.reward import Card, EditSample, Program, Score

from ..gedit.layout import parquet

SIDE = 40

# Of two edits: what people say, and the levels of the two pictures.
VOTES = (
    ("leftvote", (200, 100)), ("rightvote", (60, 190)), ("leftvote", (90, 130)), ("tievote", (120, 118)),
    ("bothbad_vote", (33, 32)), ("tievote", (20, 220)), ("rightvote", (77, 77)), ("leftvote", (81, 80)),
)  # fmt: skip
# Of EditReward-Bench: the order of people, and the levels.
GROUPS: Mapping[int, Sequence[tuple[str, tuple[int, ...]]]] = {
    2: (("A>B", (200, 100)), ("A=B=Good", (150, 148)), ("B>A", (90, 180)), ("A=B=Bad", (30, 90)), ("A>B", (100, 101)),
        ("A<B", (60, 61)), ("A=B=Good", (44, 40))),
    3: (("C>A>B", (120, 60, 180)), ("A>B>C", (50, 100, 20)), ("B>A>C", (90, 100, 10))),
    4: (("A>B>C>D", (200, 150, 100, 50)), ("D>C>B>A", (11, 22, 33, 44)), ("A>C>B>D", (201, 151, 101, 51)),
        ("B>A>D>C", (10, 20, 5, 8))),
}  # fmt: skip


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
write_rows = parquet


def png(level: int, mark: int = 0) -> bytes:
    """A flat picture; `mark` makes a source different from others of its level."""
    pixels = np.full((SIDE, SIDE, 3), level, np.uint8)
    pixels[:2, :2] = [mark % 256, mark // 256, 7] if mark else pixels[0, 0]
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def source(number: int) -> bytes:
    return png(128, mark=number + 1)


def cell(data: bytes | None) -> dict[str, Any]:
    """A picture as `datasets` writes it."""
    return {"bytes": data, "path": None}


def file(folder: Path, name: str, data: bytes) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return name


def named(columns: str, rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns.split(), row, strict=True)) for row in rows]


def write_json(folder: Path, name: str, rows: object) -> Path:
    file(folder, name, json.dumps(rows).encode())
    return folder


# -- GenAI-Bench -------------------------------------------------------------------------------------------------------


def genai_rows() -> list[dict[str, Any]]:
    rows = []
    for number, (vote, (left, right)) in enumerate(VOTES):
        pictures = [cell(source(number)), cell(png(left)), cell(png(right))]
        rows.append((f"make it brighter, number {number}", "before", "after", *pictures, "MagicBrush", "SDEdit", vote))
    columns = "instruct_prompt source_prompt target_prompt source_image left_output_image right_output_image"
    return named(f"{columns} left_model right_model vote_type", rows)


def genai_on_hub(folder: Path) -> Path:
    rows = genai_rows()
    parts = {"_v1-00000-of-00002": rows[:5], "_v1-00001-of-00002": rows[5:], "-00000-of-00001": rows[:1]}
    for name, part in parts.items():
        write_rows(folder / "image_edition" / f"test{name}.parquet", part)
    return folder


def genai_json(folder: Path, name: str = "valid_set2_full.json") -> Path:
    scores = {"leftvote": (4, 2), "rightvote": (2, 4), "tievote": (4, 4), "bothbad_vote": (1, 1)}
    rows = []
    for number, (vote, (left, right)) in enumerate(VOTES):
        pictures = {"_src": source(number), "a_out": png(left), "b_out": png(right)}
        paths = [file(folder, f"GenAI-Bench/image_edition/images/{number}{end}.jpg", p) for end, p in pictures.items()]
        rows.append([f"make it brighter, number {number}", None, None, *paths, "MagicBrush", "SDEdit", *scores[vote]])
    columns = "prompt choice_dist confidence path_src path1 path2 model1 model2 model1_dim1_score model2_dim1_score"
    return write_json(folder, name, named(columns, rows))


# -- EditReward-Bench of TIGER-Lab -------------------------------------------------------------------------------------


def edit_reward_json(folder: Path) -> Path:
    for size, groups in GROUPS.items():
        rows = []
        for number, (ranking, levels) in enumerate(groups):
            start = f"images/{size}_{number}_"
            edits = [file(folder, f"{start}{place}.png", png(level)) for place, level in enumerate(levels)]
            base = file(folder, f"{start}src.png", source(10 * size + number))
            rows.append((f"edit {size} {number}", base, edits, {"ranking": ranking, "preference": ranking}))
        columns = "prompt path_src paths_generated human_vote"
        write_json(folder, f"EditReward_Bench_{size}pair.json", named(columns, rows))
    return folder


def edit_reward_rows() -> list[dict[str, Any]]:
    rows = []
    for size, groups in GROUPS.items():
        for number, (ranking, levels) in enumerate(groups):
            order = {"A<B": "B>A"}.get(ranking, ranking)
            for a, b in itertools.combinations("ABCD"[:size], 2):
                pair = "A=B" if "=" in ranking else ">".join(sorted((a, b), key=order.index))
                name = f"{size}x{number}" + ("" if size == 2 else f"_{a}vs{b}")
                pictures = source(10 * size + number), *(png(levels["ABCD".index(one)]) for one in (a, b))
                rows.append((name, f"{size}pair", f"edit {size} {number}", *map(cell, pictures), pair, f"{a}vs{b}"))
    columns = "id dataset instruction source_image candidate_1 candidate_2 ranking comparison_type"
    return [{**row, "model_1": "one", "model_2": "two"} for row in named(columns, rows)]


# -- the others --------------------------------------------------------------------------------------------------------

# Of EditScore's set: dimension, task, levels of the better and the worse edit.
SCORED_PAIRS = (
    ("overall", "color_alter", (200, 100)), ("overall", "color_alter", (90, 120)),
    ("overall", "subject-add", (210, 110)), ("consistency", "color_alter", (50, 60)),
    ("consistency", "subject-add", (150, 149)), ("prompt_following", "extract", (70, 70)),
)  # fmt: skip


def edit_score_rows() -> list[dict[str, Any]]:
    rows = []
    for dimension, task, (better, worse) in SCORED_PAIRS:
        key = [f"{better}-edit", f"{worse}-edit" + ("'" if better == worse else "")]
        pictures = [cell(png(better)), cell(png(worse))]
        rows.append((key, "make it brighter", cell(source(0)), pictures, task, dimension))
    return named("key instruction input_image output_images task_type dimension", rows)


def vc_reward_rows() -> list[dict[str, Any]]:
    pairs = [
        ("color_alteration", "Image A", (200, 100)), ("color_alteration", "Image B", (200, 100)),
        ("subject_removal", "Image B", (30, 40)), ("subject_removal", "Image A", (99, 99)),
    ]  # fmt: skip
    rows = []
    for number, (task, winner, levels) in enumerate(pairs):
        pictures = [cell(png(level)) for level in levels]
        rows.append((f"{task}_pair_{number}", f"keep the rest, {number}", cell(source(number)), pictures, winner, task))
    return named("key instruction source_image edited_images winner task", rows)


def compass_json(folder: Path) -> Path:
    pairs = [
        ("IA", "preference", (200, 100)), ("IA", "tie", (88, 88)), ("IA", "tie", (88, 87)),
        ("VC", "preference", (55, 56)), ("VQ", "preference", (60, 60)),
    ]  # fmt: skip
    rows = []
    for number, (dimension, label, levels) in enumerate(pairs):
        pictures = {"": source(number), "_w": png(levels[0]), "_l": png(levels[1])}
        paths = [file(folder, f"images/{number}{end}.png", data) for end, data in pictures.items()]
        rows.append((*paths, f"edit {number}", label, dimension))
    return write_json(folder, "reward_eval.json", named("source_image winner loser prompt label dimension", rows))


# ImagenHub: for each sample and model, the ratings of three people and the level of the edit.
RATED: Mapping[str, Sequence[tuple[tuple[str, str, str], int]]] = {
    "MagicBrush": (
        (("[1, 1]", "[1,1]", "[1, 0.5]"), 220), (("[0.5, 0.5]", "[0.5, 1]", "[0 , 1]"), 140),
        (("[0, 1]", "[0, 0.5]", "[0.5,0.5]"), 90), (("[0, 0]", "[0, 0]", "[0,0]"), 30),
    ),
    "SDEdit": (
        (("[0, 1]", "[0, 1]", "[0,1]"), 100), (("[0.5, 1]", "[1, 1]", "[0.5,1]"), 80),
        (("[0, 0]", "[0.5, 0.5]", "[0,1]"), 60), (("[0, 1]", "[0, 1]", "[0,0]"), 40),
    ),
    "Imagic": ((("[0, 1]", "[0, 0]", "[0,1]"), 10),) * 4,
}  # fmt: skip


def imagenhub_museum(folder: Path) -> Path:
    uids = [f"sample_{number}_1.jpg" for number in range(4)]
    for number, uid in enumerate(uids):
        file(folder, f"input/{uid}", source(number))
        for model, rated in RATED.items():
            file(folder, f"{model}/{uid}", png(rated[number][1]))
    lookup = {uid: {"instruction": f"edit {uid}", "source_global_caption": "a"} for uid in uids}
    write_json(folder, "dataset_lookup.json", lookup)
    for rater in range(3):
        rows = [(uid, *(rated[n][0][rater] for rated in RATED.values())) for n, uid in enumerate(uids)]
        lines = "".join("\t".join(row) + "\r\n" for row in [("uid", *RATED), *rows])
        file(folder, f"Text-Guided_IE/Text-Guided_IE_rater{rater + 1}.tsv", lines.encode())
    return folder
