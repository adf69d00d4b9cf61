"""Suites: built from specs, all metrics as one program per item, so that they share queries; those of an editor."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from ...reward import Card, EditSample, Expert, Program, Score, SpecError, build
from ...reward.card import joint_kinds
from ...reward.config import options_of, read_option, spec_table
from ...reward.engine import gather
from ...reward.metrics import Metric
from ...reward.metrics.compose import score_with_signature, signature_of
from ...reward.queries.expert import missing_declarations, unbound_roles, unsuitable_experts
from ...reward.queries.specs import Group, Spec, entry_point_names, parameters
from ..common.errors import InputError
from ..suites.suite import Suite

SUITES: Group = "editcritic.suites"


def load_suite(spec: Spec, data: Path | None = None) -> Suite:
    """Build a suite from its spec, e.g. `edival?mode=singlepass`, and the path of its data. Raises `InputError`."""
    try:
        suite = build(spec, SUITES, data=data)
    except SpecError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None
    if not isinstance(suite, Suite):
        raise InputError(f"{spec} builds {type(suite).__name__}, which is not a suite")
    if not suite.items:
        location = "the suite" if data is None else str(data)
        raise InputError(
            f"{spec}: there are no items in {location}" + "".join(f"; {problem}" for problem in suite.problems)
        )
    return suite


def default_data(spec: Spec) -> Path | None:
    """`data/SUITE`, where `bench prepare` puts it, if it is there."""
    name = (spec if isinstance(spec, str) else str(spec.get("use", ""))).partition("?")[0]
    folder = Path("data") / name
    return folder if name and ":" not in name and folder.is_dir() else None


_METRIC_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError)
"""Errors of a metric about one item: the item's score fails, the run continues."""


@dataclass(frozen=True)
class MetricSet:
    """The metrics of a run. specs: as the suite defines them. skipped: name -> why the metric is not computed."""

    metrics: Mapping[str, Metric]
    specs: Mapping[str, Spec]
    skipped: Mapping[str, str]

    @staticmethod
    def select(
        suite: Suite, experts: Mapping[str, Expert], protocol: str | None = None, requested: Sequence[str] = ()
    ) -> MetricSet:
        """The metrics of a suite whose roles are all bound; or the requested ones (see `metric_spec`), all bound.

        Raises `InputError` for an unknown name or option, a role of a requested metric that is unbound or bound to an
        expert of other queries, for an expert without id or kinds, and if no metric is left.
        """
        for role, expert in experts.items():
            if problem := missing_declarations(expert):
                raise InputError(f"{role} cannot be asked: {problem}")
        specs = dict(suite.metrics(protocol))
        names = []
        for text in requested:
            name, specs[name] = metric_spec(suite, protocol, text)
            if name in names:
                raise InputError(f"--metric {name} is there twice: give all of its options at once")
            names.append(name)
        metrics: dict[str, Metric] = {}
        skipped: dict[str, str] = {}
        for name, spec in specs.items():
            if requested and name not in names:
                continue
            metric = _build_metric(name, spec)
            unbound = unbound_roles(experts, metric.card.roles)
            unsuitable = unsuitable_experts(experts, metric.card.kinds)
            if wrong := [problem for role, problem in unsuitable.items() if requested or role in experts]:
                raise InputError(f"metric {name} cannot be computed with these experts: {'; '.join(wrong)}")
            unbound += unsuitable  # `features.clip` is served by `features` only where that can
            if not unbound:
                metrics[name] = metric
                continue
            skipped[name] = f"no expert is bound to {', '.join(unbound)}"
            if requested:
                raise InputError(f"--metric {name}: {skipped[name]}: give --experts {unbound[0]}=…")
        if not metrics:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
            raise InputError(f"no metric of {suite.name} can be computed: {reasons}")
        return MetricSet(metrics, {name: specs[name] for name in metrics}, skipped)


@dataclass(frozen=True)
class CombinedMetric:
    """A metric whose score has those of a suite's metrics as parts. The sample's id is that of its item. It has no
    value: it is failed if a part failed, else not applicable. is_budget_exhausted: whether the budget is exhausted, so
    that failures are due to that."""

    suite: Suite
    metrics: Mapping[str, Metric]
    is_budget_exhausted: Callable[[], bool] = lambda: False

    @cached_property
    def card(self) -> Card:
        cards = [metric.card for metric in self.metrics.values()]
        roles = dict.fromkeys(role for card in cards for role in card.roles)
        return Card(self.suite.name, 1, self.suite.info.title, roles=tuple(roles), kinds=joint_kinds(cards))

    def __call__(self, sample: EditSample) -> Program[Score]:
        item = self.suite.by_id[sample.id]
        metrics = {name: metric for name, metric in self.metrics.items() if self.suite.judges(name, item)}
        scores = yield from gather([_metric_score(metric, sample) for metric in metrics.values()])
        signed_scores = (
            score if score.metric else score.with_signature(signature_of(metric))
            for score, metric in zip(scores, metrics.values(), strict=True)
        )
        parts = dict(zip(metrics, signed_scores, strict=True))
        failed = next((f"{name}: {part.reason}" for name, part in parts.items() if part.status == "failed"), "")
        if failed and not self.is_budget_exhausted():
            return Score.failed(failed, parts=parts)
        return Score(None, "not_applicable", "the scores are its parts", parts)


def metric_spec(suite: Suite, protocol: str | None, text: str) -> tuple[str, Spec]:
    """The name of a suite's metric, and its spec with the options of the text, as in `if?threshold=0.3`. An option
    reaches the metric inside of a composition, too. Raises `InputError` for an unknown name, for an option that the
    metric does not have, and for one that the suite itself decides."""
    specs = suite.metrics(protocol)
    name, _, query = str(text).partition("?")  # a file may have a list
    if name not in specs:
        raise InputError(f"{suite.name} has no metric {name!r:.80}: it has {', '.join(specs)}")
    spec = specs[name]
    for option, value in parse_qsl(query, keep_blank_values=True):
        places = _option_places(specs[name])
        if option in parameters(type(suite)) and option != "data":
            raise InputError(f"--metric {text}: {option} is an option of the suite: give '{suite.name}?{option}=…'")
        if option == "protocol":
            raise InputError(f"--metric {text}: the suite decides the protocol of its metrics: give --protocol")
        if option not in places:
            others = [other for other, its_spec in specs.items() if option in _option_places(its_spec)]
            hint = f"; {', '.join(others)} {'has' if len(others) == 1 else 'have'} it" if others else ""
            has = ", ".join(one for one in places if one not in parameters(type(suite)) and one != "protocol")
            raise InputError(f"--metric {text}: {name} has no option {option!r:.80}: it has {has or 'none'}{hint}")
        place, parameter = places[option]
        spec = _with_option(spec, place, option, read_option(value, parameter), text)
    return name, spec


def _option_places(spec: Spec, place: tuple[str, ...] = ()) -> dict[str, tuple[tuple[str, ...], inspect.Parameter]]:
    """Option -> the keys of the table that it stands in, and its parameter; of two, the outer one."""
    table = spec_table(spec)
    parts = {key: value for key, value in table.items() if isinstance(value, Mapping) and "use" in value}
    options = options_of(table["use"])
    places = {option: (place, parameter) for option, parameter in options.items() if option not in parts}
    for key, part in parts.items():
        places = {**_option_places(part, (*place, key)), **places}
    return places


def _with_option(spec: Spec, place: tuple[str, ...], option: str, value: Any, text: str) -> Spec:
    table = spec_table(spec)
    if place:
        return {**table, place[0]: _with_option(table[place[0]], place[1:], option, value, text)}
    if option in table:
        raise InputError(f"--metric {text}: the suite decides {option}, which is {table[option]!r:.80} here")
    if any(isinstance(one, Mapping | list) for one in (value if isinstance(value, list) else [value])):
        raise InputError(f"--metric {text}: {option} is a value, a table cannot be given here")
    return {**table, option: value}


def _metric_score(metric: Metric, sample: EditSample) -> Program[Score]:
    missing = [name for name in metric.card.requires if getattr(sample, name) in (None, "", (), {})]
    if missing:
        return Score.not_applicable(f"{metric.card.name} needs {', '.join(missing)}, which the data lacks")
    try:
        score = yield from score_with_signature(metric, sample)
    except _METRIC_ERRORS as error:
        return Score.failed(f"{metric.card.name} cannot judge this: {type(error).__name__}: {error}")
    return score


def _build_metric(name: str, spec: Spec) -> Metric:
    try:
        metric: Metric = build(spec)
    except SpecError:
        raise
    except (ImportError, ValueError) as error:
        raise InputError(f"metric {name} ({spec}) cannot be built: {error}") from None
    return metric


ALL_SUITES = "all"
"""In place of a suite, in `bench run all`."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class LeftOut(Exception):
    """A suite is not scored since something of it is not there; the message is the reason."""


@dataclass(frozen=True, slots=True)
class SuiteFolders:
    """A suite to score. name: of its folders. spec: the suite, with options. named: the user asked for it by name.
    data: None if there is no such folder: built-in suites need none."""

    name: str
    spec: str
    data: Path | None
    outputs: Path
    out: Path
    named: bool = False

    def load(self) -> Suite:
        """Raises `LeftOut` without outputs or data, and `InputError` or `SpecError` for data and specs with errors."""
        if not self.outputs.is_dir():
            raise LeftOut(f"there is no folder {self.outputs} of outputs")
        if self.data is not None:
            return load_suite(self.spec, self.data)
        try:
            return load_suite(self.spec)
        except SpecError:
            raise
        except InputError as error:
            raise LeftOut(str(error)) from None


def find_suites(texts: Sequence[str], data: Path, outputs: Path, out: Path) -> list[SuiteFolders]:
    """The folders of the suites to score: `DATA/NAME`, `OUTPUTS/NAME`, `OUT/NAME`.

    texts: specs such as `edival?mode=singlepass`, or `NAME=SPEC` for a name other than the suite's; by default all
    installed suites. The data of a suite with another name may also be in the folder of the suite's own name.

    Raises `InputError` for a text that is not of this form, for two suites of one name, and without a folder of
    outputs.
    """
    if not outputs.is_dir():
        raise InputError(f"{outputs} is no folder: give the folder with a folder of outputs for each suite, --outputs")
    found: dict[str, SuiteFolders] = {}
    for text in texts or entry_point_names(SUITES):
        head, equals, tail = text.partition("=")
        name, spec = (head, tail) if equals and "?" not in head else (text.partition("?")[0], text)
        suite = spec.partition("?")[0]
        if not _NAME.fullmatch(name) or not suite:
            raise InputError(f"--suite {text}: give a suite, as in edival?mode=singlepass, or NAME=SUITE")
        if name in found:
            raise InputError(f"--suite {text}: there are two suites {name}: name one of them, as in {name}-2={spec}")
        folder = next((data / one for one in (name, suite) if _NAME.fullmatch(one) and (data / one).is_dir()), None)
        found[name] = SuiteFolders(name, spec, folder, outputs / name, out / name, bool(texts))
    return list(found.values())
