"""The pages of the site that are made from the code: nothing public is left out, and what they say is so."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from skimage import data
from typer.testing import CliRunner

from editcritic.benchmarks.common.reward_catalogue import describe
from editcritic.cli.app import app
from editcritic.reward import Box, EditSample, Image, Reward, load_experts
from editcritic.reward.audit import all_families
from editcritic.reward.experts.loading.model_registry import bundles
from editcritic.reward.queries.expert import Expert, unsuitable_experts
from editcritic.reward.queries.kinds import Query
from editcritic.reward.toml_files import tomllib, validated

ROOT = Path(__file__).parents[1]
NEEDS = ("mkdocs",)

sys.path.insert(0, str(ROOT / "docs"))
try:
    pages: Callable[[], dict[str, str]] = cache(import_module("reference_pages").reference_pages)
    api, cards, commands = (import_module(f"reference.{name}") for name in ("api", "reward_cards", "commands"))
    docstrings, experts, formats = (
        import_module(f"reference.{name}") for name in ("docstring_markdown", "expert_cards", "file_formats")
    )
    options = import_module("reference.options")
finally:
    sys.path.pop(0)


@cache
def sections(page: str) -> dict[str, str]:
    """Headings of the second and third level -> what stands below each, up to the next."""
    parts = re.split(r"^###? (.+?)(?: \{.*\})?$", pages()[page], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


# -- all pages ---------------------------------------------------------------------------------------------------------


def test_pages_begin_with_titles_and_are_the_same_in_every_process():
    assert [page for page, text in pages().items() if not re.match(r"# \S", text)] == []
    folders = {page.rpartition("/")[0] for page in pages()}
    first = {folder: next(page for page in pages() if page.startswith(f"{folder}/")) for folder in folders}
    assert all(first[folder] == f"{folder}/index.md" for folder in folders - {"reference"})
    script = (
        "import sys, json; sys.path.insert(0, 'docs'); from reference_pages import reference_pages; "
        "print(json.dumps(list(reference_pages().items())))"
    )
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", script]
    other = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert json.loads(other) == [list(page) for page in pages().items()]


# -- API ---------------------------------------------------------------------------------------------------------------


def test_every_public_name_and_package_has_a_place_and_a_docstring():
    stubs = [name for page, text in pages().items() for name in re.findall(r"^::: (\S+)", text, re.MULTILINE)]
    assert len(stubs) == len(set(stubs))
    definitions = {api.definition(name).path for name in stubs}
    assert len(definitions) == len(stubs)
    public = [name for page in api.PAGES for name in api.public_names(page)]
    assert [name for name in public if api.definition(name).path not in definitions] == []
    assert [name for name in public if not docstrings.docstring_of(api.definition(name))] == []
    shown = {module for page in api.PAGES for module, names in page.modules.items() if names is None}
    stable = re.findall(r"`editcritic\.([a-z_.]+)`", (ROOT / "docs" / "stability.md").read_text(encoding="utf-8"))
    packages = [name for name in stable if (ROOT / name.replace(".", "/") / "__init__.py").exists()]
    assert len(packages) >= 16
    assert sorted(set(packages) - shown) == []
    for module in shown:
        exported = import_module(f"editcritic.{module}").__all__
        page = next(page for page in api.PAGES if module in page.modules)
        assert set(exported) <= {name.rpartition(".")[2] for name in api.public_names(page)}
    for one in docstrings._objects(api.loader().modules_collection["editcritic"]):
        docstrings._inherit(one)
    lacking = [
        f"{name}.{member.name}"
        for page in api.PAGES
        for name in api.public_names(page)
        if api.definition(name).is_class
        for member in api.definition(name).members.values()
        if not member.name.startswith("_") and not member.is_alias and member.docstring is None
        if member.is_function or "property" in member.labels
    ]
    assert lacking == []
    texts = {name: " ".join(docstrings.docstring_of(api.definition(name)).split()) for name in public}
    assert {name: text[:60] for name, text in texts.items() if docstrings._SECTIONS.match(text)} == {}
    text = docstrings.docstring_of(api.definition("editcritic.integrations.trainers.UniRLRewardBackend"))
    assert text.startswith("A reward backend for UniRL")
    assert "prompt_source: The prompt" in text


def test_what_guides_and_examples_import_is_on_a_page() -> None:
    """Studies are not for use: what examples take from them is shown by the example."""
    imported = set[str]()
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]:
        text = path.read_text(encoding="utf-8")
        blocks = (
            [text] if path.suffix == ".py" else re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        )
        for block in blocks:
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("editcritic."):
                    imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    assert len(imported) > 50
    described = {api.definition(name).path for page in api.PAGES for name in api.public_names(page)}
    described.add("editcritic.reward.score")  # a module to griffe; the function is described
    lost = [name for name in sorted(imported) if ".studies." not in name and api.definition(name).path not in described]
    assert lost == []


@pytest.mark.parametrize(
    ("docstring", "markdown"),
    [
        ("One\nline.", "One line."),
        ("Do\nit.\n\nArgs:\n    a: What <b>\n        is.\n", "Do it.\n\nArgs:\n    a: What &lt;b>\n        is."),
        ("It is `a: 1`.\n\n    x = 1\n    if x:\n        y = 2\n\nEnd.",
         "It is `a: 1`.\n\n```python\nx = 1\nif x:\n    y = 2\n```\n\nEnd."),
        ("Of a line such as\n\n    judge=x y\n\nor more.", "Of a line such as\n\n```text\njudge=x y\n```\n\nor more."),
        ("Types:\n| a | b |\n|---|---|\n| c | d |", "Types:\n\n| a | b |\n|---|---|\n| c | d |"),
        ("Both:\n- one\n- two", "Both:\n\n- one\n- two"),
        ("A file <id>.png, in `<id>`.", "A file &lt;id>.png, in `<id>`."),
    ],
)  # fmt: skip
def test_docstrings_become_markdown(docstring: str, markdown: str) -> None:
    assert docstrings.docstring_markdown(docstring) == markdown


def test_sections_name_parameters_of_what_they_describe() -> None:
    """And most of what is public has them, where it takes parameters or raises."""
    described = dict[str, list[str]]()
    for page in api.PAGES:
        for name in api.public_names(page):
            one = api.definition(name)
            if one.docstring is not None and not one.is_module:
                described[name] = list(docstrings.described_parameters(str(one.docstring.value)))
    unknown = {
        name: lost
        for name, names in described.items()
        if (lost := [word for word in names if word not in {_.name.lstrip("*") for _ in _parameters(name)}])
    }
    assert unknown == {}
    assert sum(map(bool, described.values())) > 100


def _parameters(name: str) -> Any:
    one = api.definition(name)
    return [*one.parameters] if one.is_function else [*one.parameters, *one.all_members.values()]


# -- command line ------------------------------------------------------------------------------------------------------


@cache
def all_commands() -> dict[str, Any]:
    return dict(commands.commands(typer.main.get_command(app), "editcritic"))


def described(path: str) -> str:
    """What the pages say of a command."""
    _, top, *below = path.split()
    page = f"reference/cli/{top}.md"
    return sections(page)[path] if below else pages()[page]


def test_every_command_has_its_options_and_arguments():
    index = pages()["reference/cli/index.md"]
    assert [path for path in all_commands() if f"[`{path}`](" not in index] == []
    assert [path for path in all_commands() if "**Options**" not in described(path)] == []
    for path, command in all_commands().items():
        text = described(path)
        options = text.partition("**Options**")[2].partition("**Example**")[0]
        listed = {name for line in options.splitlines() if line.startswith("- ") for name in _names(line)}
        help_text = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*path.split()[1:], "--help"]).stdout
        begins = re.findall(r"^  ((?:-[a-z-]+(?:, | / | |$))+)", help_text, re.MULTILINE)
        in_help = {word for names in begins for word in names.split() if word.startswith("--")}
        assert {name for name in listed if name.startswith("--")} == in_help - {"--help"}, path
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        block = text.partition("**Arguments**")[2].partition("**Options**")[0]
        assert len(re.findall(r"^- `", block, re.MULTILINE)) == len(arguments), path
    score = described("editcritic score")
    assert "- `--max-failure-rate` *number*, 0 to 1: " in score
    assert "- `max_failure_rate`: Maximum tolerated fraction of failed scores. Default: `0.5`." in score
    assert "- `ray.workers`: Number of scoring actors. Default: `2`." in score
    assert "- `--experts` *text*, repeatable: " in score
    assert "- `--json`: Write one JSON document" in score
    assert "- `-o` or `--out` *path*: " in score
    assert "[docs/experts.md](../../experts.md)" in score


def test_keys_of_settings_are_listed_and_those_that_documents_show_are_valid(tmp_path):
    documents = [ROOT / "docs" / f"{name}.md" for name in ("scores", "suites", "labels")]
    text = "".join(one.read_text(encoding="utf-8") for one in documents)
    shown = [
        tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "suite =" not in block
    ]
    assert len(shown) == len(commands.SETTINGS)
    for path, model in commands.SETTINGS.items():
        text = described(path).partition("**Keys of the file for `--config`**")[2]
        assert [name for name in model.model_fields if not re.search(rf"^- `{name}`: \S", text, re.MULTILINE)] == []
        (table,) = (one for one in shown if one.keys() <= model.model_fields.keys())
        validated(model, table)


def _names(line: str) -> list[str]:
    """The names at the beginning of an option's line."""
    return re.findall(r"`(--?[a-z-]+)`", re.split(r":| \*|, ", line)[0])


# -- cards -------------------------------------------------------------------------------------------------------------


def test_every_reward_has_a_card() -> None:
    for name in options.own_entry_points("editcritic.rewards"):
        page = f"reference/cards/{cards.system_of(name)}.md"
        text, entry = sections(page)[name], describe(name)
        assert f"[`{name}`]({cards.system_of(name)}.md#{name})" in pages()["reference/cards/index.md"]
        if entry.card is None:
            assert page.endswith("compositions.md"), name
        else:
            assert f"`{entry.card.signature}`" in text, name
            assert "**How it can be gamed**" in text, name
            assert [role for role in entry.card.roles if f"| `{role}` |" not in text] == [], name
        assert [option for option in entry.options if f"- `{option}`, " not in text] == [], name


def test_experts_of_a_role_are_those_that_a_reward_accepts() -> None:
    for kind in {query.kind for query in Query.__subclasses__()}:
        for name in experts.experts_that_answer([kind]):
            expert = experts.expert_classes()[name].__new__(experts.expert_classes()[name])
            assert isinstance(expert, Expert)
            assert unsuitable_experts({"role": expert}, {"role": (kind,)}) == {}, (name, kind)
    assert experts.experts_that_answer(["detect"]) == ["grounding-dino", "owl", "sam3"]
    assert "openai" in experts.experts_that_answer(["judge"])


def test_without_models_only_what_the_list_says_has_scores() -> None:
    """Edits of colour, with boxes, which is what the bundle `cpu` knows."""
    pixels = data.coffee()
    pixels_edited = pixels.copy()
    pixels_edited[95:195, 205:370] = pixels[95:195, 205:370, [1, 0, 2]]  # red and green swapped
    source = Image.of(pixels)
    boxes = {"coffee": (Box.from_corners(205, 95, 370, 195, source.size),)}
    words = "Change the color of coffee to green"
    sample = EditSample("coffee", words, (source,), Image.of(pixels_edited), boxes=boxes)
    bound = load_experts("cpu")
    scored, checked = set[str](), set[str]()
    for entry in cards.entries():
        if entry.card is None or entry.unserved_roles:
            continue
        reward = Reward.of(entry.name, bound, on_failures="none")
        if reward.missing_fields(sample):
            continue
        checked.add(entry.name)
        if reward([sample])[0].value is not None:
            scored.add(entry.name)
    claimed = {entry.name for entry in cards.entries() if entry.card is not None and cards.scores_some_edits(entry)}
    assert len(checked) > 40
    assert scored <= claimed
    assert {"any-edit", "edival-if", "edit-balanced", "guards", "clip-image"} <= scored


def test_experts_bundles_and_findings_have_cards():
    document = (ROOT / "docs" / "audit_figures.md").read_text(encoding="utf-8")
    rows = cards.audit_rows()
    assert len(rows) > 50
    assert all(f"| `{name}` |" in document for name in rows)
    following = rows["edival-vq"][1]
    assert (
        f"{following} % of the variants without what was asked for"
        in sections("reference/cards/edival.md")["edival-vq"]
    )
    listed = {
        "experts": set(experts.expert_classes()),
        "bundles": set(bundles()),
        "suites": set(options.own_entry_points("editcritic.suites")),
        "selectors": set(options.own_entry_points("editcritic.selectors")),
        "audit-families": {family.name for family in all_families()},
    }
    for page, names in listed.items():
        assert sorted(names - set(sections(f"reference/cards/{page}.md"))) == [], page
    served = sections("reference/cards/experts.md")["openai"]
    assert "**Also called**: `served`" in served
    assert "`api_key_env`" in served


def test_options_have_the_meaning_that_the_docstring_gives() -> None:
    def target(first: int, second: str = "b", *, third: float | None = None) -> None:
        """Do it.

        Args:
            first: How often.
            second: With what.
            third: How far, of
                all.
        """

    assert options.option_list(options.options_of(target), target).splitlines() == [
        "- `first`, required: How often.",
        '- `second`, by default `"b"`: With what.',
        "- `third`, not set by default: How far, of all.",
    ]


# -- file formats ------------------------------------------------------------------------------------------------------


def test_schema_numbers_are_on_the_page_and_those_of_the_modules():
    listed = {(one.module, one.constant): one.name for rows in formats.FORMATS.values() for one in rows if one.module}
    assert formats.schema_numbers().keys() == listed.keys()
    page = pages()["reference/formats.md"]
    for place, name in listed.items():
        assert re.search(rf"^\| {re.escape(name)} \|.*\| {formats.schema_numbers()[place]} \|$", page, re.MULTILINE), (
            name
        )
    for (path, constant), number in formats.schema_numbers().items():
        if path.startswith("integrations/diffusion_rl"):
            continue  # imports torch
        module = import_module(f"editcritic.{path.removesuffix('.py').replace('/', '.')}")
        assert getattr(module, constant) == number
