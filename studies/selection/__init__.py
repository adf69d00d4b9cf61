"""Gains of selectors, measured with ground truth: `python -m studies.selection`."""
