"""Writes docs/models.md: the models that are known by name, and what sets of them take.

    python -m editcritic.benchmarks.models_page [--write docs/models.md]

Everything in it is either in reward/models/known.toml, computed from that, or measured by the command beside it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..reward import Expert, load_experts
from ..reward.models.known import Model, models
from ..reward.models.local import LocalExpert
from .room import size_of
from .would_load import known_as

THROUGHPUT = "python -m editcritic.benchmarks.perf.throughput"
NO_GPU = (
    f"not measured, no GPU. `{THROUGHPUT} --save FOLDER` prints questions a second for GroundingDINO tiny, DINOv3-B "
    "and a LLaVA 7B at their full shapes, and the most memory that they took"
)


@dataclass(frozen=True, slots=True)
class Preset:
    """A set of experts. line: for `load_experts` and `--experts`. time: what was measured, or how to."""

    name: str
    line: str
    about: str
    time: str


PRESETS = (
    Preset(
        "CPU only",
        "detector=grounding-dino-tiny features=dinov2-base reader=rapidocr pixels=pixels "
        "judge=smolvlm-500m?dtype=float32",
        "Small models, none of them gated, for trying things out. The judge is the smallest there is here.",
        "on two x86-64 cores with torch 2.13, which other processes wanted too, the best of four runs took "
        "{detector:.0f} s a question for the detector and {features:.1f} s a picture for DINOv3-B as features "
        f"(`{THROUGHPUT} --shapes full --roles detector features --batches 1`: random weights of the full shapes); the "
        "reader took {reader:.1f} s a picture (`editcritic doctor`). These are upper bounds. "
        "The judge was not measured: `benchmarks/perf` has no model of its shape",
    ),
    Preset(
        "One GPU beside the editor",
        "detector=grounding-dino-tiny features=dinov3-vitb16 reader=rapidocr pixels=pixels "
        "judge=qwen2.5-vl-3b?dtype=bfloat16&quantisation=nf4",
        "Leaves most of a GPU to the editor that makes the candidates. With `offload()` weights wait in the CPU's "
        "memory while it works; quantised ones are dropped and loaded again.",
        NO_GPU,
    ),
    Preset(
        "One GPU for rewards",
        "detector=grounding-dino-base features=dinov3-vitl16 reader=rapidocr pixels=pixels "
        "judge=qwen3-vl-8b?dtype=bfloat16 heldout_judge=qwen2.5-vl-7b?dtype=bfloat16",
        "For RL and for benchmarks, with a second judge that the policy is not trained on.",
        NO_GPU,
    ),
    Preset(
        "A served judge",
        "detector=grounding-dino-tiny features=dinov3-vitb16 reader=rapidocr pixels=pixels "
        "judge=openai:http://127.0.0.1:8000/v1",
        "The judge runs elsewhere, under vLLM or SGLang, for many processes at once; its memory is the server's.",
        NO_GPU,
    ),
)

MEASURED = {"detector": 42.6, "features": 0.5, "reader": 1.5}
"""Seconds on the machine that the first preset names; the commands stand there, too."""

_USES = (
    (("detector", "segmenter"), "Detectors and segmenters"),
    (("features",), "Features"),
    (("judge",), "Judges"),
    (("preference", "quality", "aesthetics"), "Raters"),
    (("",), "Readers and enhancers"),
)

_HEAD = """\
# Models

Made by `python -m editcritic.benchmarks.models_page --write docs/models.md` from \
[known.toml](../reward/models/known.toml). What stands in the first column is what to type, as in \
`--experts "detector={example}"`; [how experts are given](experts.md#loading) says what else may stand there. \
`editcritic doctor --experts "..."` says what a line would load on your machine, and `editcritic doctor --check NAME` \
compares a model that you have with published scores.

Parameters are in millions. Those marked * are counted: on the published configuration built without its numbers, or \
on the published file's table of shapes (`tests/reward/models/test_known_sizes.py`); the others are as published. \
Memory is of the weights alone, computed from that: 4 bytes a parameter in float32, 2 in bfloat16; in nf4 0.53 with \
scales, and 2 for what quantising leaves as it is (embeddings, the output layer, norms), which has been counted for \
some judges only. Licences are the publishers' words for the weights, and gated models want terms to be accepted on \
the hub first: read them there. Nothing here says that a model answers as published: only weights can tell, and none \
were to be had.
"""

_MEMORY = """\
## Memory and time

Weights are computed from the tables above, what is kept of recent pictures is the experts' `limit_bytes`, at most. \
Passes come on top: `memory=8GiB` among an expert's options bounds the three together.
"""


def page() -> str:
    """The whole of docs/models.md."""
    known = list(models().values())
    return "\n".join([_HEAD.format(example=known[0].name), *_tables(known), _MEMORY, *_presets()]).rstrip() + "\n"


def _tables(known: Sequence[Model]) -> Iterator[str]:
    left = list(known)
    for uses, title in _USES:
        some = [model for model in left if any(use in model.use for use in uses)]
        left = [model for model in left if model not in some]
        if some:
            yield f"## {title}\n"
            yield "| type | model | licence | parameters | bfloat16 | float32 | nf4 | used as | taken by |"
            yield "|---|---|---|---|---|---|---|---|---|"
            yield from (_row(model) for model in some)
            yield ""
            yield from (f"- `{model.name}`: {model.note}" for model in some if model.note)
            if any(model.note for model in some):
                yield ""


def _row(model: Model) -> str:
    places = (model.checkpoint or model.weights, model.file, str(model.options.get("lora", "")))
    cells = (
        f"`{model.name}`",
        ", ".join(f"`{place}`" for place in places if place),
        (model.licence or "not found") + (", gated" if model.gated else ""),
        f"{_plain(model.parameters)}{'*' if model.counted else ''}",
        size_of(model.memory("bfloat16")),
        size_of(model.memory("float32")),
        size_of(model.memory("nf4")) if model.unquantised else "",
        model.use,
        ", ".join(model.papers),
    )
    return f"| {' | '.join(cells)} |"


def _presets() -> Iterator[str]:
    yield "| preset | weights | kept, at most |"
    yield "|---|---|---|"
    for preset in PRESETS:
        weights, kept = taken(load_experts(preset.line))
        yield f"| {preset.name} | {size_of(weights)} | {size_of(kept)} |"
    for preset in PRESETS:
        yield f"\n### {preset.name}\n\n{preset.about}\n"
        yield f"```text\n{preset.line}\n```\n"
        yield f"Time: {preset.time.format(**MEASURED)}."


def taken(experts: dict[str, Expert]) -> tuple[int, int]:
    """Bytes that weights take, by the table, shared ones once; and that are kept of pictures, at most.

    Raises ValueError for a model that is not in the table.
    """
    weights: dict[int, int] = {}
    kept: dict[int, int] = {}
    for expert in experts.values():
        if isinstance(expert, LocalExpert):
            model = known_as(expert.name)
            if model is None:
                raise ValueError(f"{expert.name} is not in known.toml: its memory cannot be computed")
            weights[id(expert.checkpoint.held)] = model.memory(expert.quantisation or expert.dtype)
            kept[id(expert)] = expert.limit_bytes
    return sum(weights.values()), sum(kept.values())


def _plain(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:g}"


def main() -> None:
    """Print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="the file to write; the page is printed where none is given")
    options = parser.parse_args()
    if options.write is None:
        sys.stdout.write(page())
    else:
        options.write.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
