"""Experts: one file each; none imports another (`annotated` uses the search in `matching`)."""
