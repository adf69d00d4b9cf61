"""Writes docs/models.md: the registered models, and bundles with their memory.

    python docs/reference/models_page.py [--write docs/models.md | --bundles]

Its contents come from model_registry.toml and bundles.toml in reward/experts/loading, are computed from these, or
measured by the command beside them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.inspection.local_weights import format_size
from editcritic.benchmarks.inspection.model_requirements import registry_name, weight_owner
from editcritic.reward import Expert, load_experts
from editcritic.reward.experts.loading.local_expert import LocalExpert
from editcritic.reward.experts.loading.model_registry import Bundle, ModelEntry, bundles, registered_models
from editcritic.reward.queries.specs import Spec

_ROLE_SECTIONS = (
    (("detector", "segmenter"), "Detectors and segmenters"),
    (("features",), "Features"),
    (("judge",), "Judges"),
    (("preference", "quality", "aesthetics"), "Raters"),
    (("",), "Readers and enhancers"),
)

_HEAD = """\
# Models

Written by `python docs/reference/models_page.py --write docs/models.md` from \
[model_registry.toml](../reward/experts/loading/model_registry.toml). The first column is the name for `--experts`, as \
in `--experts "detector={example}"`; [loading models](loading.md) describes the other forms. \
`editcritic doctor --experts "..."` shows what models need on your machine, and `editcritic doctor --check-model NAME` \
compares a local model with published scores.

Parameters are in millions. Those marked * are counted, on the published configuration built without its weights, or \
on the published file's table of shapes (`tests/reward/experts/loading/test_model_sizes.py`); the others are as \
published. Memory is of the weights alone, computed from the parameters: 4 bytes per parameter in float32, 2 in \
bfloat16; in nf4 0.53 with scales, and 2 for the parts that are not quantised (embeddings, the output layer, norms), \
which are counted for some judges only. Licences are those that the publishers state for the weights; gated models \
require accepting terms on the hub first. This page does not verify that a model reproduces its published scores: \
that needs the weights, which were not available.
"""

_BUNDLES = """\
## Bundles

Complete sets of experts by role, for `experts="small"` and `--experts small`; from \
[bundles.toml](../reward/experts/loading/bundles.toml). [experts.md](experts.md) says what each is for. Weights and \
downloads are computed from the tables above, each model counted once; the cache of features is bounded by the \
experts' `cache_bytes`. Passes are the bytes of the tensors that are alive in the largest forward pass of each expert. \
For `small` and `standard` they are counted at a model's full width on a CPU, with few layers, and keys and values of \
the other layers added: two pictures of 1024 x 1024 to each question of the judge, one of 800 x 1333 for the detector. \
For `laptop` they are what the process holds at most beside weights and cache, for pictures of 1024 x 1024 \
(`python -m studies.performance.laptop_cost`). For `large` and the bundles of papers they are \
estimated. Nothing was measured on a GPU. The option `max_memory=8GiB` of an expert bounds weights, caches and passes \
together.
"""

_TIME = """\
Time: on two shared x86-64 cores with torch 2.13, the best of four runs took 43 s per query for GroundingDINO tiny, \
and 0.5 s per image for DINOv3-B (`python -m studies.performance.throughput --shapes full \
--roles detector features --batches 1`: random weights of the full shapes); the reader took 1.5 s per image \
(`editcritic doctor`). These are upper bounds. Not measured: judges, and anything on a GPU; `--save FOLDER` of the \
same command prints queries per second at growing batch sizes, with the hardware.
"""


def page() -> str:
    """The text of docs/models.md."""
    models = list(registered_models().values())
    return (
        "\n".join([_HEAD.format(example=models[0].name), *_tables(models), _BUNDLES, *_bundles(), _TIME]).rstrip()
        + "\n"
    )


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
        _licence(model),
        f"{_plain(model.parameters)}{'*' if model.counted else ''}",
        format_size(model.weight_bytes("bfloat16")),
        format_size(model.weight_bytes("float32")),
        format_size(model.weight_bytes("nf4")) if model.unquantised else "",
        model.use,
        ", ".join(model.papers),
    )


def _bundles() -> Iterator[str]:
    columns = ("bundle", "downloads", "weights", "cache, at most", "passes, about", "for")
    yield from table_lines(columns, map(_bundle_row, bundles().values()))
    yield f"\nRoles that a bundle does not list are `{' '.join(spec_words(bundles()['cpu'].roles))}`.\n"
    for bundle in bundles().values():
        if bundle.own_roles:
            yield f"```text\n# {bundle.name}\n{' '.join(spec_words(bundle.own_roles))}\n```\n"


def _bundle_row(bundle: Bundle) -> tuple[str, ...]:
    experts = load_experts(bundle.own_roles)
    weights, cache = memory_use(experts)
    return (
        f"`{bundle.name}`",
        format_download(experts),
        format_size(weights) if weights else "none",
        format_size(cache) if cache else "none",
        f"{bundle.passes_gib:g} GiB" if bundle.passes_gib else "",
        bundle.machine,
    )


def bundle_table() -> list[str]:
    """The lines of the table of bundles in docs/experts.md."""
    facts = {bundle.name: bundle_facts(bundle) for bundle in bundles().values()}
    columns = next(iter(facts.values()))
    return list(table_lines(("bundle", *columns), ((f"`{name}`", *row.values()) for name, row in facts.items())))


def bundle_facts(bundle: Bundle) -> dict[str, str]:
    """What a bundle is for, needs and cannot do, in words: column of the table in docs/experts.md -> text."""
    experts = load_experts(bundle.own_roles)
    memory = sum(memory_use(experts)) + bundle.passes_gib * 2**30
    licences = dict.fromkeys(_licence(model) for model in _models(experts))
    return {
        "for": bundle.purpose,
        "machine": bundle.machine,
        "download": format_download(experts),
        "memory": f"{memory / 1e9:.0f} GB" if memory else "none",
        "licences": "; ".join(licences) or "that of the packages",
        "cannot answer": bundle.unanswered,
    }


def _models(experts: Mapping[str, Expert]) -> list[ModelEntry]:
    """The registered models of experts, each once."""
    owners = [weight_owner(expert)[0] for expert in experts.values()]
    names = [expert.name for expert in owners if isinstance(expert, LocalExpert)]
    return [model for name in dict.fromkeys(names) if (model := registry_name(name))]


def format_download(experts: Mapping[str, Expert]) -> str:
    """Bytes of the models of experts that come from the hub, as text."""
    models = _models(experts)
    known = sum(model.download_bytes or 0 for model in models)
    unknown = [model.name for model in models if model.download_bytes is None]
    text = f"{known / 1e9:.1f} GB" if known else ""
    return (text + "".join(f" and {name}" for name in unknown)) or "none"


def _licence(model: ModelEntry) -> str:
    return (model.licence or "not found") + (", gated" if model.gated else "")


def spec_words(roles: Mapping[str, Spec]) -> Iterator[str]:
    """Roles with their specs as they are typed: `role=spec`."""
    for role, spec in roles.items():
        table = dict(spec) if isinstance(spec, Mapping) else {"use": spec}
        use = table.pop("use")
        values = {key: json.dumps(value, separators=(",", ":")) for key, value in table.items()}
        options = "&".join(f"{key}={value.replace('&', '%26')}" for key, value in values.items())
        yield f"{role}='{use}?{options}'" if options else f"{role}={use}"


def memory_use(experts: Mapping[str, Expert]) -> tuple[int, int]:
    """Bytes of the weights by the registry, shared ones counted once; and maximum bytes of the caches. Raises
    ValueError for a model that is not in the registry."""
    weights: dict[int, int] = {}
    cache_sizes: dict[int, int] = {}
    for expert in (weight_owner(bound)[0] for bound in experts.values()):
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
    parser.add_argument("--bundles", action="store_true", help="print the table of bundles in docs/experts.md instead")
    options = parser.parse_args()
    if options.bundles:
        sys.stdout.write("\n".join([*bundle_table(), ""]))
    elif options.write is None:
        sys.stdout.write(page())
    else:
        options.write.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
