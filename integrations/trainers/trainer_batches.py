"""What a diffusion trainer hands over after a rollout, as edits to score; and what it gets back.

Shared by the adapters `flow_grpo`, `flow_factory`, `verl_omni` and `unirl`, and by the shims of the judge server.

Edits are grouped by (instruction, source pictures), which is what `EditSample` derives: never by the prompt alone, and
not by the trainers' own group ids, which some of them make of the prompt.

A row's metadata may hold `editcritic`, a table with those fields of a sample file (`reward.files`) that a reward asks
for and a trainer has no place for: see `FIELDS`. Nothing else of the metadata is looked at, and texts in it are never
taken for files.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

from pydantic import ValidationError

from ..reward import EditSample, Image, Reward, Score
from ..reward.files import sample_from_json
from ..reward.spec import Spec, read
from .untouched import untouched

Scorer = Callable[[Sequence[EditSample]], Sequence[Score]]
"""A `Reward`, a `RemoteReward`, or anything else that is called like one."""

Missing = Literal["raise", "nan"]
"""What becomes of an edit without a score where a trainer takes nothing but numbers. It is never a number."""

EXTRA: Final = "editcritic"

FIELDS: Final = (
    "task", "pools", "boxes", "fractions", "operations", "targets", "target_fractions", "text", "hint", "dimensions",
    "metadata",
)  # fmt: skip


_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "reward": str, "token_env": str, "packing": str, "deadline_s": float, "timeout_s": float, "patience_s": float,
}  # fmt: skip


class Unscored(RuntimeError):
    """Edits that have no score, where the trainer has no way to leave them out. scores: of all, in order."""

    def __init__(self, message: str, scores: Sequence[Score]) -> None:
        super().__init__(message)
        self.scores = tuple(scores)

    def __reduce__(self) -> tuple[Any, ...]:  # workers send it home
        return Unscored, (str(self), self.scores)


def scorer_of(reward: Scorer | Spec) -> Scorer:
    """What scores: as it is, if it can be called; else of a text, for trainers whose settings are texts, or of a spec
    as a table. A text is a spec, the path of a TOML file, or URLs of judge servers that serve the same, with options of
    `RemoteReward`: http://a:8321,http://b:8321?token_env=JUDGE_TOKEN&deadline_s=60. Raises ValueError.
    """
    if isinstance(reward, str):
        if reward.startswith(("http://", "https://")):
            return _remote(reward)
        if not reward:
            raise ValueError("no reward: give a Reward, a spec, the path of a TOML file, or the URL of a judge server")
        return Reward.of(read(reward) if reward.endswith(".toml") else reward)
    return Reward.of(reward) if isinstance(reward, Mapping) else reward


def _remote(text: str) -> Scorer:
    from .serving.client import RemoteReward

    urls, _, query = text.partition("?")
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            raise ValueError(f"{urls} takes the options {', '.join(_OPTIONS)} here, got {name!r:.80}")
        options[name] = _OPTIONS[name](value)
    return RemoteReward(urls.split(","), **options)


def name_of(scorer: Scorer) -> str:
    """As trainers log it."""
    return str(getattr(scorer, "__name__", type(scorer).__name__))


def pictures_in(batch: Any) -> list[Image]:
    """A picture a row: of float tensors or arrays in [0, 1] (what is beyond is clipped, as trainers do), of uint8, of
    lists of anything `Image.of` takes. Tensors N x C x H x W, arrays N x H x W x C. Raises ImageError.
    """
    if hasattr(batch, "detach"):
        batch = batch.detach()
        batch = (batch.float().clamp(0, 1) if batch.is_floating_point() else batch).cpu()
    elif getattr(getattr(batch, "dtype", None), "kind", "") == "f":
        batch = batch.clip(0, 1)
    return [Image.of(one) for one in batch]


def edits_of(
    prompts: Sequence[str],
    edited: Sequence[Image],
    sources: Sequence[Sequence[Image]],
    metadata: Sequence[Any] | None = None,
) -> list[EditSample]:
    """An edit a row, with `edit-<row>` for its id. Raises ValueError where the lists are not equally long, or where
    `editcritic` in a row's metadata is no part of a sample.
    """
    rows = [None] * len(edited) if metadata is None else list(metadata)
    counts = {"prompts": len(prompts), "pictures": len(edited), "sources": len(sources), "metadata": len(rows)}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"of each edit one is needed, got {', '.join(f'{count} {name}' for name, count in counts.items())}"
        )
    found = []
    for number, (prompt, after, before, extra) in enumerate(zip(prompts, edited, sources, rows, strict=True)):
        pictures = {f"source-{place}": one for place, one in enumerate(before)} | {"edited": after}
        row = row_of(f"edit-{number}", prompt, [name for name in pictures if name != "edited"], "edited", extra)
        try:
            found.append(sample_from_json(row, pictures=pictures))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or EXTRA
            raise ValueError(f"edit-{number}: {where}: {first['msg']}") from None
    return found


def row_of(name: str, prompt: Any, sources: Sequence[str], edited: str, metadata: Any) -> dict[str, Any]:
    """An edit as sample files write it, pictures by name, with what its metadata adds. Raises ValueError."""
    extra = metadata.get(EXTRA, {}) if isinstance(metadata, Mapping) else {}
    if not isinstance(extra, Mapping):
        raise ValueError(f"{name}: `{EXTRA}` in the metadata is a table of fields, got {type(extra).__name__}")
    if unknown := sorted(str(field) for field in extra if field not in FIELDS):
        raise ValueError(f"{name}: `{EXTRA}` in the metadata has no {unknown[0]!r:.80}: known are {', '.join(FIELDS)}")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError(f"{name}: the prompt is what the edit is judged by, and this one says nothing: {prompt!r:.80}")
    if not sources:
        raise ValueError(f"{name} has no source picture, and an edit is judged against its source")
    return {**extra, "id": name, "instruction": prompt, "sources": list(sources), "edited": edited}


def table_of(metadata: Any) -> Any:
    """A row's metadata, of JSON where a trainer passes it as a text."""
    return json.loads(metadata) if isinstance(metadata, str) else metadata


def scored(scorer: Scorer, samples: Sequence[EditSample]) -> list[Score]:
    """A score for each. Raises what the scorer raises.

    In the main thread, the trainer's random numbers are put back as they were. In another one it is the trainer that
    goes on drawing from them, and would draw the same noise again if they were.
    """
    here = threading.current_thread() is threading.main_thread()
    with untouched() if here else nullcontext():
        found = list(scorer(samples)) if samples else []
    if len(found) != len(samples):
        raise ValueError(f"{name_of(scorer)} gave {len(found)} scores for {len(samples)} edits")
    return found


def numbers_of(samples: Sequence[EditSample], scores: Sequence[Score], missing: Missing) -> list[float]:
    """The values; for an edit without one NaN, or `Unscored` naming it."""
    if missing == "raise" and any(score.value is None for score in scores):
        raise Unscored(said_of(samples, scores), scores)
    return [math.nan if score.value is None else score.value for score in scores]


def said_of(samples: Sequence[EditSample], scores: Sequence[Score | None]) -> str:
    """Which edits have no score, and why, in a sentence."""
    lacking = [
        f"{sample.id}: {'late' if score is None else f'{score.status} ({score.reason})'}"
        for sample, score in zip(samples, scores, strict=True)
        if score is None or score.value is None
    ]
    more = f"; and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    return f"{len(lacking)} of {len(samples)} edits have no score: {'; '.join(lacking[:3])}{more}"[:1000]


def missing_of(missing: str) -> Missing:
    """Checked: settings are texts. Raises ValueError."""
    if missing == "raise":
        return "raise"
    if missing == "nan":
        return "nan"
    raise ValueError(f"an edit without a score is 'raise' or 'nan', and never a number: got {missing!r}")
