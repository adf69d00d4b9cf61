"""`editcritic bench list`: the installed suites, and what each needs."""

from __future__ import annotations

from ...benchmarks.common.terminal import exit_code_command, print_json, render
from ..options import Json


@exit_code_command
def list_suites(as_json: Json = False) -> int:
    """List the suites, with the data, the editor's outputs and the experts (by role) that each needs.

    `bench prepare SUITE` says where the data come from; --json also has the columns of the data that are read.

    Example: editcritic bench list
    """
    from ...benchmarks.run import suite_catalogue

    suites = list(suite_catalogue.list_suites())
    if as_json:
        print_json([entry.to_json() for entry in suites])
    else:
        render(suite_catalogue.render_suites(suites))
    return int(any(entry.problem for entry in suites))
