"""The report of a suite: one page with tables, curves and pictures; and comparisons of editors."""
