"""`editcritic rewards`: the installed rewards, or the card of one."""

from __future__ import annotations

import typer

from ..benchmarks.common.terminal import exit_code_command, print_json, render
from .options import Json


@exit_code_command
def rewards(
    name: str | None = typer.Argument(None, help="Print the card of this reward."), as_json: Json = False
) -> int:
    """List the installed rewards, or print the card of one: range, experts, options, how it can be gamed.

    Example: editcritic rewards edit-balanced
    """
    from ..benchmarks.common.reward_catalogue import describe, list_rewards, render_card, render_catalog

    if name is not None:
        description = describe(name)
        print_json(description.to_json()) if as_json else render(render_card(description))
        return 0
    descriptions = list(list_rewards())
    if as_json:
        print_json([description.to_json() for description in descriptions])
    else:
        render(render_catalog(descriptions))
    return int(any(description.problem for description in descriptions))
