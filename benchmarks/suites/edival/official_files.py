"""EdiVal's own result files, so that its authors' notebooks read our results.

In a folder named after the mode: `{index}_input_raw.json` (multipass; singlepass has a file a turn, `..._turn_{turn}`),
`image_rate.json` (whether the instruction of each turn was followed) and `task_rate.json` (values by turn and type).
As in the released code only pictures with all turns are in them. A score that failed is null in a picture's file and
stands in neither of the other two: the released code would have written 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....reward.score import Score
from ..results import Results, Row
from .reading import Turn
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
"""Key in task_rate.json -> key in a picture's file."""
_QUALITY = (
    "plausibility", "aesthetics", "human_preference_score", "mean_s", "high_sat_ratio", "sharpness", "contrast", "OEI",
    "clip_frac", "multi_channel_clip_frac", "blown_flat_frac", "p99", "p999", "tail_std",
)  # fmt: skip
"""Of these we measure the preference and the two luminance quantiles; the others are empty lists."""


def write(mode: str, turns: Mapping[str, Turn], results: Results, folder: Path) -> list[Path]:
    """Write them under `folder`, and say which they are. turns: the instruction file's rows, by item."""
    into = folder / mode
    into.mkdir(parents=True, exist_ok=True)
    cases: dict[int, list[Row]] = {}
    for row in results.rows:
        cases.setdefault(int(row.case), []).append(row)
    image_rate: dict[str, list[int]] = {}
    task_rate: dict[str, Any] = {"overall": []}
    written: list[Path] = []
    for index, rows in sorted(cases.items()):
        rows = sorted(rows, key=lambda row: int(row.labels["turn"]))
        if any(row.missing for row in rows):
            continue
        pages = {int(row.labels["turn"]): _turn(mode, row, turns[row.id]) for row in rows}
        base = _base(rows[0])
        if mode == "multipass":
            whole = {
                **({"base_image_quality": base} if base else {}),
                **{str(turn): page for turn, page in pages.items()},
            }
            written.append(_save(into / f"{index}_input_raw.json", whole))
        else:
            for turn, page in pages.items():
                whole = {**page, **({"base_image_quality": base} if base else {})}
                written.append(_save(into / f"{index}_input_raw_turn_{turn}.json", whole))
        followed = [page["instruction_following"] for page in pages.values()]
        if None not in followed:
            image_rate[str(index)] = followed
        for turn, page in pages.items():
            _collect(task_rate, str(turn), page)
    return [*written, _save(into / "image_rate.json", image_rate), _save(into / "task_rate.json", task_rate)]


def _turn(mode: str, row: Row, turn: Turn) -> dict[str, Any]:
    """What one picture's file says of a turn."""
    if mode == "multipass":
        asked: dict[str, Any] = {
            "instruction": turn.instructions[-1],
            "format_instructions": turn.formats[-1],
            "task_type": turn.type,
        }
        said = [row.score("if")]
    else:
        asked = {
            "instructions": list(turn.instructions),
            "format_instructions": list(turn.formats),
            "task_types": list(turn.types),
        }
        whole = row.score("if")
        said = list(whole.credits.values()) if whole is not None and whole.credits else [whole] * turn.number
    found = dict(asked)
    if mode == "singlepass":
        found["instruction_following_list"] = [_verdict(score) for score in said]
        found["instruction_following_reason_list"] = [_reason(score) for score in said]
        found |= {"instruction": turn.instructions[-1], "task_type": turn.type}
    found["instruction_following"] = _verdict(said[-1])
    found["instruction_following_reason"] = _reason(said[-1])
    found |= _quality(row)
    found |= _consistent(row, turn)
    stem = f"{mode}/{turn.index}_input_raw"
    before = stem if mode == "singlepass" or turn.number == 1 else f"{stem}_turn_{turn.number - 1}"
    found["meta"] = {
        **asked,
        "unchanged_objects": list(turn.pools.unchanged),
        "all_objects": list(turn.pools.all),
        "base_image_path": f"{stem}.png",
        "src_image_path": f"{before}.png",
        "target_image_path": f"{stem}_turn_{turn.number}.png",
        "turn": turn.number,
        "index": turn.index,
        "eval_bg_consistency": turn.pools.background,
    }
    return found


def _verdict(score: Score | None) -> int | None:
    return None if score is None or score.value is None else int(score.value)


def _reason(score: Score | None) -> str:
    return "" if score is None else score.reason


def _quality(row: Row) -> dict[str, float | None]:
    if row.score("vq") is None:
        return {}
    return {
        "human_preference_score": row.value("vq"),
        "p99": luminance_of(row, "edited picture", "99 %"),
        "p999": luminance_of(row, "edited picture", "99.9 %"),
    }


def _base(row: Row) -> dict[str, float | None]:
    if row.score("vq") is None:
        return {}
    return {
        "base_image_human_preference_score": row.value("vq", "base"),
        "base_image_p99": luminance_of(row, "base picture", "99 %"),
        "base_image_p999": luminance_of(row, "base picture", "99.9 %"),
    }


def _consistent(row: Row, turn: Turn) -> dict[str, Any]:
    """Both halves of consistency; nothing where an instruction changes the background, as in the released code."""
    if not turn.pools.background:
        return {**dict.fromkeys(_CONSISTENCY.values()), "bg_details": None, "object_details": None}
    objects, l1 = row.value("cc", "objects"), row.value("cc", "objects_l1")
    behind, behind_l1 = row.value("cc", "background"), row.value("cc", "background_l1")
    return {
        "object_dinov3_consistency_mean": objects,
        "object_l1_consistency_mean": l1,
        "background_l1_consistency": behind_l1,
        "background_dinov3_consistency": behind,
        "bg_details": {"bg_l1_consistency": behind_l1, "bg_dinov3_masked_similarity": behind},
        "object_details": {
            "object_dinov3_consistency": _each(row.score("cc", "objects")),
            "object_dinov3_consistency_mean": objects,
            "object_l1_consistency": _each(row.score("cc", "objects_l1")),
            "object_l1_consistency_mean": l1,
        },
    }


def _each(score: Score | None) -> list[float]:
    parts: Sequence[Score] = [] if score is None else list(score.parts.values())
    return [part.value for part in parts if part.value is not None]


def _collect(task_rate: dict[str, Any], turn: str, page: Mapping[str, Any]) -> None:
    lists = task_rate.setdefault(turn, {name: [] for name in (*_TASKS, *_CONSISTENCY, *_QUALITY)})
    if page["instruction_following"] is not None:
        lists[page["task_type"]].append(page["instruction_following"])
        task_rate["overall"].append(page["instruction_following"])
    for name, key in {**{name: name for name in _QUALITY}, **_CONSISTENCY}.items():
        if page.get(key) is not None:
            lists[name].append(page[key])


def _save(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return path
