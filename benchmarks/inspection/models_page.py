"""Writes docs/models.md: the registered models, and presets with their memory.

    python -m editcritic.benchmarks.inspection.models_page [--write docs/models.md]

Its contents come from reward/experts/loading/model_registry.toml, are computed from it, or measured by the command
beside them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...reward import Expert, load_experts
from ...reward.experts.loading.local_expert import LocalExpert
from ...reward.experts.loading.model_registry import ModelEntry, registered_models
from ..common.markdown import table_lines
from .device_memory import format_size
from .load_plan import registry_name

THROUGHPUT_COMMAND = "python -m editcritic.benchmarks.studies.performance.throughput"
NO_GPU = (
    f"not measured, no GPU. `{THROUGHPUT_COMMAND} --save FOLDER` prints queries per second for GroundingDINO tiny, "
    "DINOv3-B and a LLaVA 7B at their full shapes, and their peak memory"
)


@dataclass(frozen=True, slots=True)
class ExpertPreset:
    """A set of experts. line: for `load_experts` and `--experts`. time: measured times, or how to measure them."""

    name: str
    line: str
    description: str
    time: str


PRESETS = (
    ExpertPreset(
        "CPU only",
        "detector=grounding-dino-tiny features=dinov2-base reader=rapidocr pixels=pixels "
        "judge=smolvlm-500m?dtype=float32",
        "Small models without gates, for trials. The judge is the smallest registered one.",
        "on two shared x86-64 cores with torch 2.13, the best of four runs took "
        "{detector:.0f} s per query for the detector and {features:.1f} s per image for DINOv3-B as features "
        f"(`{THROUGHPUT_COMMAND} --shapes full --roles detector features --batches 1`: random weights of the full "
        "shapes); the reader took {reader:.1f} s per image (`editcritic doctor`). These are upper bounds. "
        "The judge was not measured: `benchmarks/studies/performance` has no model of its shape",
    ),
    ExpertPreset(
        "One GPU beside the editor",
        "detector=grounding-dino-tiny features=dinov3-vitb16 reader=rapidocr pixels=pixels "
        "judge=qwen2.5-vl-3b?dtype=bfloat16&quantisation=nf4",
        "Leaves most of a GPU to the editor. `offload()` moves the weights to CPU memory while the editor runs; "
        "quantised weights are dropped and loaded again.",
        NO_GPU,
    ),
    ExpertPreset(
        "One GPU for rewards",
        "detector=grounding-dino-base features=dinov3-vitl16 reader=rapidocr pixels=pixels "
        "judge=qwen3-vl-8b?dtype=bfloat16 heldout_judge=qwen2.5-vl-7b?dtype=bfloat16",
        "For RL and benchmarks, with a held-out judge that the policy is not trained on.",
        NO_GPU,
    ),
    ExpertPreset(
        "A served judge",
        "detector=grounding-dino-tiny features=dinov3-vitb16 reader=rapidocr pixels=pixels "
        "judge=openai:http://127.0.0.1:8000/v1",
        "The judge runs on a vLLM or SGLang server and is shared by many processes; its memory is the server's.",
        NO_GPU,
    ),
)

MEASURED = {"detector": 42.6, "features": 0.5, "reader": 1.5}
"""Seconds on the machine of the first preset, which also names the commands."""

_ROLE_SECTIONS = (
    (("detector", "segmenter"), "Detectors and segmenters"),
    (("features",), "Features"),
    (("judge",), "Judges"),
    (("preference", "quality", "aesthetics"), "Raters"),
    (("",), "Readers and enhancers"),
)

_HEAD = """\
# Models

Written by `python -m editcritic.benchmarks.inspection.models_page --write docs/models.md` from \
[model_registry.toml](../reward/experts/loading/model_registry.toml). The first column is the name for `--experts`, as \
in `--experts "detector={example}"`; [loading](experts.md#loading) describes the other forms. \
`editcritic doctor --experts "..."` shows the load plan on your machine, and `editcritic doctor --check-model NAME` \
compares a local model with published scores.

Parameters are in millions. Those marked * are counted, on the published configuration built without its weights, or \
on the published file's table of shapes (`tests/reward/experts/loading/test_model_sizes.py`); the others are as \
published. Memory is of the weights alone, computed from the parameters: 4 bytes per parameter in float32, 2 in \
bfloat16; in nf4 0.53 with scales, and 2 for the parts that are not quantised (embeddings, the output layer, norms), \
which are counted for some judges only. Licences are those that the publishers state for the weights; gated models \
require accepting terms on the hub first. This page does not verify that a model reproduces its published scores: \
that needs the weights, which were not available.
"""

_MEMORY = """\
## Memory and time

Weights are computed from the tables above; the cache of features is bounded by the experts' `cache_bytes`. Forward \
passes need additional memory: the option `max_memory=8GiB` of an expert bounds the three together.
"""


def page() -> str:
    """The text of docs/models.md."""
    models = list(registered_models().values())
    return "\n".join([_HEAD.format(example=models[0].name), *_tables(models), _MEMORY, *_presets()]).rstrip() + "\n"


_COLUMNS = ("type", "model", "licence", "parameters", "bfloat16", "float32", "nf4", "used as", "taken by")


def _tables(models: Sequence[ModelEntry]) -> Iterator[str]:
    remaining = list(models)
    for uses, title in _ROLE_SECTIONS:
        section_models = [model for model in remaining if any(use in model.use for use in uses)]
        remaining = [model for model in remaining if model not in section_models]
        if section_models:
            yield f"## {title}\n"
            yield from table_lines(_COLUMNS, map(_row, section_models))
            yield ""
            yield from (f"- `{model.name}`: {model.note}" for model in section_models if model.note)
            if any(model.note for model in section_models):
                yield ""


def _row(model: ModelEntry) -> tuple[str, ...]:
    names = (model.checkpoint or model.weights, model.file, str(model.options.get("lora", "")))
    return (
        f"`{model.name}`",
        ", ".join(f"`{name}`" for name in names if name),
        (model.licence or "not found") + (", gated" if model.gated else ""),
        f"{_plain(model.parameters)}{'*' if model.counted else ''}",
        format_size(model.weight_bytes("bfloat16")),
        format_size(model.weight_bytes("float32")),
        format_size(model.weight_bytes("nf4")) if model.unquantised else "",
        model.use,
        ", ".join(model.papers),
    )


def _presets() -> Iterator[str]:
    memory = ((preset.name, *map(format_size, memory_use(load_experts(preset.line)))) for preset in PRESETS)
    yield from table_lines(("preset", "weights", "cache, at most"), memory)
    for preset in PRESETS:
        yield f"\n### {preset.name}\n\n{preset.description}\n"
        yield f"```text\n{preset.line}\n```\n"
        yield f"Time: {preset.time.format(**MEASURED)}."


def memory_use(experts: dict[str, Expert]) -> tuple[int, int]:
    """Bytes of the weights by the registry, shared ones counted once; and maximum bytes of the caches.

    Raises ValueError for a model that is not in the registry.
    """
    weights: dict[int, int] = {}
    cache_sizes: dict[int, int] = {}
    for expert in experts.values():
        if isinstance(expert, LocalExpert):
            model = registry_name(expert.name)
            if model is None:
                raise ValueError(f"{expert.name} is not in model_registry.toml: its memory cannot be computed")
            weights[id(expert.checkpoint.shared_weights)] = model.weight_bytes(expert.quantisation or expert.dtype)
            cache_sizes[id(expert)] = expert.cache_bytes
    return sum(weights.values()), sum(cache_sizes.values())


def _plain(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:g}"


def main() -> None:
    """Print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="output file; default: print the page")
    options = parser.parse_args()
    if options.write is None:
        sys.stdout.write(page())
    else:
        options.write.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
