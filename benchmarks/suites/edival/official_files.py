"""EdiVal's official result files, readable by its authors' notebooks, in a folder named after the mode.

`{index}_input_raw.json` (singlepass: per turn, `..._turn_{turn}`), `image_rate.json` and `task_rate.json`. As in the
released code, images that lack a turn's output are not included. A failed score is null in an image's file and absent
from the others, where the released code would have written 0. In protocol `official`, an image with two base pictures
stands twice in `task_rate.json`, and one that the instruction file lacks has an empty list in `image_rate.json`
(and in multipass a file, without the quality of its base picture, which is not measured).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....reward.boxes import Box
from ....reward.metrics.edival.released_code import IMAGE_SIZE
from ....reward.score import Score
from ..results import OUTPUTS_ENTRY, ResultRow, Results
from . import output_layout
from .reader import EdiValTurn
from .tables import luminance_of

_TASKS = (
    "subject_replace", "subject_remove", "material_alter", "color_alter", "subject_add", "text_change",
    "position_change", "count_change", "background_change",
)  # fmt: skip
_CONSISTENCY = {
    "object_dinov3_consistency": "object_dinov3_consistency_mean",
    "object_l1_consistency": "object_l1_consistency_mean",
    "background_l1_consistency": "background_l1_consistency",
    "background_dinov3_consistency": "background_dinov3_consistency",
}
"""Key in task_rate.json -> key in an image's file."""
_QUALITY = (
    "plausibility", "aesthetics", "human_preference_score", "mean_s", "high_sat_ratio", "sharpness", "contrast", "OEI",
    "clip_frac", "multi_channel_clip_frac", "blown_flat_frac", "p99", "p999", "tail_std",
)  # fmt: skip
"""Only the preference and the two luminance quantiles are measured; the others are empty lists."""


def write_official_files(
    mode: str, turns: Mapping[str, EdiValTurn], results: Results, folder: Path, *, released: bool = False
) -> list[Path]:
    """Write the files under `folder` and return their paths. turns: the instruction file's rows, by item. released:
    of protocol `official`."""
    mode_folder = folder / mode
    mode_folder.mkdir(parents=True, exist_ok=True)
    cases: dict[int, list[ResultRow]] = {}
    for row in results.rows:
        cases.setdefault(int(row.sequence), []).append(row)
    facts = results.provenance.get(OUTPUTS_ENTRY, {}) if released else {}
    twice = output_layout.listed_in(facts, output_layout.TWICE)
    image_rate: dict[str, list[int]] = {}
    task_rate: dict[str, Any] = {"overall": []}
    for turn in range(1, output_layout.TURNS + 1):
        _lists(task_rate, str(turn))
    written: list[Path] = []
    cases |= {index: [] for index in output_layout.listed_in(facts, output_layout.UNLISTED)}
    for index, rows in sorted(cases.items()):
        rows = sorted(rows, key=lambda row: int(row.labels["turn"]))
        if any(row.missing_reason for row in rows):
            continue
        pages = {int(row.labels["turn"]): _turn(mode, row, turns[row.id]) for row in rows}
        quality = _quality(rows[0], "base") if rows else {}
        base = {"base_image_quality": quality} if quality else {}
        if mode == "multipass":
            content = {**base, **{str(turn): page for turn, page in pages.items()}}
            written.append(_save(mode_folder / f"{index}_input_raw.json", content))
        else:
            for turn, page in pages.items():
                written.append(_save(mode_folder / f"{index}_input_raw_turn_{turn}.json", {**page, **base}))
        followed = [page["instruction_following"] for page in pages.values()]
        if None not in followed:
            image_rate[str(index)] = followed
        for _ in range(1 + (index in twice)):
            for turn, page in pages.items():
                _add_to_summary(task_rate, str(turn), page)
    return [
        *written,
        _save(mode_folder / "image_rate.json", image_rate),
        _save(mode_folder / "task_rate.json", task_rate),
    ]


def _turn(mode: str, row: ResultRow, turn: EdiValTurn) -> dict[str, Any]:
    if mode == "multipass":
        description: dict[str, Any] = {
            "instruction": turn.instructions[-1],
            "format_instructions": turn.formats[-1],
            "task_type": turn.type,
        }
        scores = [row.score("if")]
    else:
        description = {
            "instructions": list(turn.instructions),
            "format_instructions": list(turn.formats),
            "task_types": list(turn.types),
        }
        score = row.score("if")
        scores = list(score.credits.values()) if score is not None and score.credits else [score] * turn.number
    page = dict(description)
    if mode == "singlepass":
        page["instruction_following_list"] = [_verdict(score) for score in scores]
        page["instruction_following_reason_list"] = [_reason(score) for score in scores]
        page |= {"instruction": turn.instructions[-1], "task_type": turn.type}
    page["instruction_following"] = _verdict(scores[-1])
    page["instruction_following_reason"] = _reason(scores[-1])
    page |= _quality(row)
    page |= _consistent(row, turn)
    stem = f"{mode}/{turn.index}_input_raw"
    source_stem = stem if mode == "singlepass" or turn.number == 1 else f"{stem}_turn_{turn.number - 1}"
    page["meta"] = {
        **description,
        "unchanged_objects": list(turn.pools.unchanged),
        "all_objects": list(turn.pools.all),
        "base_image_path": f"{stem}.png",
        "src_image_path": f"{source_stem}.png",
        "target_image_path": f"{stem}_turn_{turn.number}.png",
        "turn": turn.number,
        "index": turn.index,
        "eval_bg_consistency": turn.pools.background,
    }
    return page


def _verdict(score: Score | None) -> int | None:
    return None if score is None or score.value is None else int(score.value)


def _reason(score: Score | None) -> str:
    return "" if score is None else score.reason


def _quality(row: ResultRow, *part: str) -> dict[str, float | None]:
    """Of the edited picture, or of the part `base`. The rating has the decimals that the released code writes."""
    if row.score("vq") is None:
        return {}
    rating, picture = row.value("vq", *part), f"{'base' if part else 'edited'} picture"
    numbers = {
        "human_preference_score": None if rating is None else round(rating, 4),
        "p99": luminance_of(row, picture, "99 %"),
        "p999": luminance_of(row, picture, "99.9 %"),
    }
    return {f"base_image_{name}": number for name, number in numbers.items()} if part else numbers


def _consistent(row: ResultRow, turn: EdiValTurn) -> dict[str, Any]:
    """Both halves of consistency; null if an instruction changes the background, as in the released code."""
    if not turn.pools.background:
        return {**dict.fromkeys(_CONSISTENCY.values()), "bg_details": None, "object_details": None}
    objects, l1 = row.value("cc", "objects"), row.value("cc", "objects_l1")
    background, background_l1 = row.value("cc", "background"), row.value("cc", "background_l1")
    return {
        "object_dinov3_consistency_mean": objects,
        "object_l1_consistency_mean": l1,
        "background_l1_consistency": background_l1,
        "background_dinov3_consistency": background,
        "bg_details": {"bg_l1_consistency": background_l1, **_background_details(row)},
        "object_details": {
            **_object_details(row),
            "object_dinov3_consistency": _credit_entries(row.score("cc", "objects")),
            "object_dinov3_consistency_mean": objects,
            "object_l1_consistency": _credit_entries(row.score("cc", "objects_l1")),
            "object_l1_consistency_mean": l1,
        },
    }


def _object_details(row: ResultRow) -> dict[str, list[Any]]:
    """The boxes of the unchanged objects in the base image, in the detector's order; none of them where none is listed.
    Corners are fractions of the sides, centres pixels."""
    boxes = _boxes(row.score("cc", "objects"), "unchanged objects in the base picture")
    if boxes is None:
        return {}
    return {
        "label": [box.label for box in boxes],
        "score": [box.score for box in boxes],
        "box": [[box.x0, box.y0, box.x1, box.y1] for box in boxes],
        "center": [[int(IMAGE_SIZE * box.cx), int(IMAGE_SIZE * box.cy)] for box in boxes],
    }


def _background_details(row: ResultRow) -> dict[str, Any]:
    score = row.score("cc", "background")
    before, after = (_boxes(score, f"objects in the {name} picture") for name in ("base", "current"))
    details: dict[str, Any] = {
        "src_objects_detected_in_bg": [box.label for box in before or ()],
        "target_objects_detected_in_bg": [box.label for box in after or ()],
        "total_boxes_used": len(before or ()) + len(after or ()),
    }
    if score is None or score.status == "not_applicable":
        return details
    details["bg_dinov3_masked_similarity"] = score.value
    numbers = next((item.numbers for item in score.evidence if "patches" in item.numbers), {})
    return details | {f"bg_dinov3_masked_{name}": int(number) for name, number in numbers.items()}


def _boxes(score: Score | None, what: str) -> tuple[Box, ...] | None:
    evidence = () if score is None else score.evidence
    return next((item.boxes for item in evidence if item.what == what), None)


def _credit_entries(score: Score | None) -> list[float]:
    parts: Sequence[Score] = [] if score is None else list(score.parts.values())
    return [part.value for part in parts if part.value is not None]


def _add_to_summary(task_rate: dict[str, Any], turn: str, page: Mapping[str, Any]) -> None:
    lists = _lists(task_rate, turn)
    if page["instruction_following"] is not None:
        lists[page["task_type"]].append(page["instruction_following"])
        task_rate["overall"].append(page["instruction_following"])
    for name, key in {**{name: name for name in _QUALITY}, **_CONSISTENCY}.items():
        if page.get(key) is not None:
            lists[name].append(page[key])


def _lists(task_rate: dict[str, Any], turn: str) -> dict[str, list[Any]]:
    lists: dict[str, list[Any]] = task_rate.setdefault(turn, {name: [] for name in (*_TASKS, *_CONSISTENCY, *_QUALITY)})
    return lists


def _save(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return path
