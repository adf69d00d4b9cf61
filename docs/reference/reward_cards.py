"""Cards of the installed rewards, grouped by the system they come from, and the list of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.common.reward_catalogue import CatalogEntry, describe, format_range
from editcritic.reward import Card
from editcritic.reward.queries.kinds import Query
from editcritic.reward.queries.specs import Group, entry_point_names

from .api import ROOT
from .docstring_markdown import escaped
from .expert_cards import experts_that_answer
from .options import option_list, own_entry_points

GROUP: Group = "editcritic.rewards"
SYSTEMS = {
    "any-edit": ("Any edit", "The default reward and its two parts: [how they work](../../any_edit.md)."),
    "presets": ("Presets", "Compositions for training, ready to use: [training](../../metrics.md#training)."),
    "edival": ("EdiVal", "The metrics of [EdiVal-Agent](../../metrics.md#edival)."),
    "complex-edit": ("Complex-Edit", "The metrics of [Complex-Edit](../../metrics.md#complex-edit)."),
    "viescore": ("VIEScore", "[VIEScore](../../metrics.md#viescore), the score of GEdit-Bench."),
    "dlebench": ("DLEBench", "The metrics of [DLEBench](../../metrics.md#dlebench): edits of small objects."),
    "i2i": ("I2I-Bench", "The dimensions of [I2I-Bench](../../metrics.md#i2i-bench), for one source and for several."),
    "imgedit": ("ImgEdit-Bench", "The metrics of [ImgEdit-Bench](../../metrics.md#imgedit-bench)."),
    "baselines": ("Baselines", "Single models and single questions, to compare with; each alone is easily gamed."),
    "guards": ("Guards", "Each is 1 for what it lets pass and 0 for what it rejects: gate a reward with them."),
    "compositions": ("Compositions", "What combines rewards. Their parts are given in a TOML file or in Python."),
}
"""Page -> its title, and what it is about."""

COLOUR_JUDGED = {"any-edit", "presets", "edival", "guards"}
"""Pages of the rewards that ask a judge for colours as the expert `colour` answers them; the others need a judge."""


def reward_card_pages() -> dict[str, str]:
    """The pages, below reference/cards."""
    pages = {"reference/cards/index.md": _index()}
    for system, (title, about) in SYSTEMS.items():
        sections = [_section(entry) for entry in entries() if system_of(entry.name) == system]
        pages[f"reference/cards/{system}.md"] = "\n\n".join([f"# {title}", about, *sections]) + "\n"
    return pages


@cache
def entries() -> tuple[CatalogEntry, ...]:
    """Our own rewards, in the order of their entry points."""
    installed = entry_point_names(GROUP)
    return tuple(describe(name, installed[name]) for name in own_entry_points(GROUP))


def system_of(name: str) -> str:
    """The page of a reward."""
    module = own_entry_points(GROUP)[name].partition(":")[0].removeprefix("editcritic.reward.metrics.")
    if name.startswith("guard"):
        return "guards"
    folders = {"any_edit": "any-edit", "complexedit": "complex-edit", "i2ibench": "i2i"}
    folders |= {"compose": "compositions", "calibration": "compositions"}
    folder = module.partition(".")[0]
    return folders.get(folder, folder)


def scores_some_edits(entry: CatalogEntry) -> bool:
    """Whether some edits may have a score without a download."""
    asks_judge = any(role.partition(".")[0] == "judge" for role in entry.partly_served_roles)
    return not entry.unserved_roles and (not asks_judge or system_of(entry.name) in COLOUR_JUDGED)


def needed_roles(entry: CatalogEntry) -> list[str]:
    """Roles that the experts without a download fill for some edits only, or not at all."""
    return [*entry.unserved_roles, *entry.partly_served_roles]


def _index() -> str:
    rows = [_index_row(entry) for entry in entries() if entry.card is not None]
    compositions = [f"[`{entry.name}`](compositions.md#{entry.name})" for entry in entries() if entry.card is None]
    choices = {
        "all": "everything",
        "complete": "no model: all edits have a score",
        "partly": "no model: some edits have one",
        "judge": "a judge, also a served one, and no other model",
    }
    buttons = "\n".join(
        f'<label><input type="radio" name="have" id="have-{name}"{" checked" if name == "all" else ""}> {text}</label>'
        for name, text in choices.items()
    )
    lines = [
        "# Cards",
        (
            "All installed rewards. A card says what a value means, what it asks which experts, and how it can be "
            "gamed; `editcritic rewards NAME` prints it, with those of other installed packages. There are cards of "
            "[experts](experts.md), [bundles](bundles.md), [suites](suites.md), [selectors](selectors.md) and "
            "[families of the audit](audit-families.md), too."
        ),
        f'<fieldset class="card-filter">\n<legend>Show what can be scored with</legend>\n{buttons}\n</fieldset>',
        "\n".join(table_lines(("reward", "high means", "models needed", "aspect", "range"), rows)),
        (
            "Models needed: roles that the bundle `cpu`, which downloads nothing, fills for some edits only, or (in "
            "bold) not at all. Its judge knows colours, its detector annotated boxes, its planner everyday English."
        ),
        "## Compositions",
        f"These combine rewards: {', '.join(compositions)}.",
    ]
    return "\n\n".join(lines) + "\n"


def _index_row(entry: CatalogEntry) -> tuple[str, ...]:
    assert entry.card is not None
    needed = needed_roles(entry)
    classes = ["card-complete"] * (not needed) + ["card-partly"] * scores_some_edits(entry)
    if all(role.partition(".")[0] in ("judge", "planner") for role in needed):
        classes.append("card-judge")
    roles = [
        f"**{role}**" if role in entry.unserved_roles else role
        for role in dict.fromkeys(role if role in entry.unserved_roles else role.partition(".")[0] for role in needed)
    ]
    return (
        f"[`{entry.name}`]({system_of(entry.name)}.md#{entry.name})",
        escaped(entry.summary),
        f'<span class="{" ".join(["card", *classes])}">{", ".join(roles) or "none"}</span>',
        entry.card.aspect,
        format_range(entry.card),
    )


def _section(entry: CatalogEntry) -> str:
    target = entry_point_names(GROUP)[entry.name].load()
    parts = [f"## {entry.name}"]
    if entry.card is None:
        parts.append(escaped(entry.summary))
    else:
        parts += [f"High means: {escaped(entry.summary)}.", "\n".join(_facts(entry, entry.card))]
        if entry.card.roles:
            parts.append(
                "\n".join(table_lines(("role", "queries", "without a download", "with models"), _roles(entry)))
            )
    if entry.options:
        parts += ["**Options**", option_list(entry.options, target)]
    return "\n\n".join(parts)


def _facts(entry: CatalogEntry, card: Card) -> Iterator[str]:
    yield f"- **Range**: {format_range(card)} ({card.unit})"
    yield f"- **Version**: `{card.signature}`"
    if card.aspect:
        yield f"- **Aspect**: {card.aspect}"
    if card.protocols:
        names = [f"`{name}`" for name in card.protocols]
        yield f"- **Protocols**: {', '.join([f'{names[0]} (default)', *names[1:]])}: [their names](../../protocols.md)"
    if card.modes:
        yield f"- **Modes**: {', '.join(f'`{name}`' for name in card.modes)}"
    fields = ", ".join(f"`{name}`" for name in card.requires)
    yield f"- **Fields of a sample**: {fields or 'source, edited image and instruction'}"
    if card.source:
        yield f"- **Source**: {_with_links(escaped(card.source))}"
    if card.failure_modes:
        yield f"- **How it can be gamed**: {escaped(card.failure_modes)}"
    yield f"- **Audit**: {_audit(entry.name)}"


def _with_links(text: str) -> str:
    """The documents that a card names as links."""
    return re.sub(
        r"docs/([a-z_/]+)\.md",
        lambda found: f"[docs/{found[1]}.md](../../{found[1]}.md)" if (ROOT / found[0]).exists() else found[0],
        text,
    )


def _roles(entry: CatalogEntry) -> Iterator[tuple[str, ...]]:
    assert entry.card is not None
    for role in entry.card.roles:
        base = role.partition(".")[0]
        kinds = entry.card.kinds.get(role) or tuple(one.kind for one in Query.__subclasses__() if one.role == base)
        without = "none" if role in entry.unserved_roles else entry.partly_served_roles.get(role, "all")
        experts = [f"[`{name}`](experts.md#{name})" for name in experts_that_answer(kinds)]
        yield f"`{role}`", ", ".join(f"`{kind}`" for kind in kinds), without, ", ".join(experts)


def _audit(name: str) -> str:
    """What docs/audit_figures.md has on drawn scenes."""
    place = "[rewards on drawn scenes](../../audit_figures.md#installed-rewards)"
    row = audit_rows().get(name)
    if row is None:
        return f"not among the {place}"
    edits, following, preservation, both, *_, best_hack, pays_most, sensitivity = row
    if following == "-":
        return f"no edit had a score ({place})"
    return (
        f"scored as high as the edit or higher: {following} % of the variants without what was asked for, "
        f"{preservation} % of those with damage elsewhere, {both} % with both; best hack {best_hack} % of the range, "
        f"what pays most is {pays_most}; sensitivity {sensitivity} ({place}, {edits} edits)"
    )


@cache
def audit_rows() -> dict[str, list[str]]:
    """Reward -> the cells of its row in the table of docs/audit_figures.md, from `edits` on."""
    text = (ROOT / "docs" / "audit_figures.md").read_text(encoding="utf-8")
    table = text.partition("<!-- installed rewards -->")[2].partition("<!-- end of installed rewards -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:3] == "| `"]
    return {row[0].strip("`"): row[2:] for row in rows}
