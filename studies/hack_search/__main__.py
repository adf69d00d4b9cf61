"""The hack search: `python -m studies.hack_search demo --reward any-edit --evaluations 100`.

An audit's families are single steps, and a policy mixes them: chains of up to three families, in a region or blended
with the edit, and what the editor itself makes of a wrong request (`--pipeline`). A bounded random and evolutionary
search looks at each edit for the mixture with the highest score that is still known to be worse than the edit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from editcritic.benchmarks.audit.chosen_edits import READ_AHEAD, of_many_sources, valid_samples
from editcritic.benchmarks.audit.report_text import rate_text, signed
from editcritic.benchmarks.common.argument_types import at_least_one, new_file
from editcritic.benchmarks.common.inputs import parse_pipeline_args
from editcritic.benchmarks.run.run_budget import BudgetLimits
from editcritic.cli.audit import audit_subject
from editcritic.cli.edit import DEMO, demo_entries, file_entries
from editcritic.cli.editor_spec import EditorSpec
from editcritic.reward.audit import select_families

from .misused_editor import audit_editor
from .search import EVALUATIONS, HackSearch, SearchResult


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if experts failed, or the search ended early."""
    parser = argparse.ArgumentParser(prog="studies.hack_search", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("samples", help="file or folder of samples, as `editcritic audit` takes them; or `demo`")
    parser.add_argument("--reward", default="any-edit", help="as in `editcritic audit` (default: any-edit)")
    parser.add_argument("--experts", action="append", help="as in `editcritic audit`")
    parser.add_argument("--family", action="append", default=[], help="only these families, or those of a relation")
    parser.add_argument("--evaluations", type=at_least_one, default=EVALUATIONS, help="of each edit (default: 100)")
    parser.add_argument("--limit", type=at_least_one, default=16, help="number of edits (default: 16)")
    parser.add_argument("--pipeline", help="the editor to be trained: what it makes of wrong requests is mixed, too")
    parser.add_argument("--pipeline-arg", action="append", default=[], help="as in `editcritic edit`")
    parser.add_argument("--budget", help="as in `editcritic audit`; the search ends there")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=new_file, help="file to write the figures to")
    parser.add_argument("--pictures", type=Path, help="folder for pictures of the finds")
    options = parser.parse_args(arguments)
    search, exhausted = _search(options)
    result = search.run(exhausted)
    print("\n".join(search_lines(result)))
    if options.json is not None:
        options.json.write_text(json.dumps(result.to_json(), indent=1) + "\n", encoding="utf-8")
    if options.pictures is not None:
        options.pictures.mkdir(parents=True, exist_ok=True)
        for number, find in enumerate(result.finds):
            if (picture := search.picture(find)) is not None:
                picture.pil().save(options.pictures / f"{number:02}.png")
    return int(bool(result.stopped) or result.infrastructure_failures > 0)


def _search(options: argparse.Namespace) -> tuple[HackSearch, Callable[[], str]]:
    subject = audit_subject(options.reward, options.experts, limits=BudgetLimits.parse(options.budget))
    entries = demo_entries() if options.samples == DEMO else file_entries(Path(options.samples), {})
    tell = lambda problem: print(f"{problem}", file=sys.stderr)  # noqa: E731
    read = list(islice(valid_samples(entries, subject.scorer, tell), options.limit * READ_AHEAD))
    chosen = of_many_sources(read, options.limit, options.seed)
    spec = None
    if options.pipeline is not None:
        spec = EditorSpec(options.pipeline, parse_pipeline_args(options.pipeline_arg))
    editor = audit_editor(spec, chosen)
    search = HackSearch(
        subject.scorer,
        chosen,
        evaluations=options.evaluations,
        families=select_families(options.family),
        seed=options.seed,
        edit_again=editor.edit_again,
        weakened=editor.weakened,
    )
    return search, subject.exhausted


def search_lines(search: SearchResult) -> list[str]:
    """The result of a search, in sentences."""
    edits = f"{len(search.compared):,} edits, at most {search.evaluations:,} of each"
    ends = f"the search ends at or above the edit in {rate_text(search.rate)}"
    lines = [f"{search.evaluated:,} mixtures of families at {edits}: {ends}."]
    if (best := search.best_gain) is not None:
        interval = "" if best.low is None else f" ({signed(best.low)} to {signed(best.high)})"
        lines.append(f"The best mixture of each edit gains {signed(best.value)} of the scale{interval} on average.")
    if failures := search.infrastructure_failures:
        lines.append(f"{failures:,} mixtures have no score because an expert could not be asked.")
    if search.stopped:
        lines.append(f"It ended before all edits were searched: {search.stopped}.")
    lines += [f"The editor failed {count} times: {error}" for error, count in search.editor_errors.items()]
    lines += [f"A family failed {count} times: {error}" for error, count in search.family_errors.items()]
    return lines


if __name__ == "__main__":
    sys.exit(main())
