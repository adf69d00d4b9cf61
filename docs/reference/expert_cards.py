"""Cards of experts and of bundles of experts."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Any

from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.inspection.local_weights import format_size
from editcritic.reward.experts.loading.local_expert import LocalExpert
from editcritic.reward.experts.loading.model_registry import Bundle, ModelEntry, bundles, registered_models
from editcritic.reward.queries.expert import Expert
from editcritic.reward.queries.kinds import Query
from editcritic.reward.queries.specs import Group, entry_point_names

from .docstring_markdown import docstring_markdown
from .models_page import bundle_facts, spec_words
from .options import option_list, options_of, own_entry_points

GROUP: Group = "editcritic.experts"


def expert_card_pages() -> dict[str, str]:
    """The pages, below reference/cards."""
    return {"reference/cards/experts.md": _experts_page(), "reference/cards/bundles.md": _bundles_page()}


@cache
def expert_classes() -> dict[str, type[Expert]]:
    """Our own experts by name. A second name of a class is left out."""
    installed = entry_point_names(GROUP)
    classes = dict[str, type[Expert]]()
    for name in own_entry_points(GROUP):
        target = installed[name].load()
        if target not in classes.values():
            classes[name] = target
    return classes


def experts_that_answer(kinds: Collection[str]) -> list[str]:
    """Names of the experts that answer or adapt queries of these kinds, without those that answer some only."""
    return [
        name
        for name, expert in expert_classes().items()
        if {*kinds} <= _kinds(expert.kinds) | _kinds(expert.adapts or ()) and not expert.answerable
    ]


def _kinds(queries: Iterable[type[Query[Any]]]) -> set[str]:
    return {query.kind for query in queries}


def _other_names(name: str) -> list[str]:
    points = own_entry_points(GROUP)
    return [other for other, target in points.items() if target == points[name] and other != name]


def _models(name: str) -> list[ModelEntry]:
    return [model for model in registered_models().values() if model.expert == name]


def _experts_page() -> str:
    rows = [_expert_row(name, expert) for name, expert in expert_classes().items()]
    lines = [
        "# Experts",
        (
            "What answers the queries of rewards, by the name that `--experts ROLE=NAME` takes. [Experts and "
            "bundles](../../experts.md) says which to choose, [loading models](../../loading.md) what options "
            "those with a model on this machine share."
        ),
        "\n".join(table_lines(("name", "answers", "registered models", "in bundles"), rows)),
        *(_expert_section(name, expert) for name, expert in expert_classes().items()),
    ]
    return "\n\n".join(lines) + "\n"


def _expert_row(name: str, expert: type[Expert]) -> tuple[str, ...]:
    count = len(_models(name))
    return f"[`{name}`](#{name})", _answers(expert), str(count or ""), ", ".join(_bundles_of(name))


def _answers(expert: type[Expert]) -> str:
    scope = {query.kind: text for query, text in expert.answerable.items()}
    kinds = [*(query.kind for query in expert.kinds), *(query.kind for query in expert.adapts or ())]
    return ", ".join(f"`{kind}`" + (f" ({scope[kind]})" if kind in scope else "") for kind in kinds)


def _bundles_of(name: str) -> list[str]:
    """Links to the bundles with a role of their own that this expert fills."""
    names = {name, *(model.name for model in _models(name))}
    return [
        f"[`{bundle.name}`](bundles.md#{bundle.name})"
        for bundle in bundles().values()
        if any(_name_in(spec) in names for spec in bundle.roles.values())
    ]


def _name_in(spec: Any) -> str:
    """The name at the beginning of a spec, as `sam3` of `sam3?batch=2`."""
    text = str(spec["use"] if isinstance(spec, dict) else spec)
    return text.partition("?")[0].partition(":")[0]


def _expert_section(name: str, expert: type[Expert]) -> str:
    place = f"editcritic.{own_entry_points(GROUP)[name].removeprefix('editcritic.').replace(':', '.')}"
    options = options_of(expert)
    parts = [f"## {name}", docstring_markdown(inspect.getdoc(expert) or "").partition("\n\n")[0]]
    facts = [f"- **Answers**: {_answers(expert)}", f"- **Class**: [`{expert.__name__}`](../api/experts.md#{place})"]
    if others := _other_names(name):
        facts.append(f"- **Also called**: {', '.join(f'`{other}`' for other in others)}")
    if used := _bundles_of(name):
        facts.append(f"- **In bundles**: {', '.join(used)}")
    if issubclass(expert, LocalExpert):
        facts.append(
            "- **Model**: on this machine; also takes [the options of local models]"
            "(../../loading.md#options-of-local-models)"
        )
    parts.append("\n".join(facts))
    if models := _models(name):
        parts.append(
            "\n".join(table_lines(("registered model", "licence", "parameters", "bfloat16"), map(_model_row, models)))
        )
    if options:
        parts += ["**Options**", option_list(options, expert)]
    return "\n\n".join(filter(None, parts))


def _model_row(model: ModelEntry) -> tuple[str, ...]:
    licence = (model.licence or "not found") + (", gated" if model.gated else "")
    size = format_size(model.weight_bytes("bfloat16"))
    return f"[`{model.name}`](../../models.md)", licence, f"{model.parameters:,.0f} million", size


def _bundles_page() -> str:
    rows = [(f"[`{bundle.name}`](#{bundle.name})", bundle.purpose, bundle.machine) for bundle in bundles().values()]
    lines = [
        "# Bundles",
        (
            'A bundle is a complete set of experts, for `--experts NAME` and `experts="NAME"`: [which to '
            "choose](../../experts.md#bundles), and [how its memory is counted](../../models.md#bundles)."
        ),
        "\n".join(table_lines(("bundle", "for", "machine"), rows)),
        *map(_bundle_section, bundles().values()),
    ]
    return "\n\n".join(lines) + "\n"


def _bundle_section(bundle: Bundle) -> str:
    facts = [f"- **{name.capitalize()}**: {text}" for name, text in bundle_facts(bundle).items()]
    facts.append(f"- **Install**: `{bundle.install_command}`")
    rows = [(f"`{role}`", f"`{words}`", ", ".join(_links(spec))) for role, words, spec in _roles(bundle)]
    table = "\n".join(table_lines(("role", "spec", "expert"), rows))
    return "\n\n".join([f"## {bundle.name}", "\n".join(facts), table])


def _roles(bundle: Bundle) -> Iterator[tuple[str, str, Any]]:
    specs = {**bundle.roles, **bundle.own_roles}  # own roles have examples of addresses
    for role, words in zip(specs, spec_words(specs), strict=True):
        yield role, words.partition("=")[2].strip("'"), specs[role]


def _links(spec: Any) -> Iterator[str]:
    name = _name_in(spec)
    model = registered_models().get(name)
    points = own_entry_points(GROUP)
    expert = model.expert if model is not None else name
    first = next(one for one in expert_classes() if points[one] == points[expert])
    yield f"[`{first}`](experts.md#{first})"
    if model is not None:
        yield f"[`{model.name}`](../../models.md)"
