"""Planners: experts that answer `Plan`. They stand above the metrics, whose parsers and validator they use."""
