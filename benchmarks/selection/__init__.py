"""What selectors gain where the truth is known: `python -m editcritic.benchmarks.selection`."""
