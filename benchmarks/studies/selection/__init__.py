"""Gains of selectors, measured with ground truth: `python -m editcritic.benchmarks.studies.selection`."""
