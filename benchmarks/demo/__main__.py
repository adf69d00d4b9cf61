"""Rank candidate edits of real photographs with one reward, and see whether the order survives small damage.

python -m editcritic.benchmarks.demo [--seeds 20] [--rows 8] [--write FOLDER]
"""

from ..terminal import one_thread_a_library, write_in_any_locale

if __name__ == "__main__":
    one_thread_a_library()
    write_in_any_locale()
    import typer

    from .show import main

    typer.run(main)
