"""Pages of the public API: a page for each package, with a stub of mkdocstrings for each of its public names.

Public are the names in `__all__` of the packages that docs/stability.md lists, and the names of other modules that
guides and examples import. A name that several packages have stands on the first page that has it. The code is read by
griffe and not imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import griffe

from editcritic.benchmarks.common.markdown import table_lines
from editcritic.reward.toml_files import tomllib

from .docstring_markdown import docstring_markdown, docstring_of, summary

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class ApiPage:
    """A page. modules: below `editcritic`, each with the names that are public, or None for those of its `__all__`."""

    name: str
    title: str
    lead: str
    modules: dict[str, tuple[str, ...] | None]


def _expert_classes() -> dict[str, tuple[str, ...] | None]:
    """The modules of all entry points of experts, in the order of their names, each with its classes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    classes = dict[str, tuple[str, ...] | None]()
    for point in dict.fromkeys(project["entry-points"]["editcritic.experts"].values()):
        module, _, name = point.removeprefix("editcritic.").partition(":")
        classes[module] = (*(classes.get(module) or ()), name)
    return classes


PAGES = (
    ApiPage("reward", "editcritic.reward", "", {"reward": None, "reward.config": ("read_spec",)}),
    ApiPage("queries", "editcritic.reward.queries", "", {"reward.queries": None}),
    ApiPage("engine", "editcritic.reward.engine", "", {"reward.engine": None}),
    ApiPage(
        "metrics",
        "editcritic.reward.metrics",
        "[Cards](../cards/index.md) describe the installed metrics and their options. A class of theirs may be "
        "imported from its module; these are used in guides and examples beside the compositions:",
        {
            "reward.metrics": None,
            "reward.metrics.calibration": ("Calibrated",),
            "reward.metrics.edival.consistency": ("ContentConsistency",),
            "reward.metrics.dlebench.tools": ("localize_differences", "zoom_in_image"),
        },
    ),
    ApiPage(
        "experts",
        "editcritic.reward.experts",
        "The classes behind the names for `--experts`: [their cards](../cards/experts.md) say what they answer, "
        "[loading models](../../loading.md) how a name becomes one of them.",
        _expert_classes(),
    ),
    ApiPage("audit", "editcritic.reward.audit", "", {"reward.audit": None}),
    ApiPage(
        "training",
        "editcritic.reward.training",
        "Beside the [trainers](../../trainers.md): what makes advantages of scores, and what watches for "
        "[reward hacking](../../trainers/alarms.md).",
        {
            "reward.training.advantages": ("advantages", "Advantages"),
            "reward.training.judge_variance": ("measure_judge_variance", "JudgeVariance", "VarianceEstimate"),
            "reward.training.reward_hacking_monitor": ("RewardHackingMonitor",),
            "reward.training.alarm": ("Alarm",),
            "reward.training.audit_probe": ("AuditProbe",),
            "reward.training.step_monitor": ("MonitoredReward",),
        },
    ),
    ApiPage("verifiers", "editcritic.verifiers", "", {"verifiers": None}),
    ApiPage("selection", "editcritic.verifiers.selection", "", {"verifiers.selection": None}),
    ApiPage("selectors", "editcritic.verifiers.selectors", "", {"verifiers.selectors": None}),
    ApiPage("trl", "editcritic.integrations.trl", "", {"integrations.trl": None}),
    ApiPage("diffusers", "editcritic.integrations.diffusers", "", {"integrations.diffusers": None}),
    ApiPage("diffusion_rl", "editcritic.integrations.diffusion_rl", "", {"integrations.diffusion_rl": None}),
    ApiPage(
        "serving",
        "editcritic.integrations.serving",
        "A [judge server](../../serving.md), and its clients.",
        {"integrations.serving.client": None, "integrations.serving.server": None},
    ),
    ApiPage(
        "trainers",
        "editcritic.integrations.trainers",
        "What the lines of [each trainer](../../trainers.md) import:",
        {
            "integrations.trainers": None,
            "integrations.trainers.flow_grpo": ("leave_out_missing",),
            "integrations.trainers.trainer_reward": ("UnknownTrainerError",),
            "integrations.trainers.dance_grpo": ("DanceGRPOReward", "scored_advantages"),
            "integrations.trainers.omnigen2_rl": ("OmniGen2Reward", "log_scores", "process_grpo_rewards"),
            "integrations.trainers.verl_omni": ("compute_score",),
        },
    ),
    ApiPage("row_check", "editcritic.integrations.row_check", "", {"integrations.row_check": None}),
    ApiPage(
        "benchmarks",
        "editcritic.benchmarks",
        "And what a [suite of your own](../../extending.md#a-suite) is made of, and what a service ranks with:",
        {
            "benchmarks": None,
            "benchmarks.suites.suite": ("SuiteInfo", "SuiteItem", "DataProblem"),
            "benchmarks.suites.tables": ("Table", "TableCell"),
            "benchmarks.suites.results": ("Results", "ResultRow"),
            "benchmarks.run.runner": ("RunResult", "RunIncomplete"),
            "benchmarks.report.ranking": ("rank_candidates", "CandidateRanking", "RankedCandidate"),
            "benchmarks.suites.human_labels": ("Label", "read_labels"),
            "benchmarks.human_eval.agreement_tables": ("agreement_tables",),
        },
    ),
    ApiPage(
        "sceneedit",
        "editcritic.benchmarks.sceneedit",
        "The modules behind it, as [SceneEdit](../../sceneedit.md) and examples use them:",
        {
            "benchmarks.sceneedit": None,
            "benchmarks.sceneedit.cases": ("Case", "cases", "dataset_digest"),
            "benchmarks.sceneedit.scene_experts": ("scene_experts",),
            "benchmarks.sceneedit.scene_recovery": ("recover_scene",),
            "benchmarks.sceneedit.experts.expert_noise": ("CachingExpert", "NoisyExpert"),
        },
    ),
)


@cache
def loader() -> griffe.GriffeLoader:
    """The sources of all of editcritic, read as text."""
    made = griffe.GriffeLoader(search_paths=[ROOT / "typings"])
    made.load("editcritic")
    made.resolve_aliases(implicit=False)
    return made


def api_pages() -> dict[str, str]:
    """The pages, below reference/api."""
    places = dict(_places())
    pages = {f"reference/api/{page.name}.md": _page(page, places) for page in PAGES}
    return {"reference/api/index.md": _index(), **pages}


def public_names(page: ApiPage) -> list[str]:
    """Identifiers of what a page describes, such as `editcritic.reward.Image`."""
    return [_identifier(f"editcritic.{module}", name) for module in page.modules for name in _names(page, module)]


def definition(identifier: str) -> Any:
    """The object of griffe behind a dotted name. Raises KeyError for one that does not exist."""
    one = loader().modules_collection[identifier]
    return one.final_target if one.is_alias else one


def _names(page: ApiPage, module: str) -> list[str]:
    names = page.modules[module]
    if names is not None:
        return list(names)
    return [str(name) for name in loader().modules_collection[f"editcritic.{module}"].exports]


def _identifier(module: str, name: str) -> str:
    """How griffe calls a name: `editcritic.reward.score` is a module to it, so the function has its own module."""
    if loader().modules_collection[f"{module}.{name}"].is_module:
        return str(loader().modules_collection[module].imports[name])
    return f"{module}.{name}"


def _places() -> Iterator[tuple[str, tuple[str, str]]]:
    """Path of a definition -> the page that describes it, and the identifier that it has there."""
    found = set[str]()
    for page in PAGES:
        for identifier in public_names(page):
            path = definition(identifier).path
            if path not in found:
                found.add(path)
                yield path, (page.name, identifier)


def _index() -> str:
    lines = [
        "# Python API",
        (
            "The names below are what [the promise of stability](../../stability.md) is about, and a few more that "
            "guides and examples import. Names with an underscore, and modules that are not listed, may change at "
            "any time."
        ),
        "\n".join(table_lines(("package", "what it is for"), map(_index_row, PAGES))),
    ]
    return "\n\n".join(lines) + "\n"


def _index_row(page: ApiPage) -> tuple[str, str]:
    return f"[`{page.title}`]({page.name}.md)", summary(docstring_of(definition(page.title)))


def _page(page: ApiPage, places: dict[str, tuple[str, str]]) -> str:
    package = docstring_markdown(docstring_of(definition(page.title)))
    rows = [_row(identifier, page, places) for identifier in public_names(page)]
    table = "\n".join(table_lines(("name", "what it is"), rows))
    here = [name for name in public_names(page) if places[definition(name).path] == (page.name, name)]
    stubs = [f"::: {identifier}\n    options:\n      heading_level: 2" for identifier in here]
    return "\n\n".join([f"# {page.title}", package, *filter(None, [page.lead]), table, *stubs]) + "\n"


def _row(identifier: str, page: ApiPage, places: dict[str, tuple[str, str]]) -> tuple[str, str]:
    place, there = places[definition(identifier).path]
    target = f"#{there}" if place == page.name else f"{place}.md#{there}"
    return f"[`{identifier.rpartition('.')[2]}`]({target})", summary(docstring_of(definition(identifier)))
