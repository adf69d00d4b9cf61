"""Cards of suites and of selectors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.inspection.local_weights import format_size
from editcritic.benchmarks.suites.construction.download import MANUAL_SUITES, SOURCES, DatasetSource
from editcritic.benchmarks.suites.suite import Suite
from editcritic.reward.queries.specs import entry_point_names

from .docstring_markdown import docstring_markdown, docstring_parts, escaped, summary
from .options import option_list, options_of, own_entry_points

METRICS = {
    "edival": "edival",
    "complex-edit": "complex-edit",
    "dlebench": "dlebench",
    "gedit": "viescore",
    "i2ibench": "i2i",
    "imgedit": "imgedit",
}
"""Suite -> the page with the cards of its metrics. SceneEdit has none of its own."""


def suite_card_pages() -> dict[str, str]:
    """The pages, below reference/cards."""
    return {"reference/cards/suites.md": _suites_page(), "reference/cards/selectors.md": _selectors_page()}


def _suites_page() -> str:
    installed = entry_point_names("editcritic.suites")
    suites = {name: installed[name].load() for name in own_entry_points("editcritic.suites")}
    rows = [(f"[`{name}`](#{name})", suite.info.title, suite.info.licence) for name, suite in suites.items()]
    about = (
        "Benchmarks by the name that `editcritic bench run NAME` takes; options follow it, as in "
        "`edival?mode=singlepass`. [Suites](../../suites.md#suites) shows what each counts and how its data and "
        "outputs lie on disk."
    )
    lines = [
        "# Suites",
        about,
        "\n".join(table_lines(("suite", "title", "licence of the data"), rows)),
        *(_suite_section(name, suite) for name, suite in suites.items()),
    ]
    return "\n\n".join(lines) + "\n"


def _suite_section(name: str, suite: type[Suite]) -> str:
    options = options_of(suite, "data")
    docstring = inspect.getdoc(suite) or ""
    parts = [f"## {name}", summary(docstring), "\n".join(_suite_facts(name, suite))]
    if options:
        parts += ["**Options**", option_list(options, suite)]
    return "\n\n".join(parts)


def _suite_facts(name: str, suite: type[Suite]) -> Iterator[str]:
    yield f"- **Source**: {escaped(suite.info.citation)}"
    yield f"- **Licence of the data**: {escaped(suite.info.licence)}"
    if suite.info.url:
        yield f"- **Published at**: <{suite.info.url}>"
    place = (
        f"[cards]({METRICS[name]}.md)" if name in METRICS else "those of [EdiVal](edival.md), [any-edit](any-edit.md)"
    )
    yield f"- **Metrics**: {place}; [protocols](../../protocols.md)"
    source = SOURCES.get(name)
    yield f"- **Data**: {escaped(MANUAL_SUITES[name]) if source is None else _data(name, source)}"
    if suite.info.data:
        yield f"- **Files of the data**: {escaped(suite.info.data)}"
        yield f"- **Columns or fields that are read**: {suite.info.fields}"
    yield f"- **Outputs**: `{suite.info.outputs}`"


def _data(name: str, source: DatasetSource) -> str:
    how = f"`editcritic bench prepare {name}` prints the plan of the download"
    sizes = [f"`{file.path}` ({format_size(file.size)})" for file in source.files if file.size]
    files = f": {', '.join(sizes)}" if sizes else ""
    return f"{how}{files}. {escaped(' '.join(source.notes))}".rstrip()


def _selectors_page() -> str:
    installed = entry_point_names("editcritic.selectors")
    selectors = {name: installed[name].load() for name in own_entry_points("editcritic.selectors")}
    rows = [
        (f"[`{name}`](#{name})", f"[`{one.__name__}`]({_place(one)})", summary(inspect.getdoc(one) or ""))
        for name, one in selectors.items()
    ]
    about = (
        "How candidates of an edit are made and chosen among, by the name that `--selector` of `editcritic edit` and "
        "`bench generate` takes, as in `best-of?n=8`. [Selection](../../selection.md#which-selector) says which to "
        "take, [what selection gains](../../selection_figures.md) what they were measured to be worth."
    )
    lines = ["# Selectors", about, "\n".join(table_lines(("name", "class", "what it does"), rows))]
    for name, one in selectors.items():
        options = options_of(one)
        lines += [f"## {name}", docstring_markdown(docstring_parts(inspect.getdoc(one) or "")[0])]
        if options:
            lines += ["**Options**", option_list(options, one)]
    return "\n\n".join(lines) + "\n"


def _place(selector: type) -> str:
    package = "verifiers" if selector.__name__ in ("BestOfN", "SequentialEditing") else "selectors"
    path = "editcritic.verifiers" + ("" if package == "verifiers" else ".selectors")
    return f"../api/{package}.md#{path}.{selector.__name__}"
