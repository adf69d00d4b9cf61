"""Rank candidate edits of real photographs with one reward; with `--damage`, also damaged copies of them.

python -m editcritic.benchmarks.demo [--damage] [--seeds 20] [--rows 8] [--write FOLDER]
"""

from ..common.interruption import end_after


def _run() -> None:
    from ..common.terminal import limit_library_threads, replace_unencodable_output

    limit_library_threads()
    replace_unencodable_output()
    import typer

    from .command import main

    typer.run(main)


if __name__ == "__main__":
    end_after(_run)
