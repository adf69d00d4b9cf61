"""`editcritic dev diff`: the regions in which two images differ."""

from __future__ import annotations

from pathlib import Path

import typer

from ...benchmarks.common.terminal import echo, exit_code_command, print_json, render
from ..options import Json


@exit_code_command
def diff(
    before: Path = typer.Argument(help="The first image."),
    after: Path = typer.Argument(help="The edited image; it is resized to the size of the first."),
    out: Path | None = typer.Option(
        None, "-o", "--out", help="Write a contact sheet (PNG) with a pair of crops per region."
    ),
    threshold: int = typer.Option(24, help="Minimum pixel difference (0 to 254) after denoising."),
    max_regions: int = typer.Option(32, min=1, help="Maximum number of regions, largest first."),
    as_json: Json = False,
) -> int:
    """Report where two images differ beyond noise, and how strongly. No model is needed.

    Example: editcritic dev diff before.png after.png -o sheet.png
    """
    from .image_diff import diff_images, render_regions, write_sheet

    image_diff = diff_images(before, after, out, threshold=threshold, max_regions=max_regions)
    if out is not None:
        write_sheet(out, image_diff)
    if as_json:
        print_json({**image_diff.to_json(), "sheet": None if out is None else str(out)})
    elif image_diff.regions:
        render(render_regions(image_diff))
    else:
        echo("no region differs beyond noise", stderr=False)
    return 0
