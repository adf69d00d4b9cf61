"""The benchmark suites, offline: items, editors' outputs, scores, and the papers' tables."""
