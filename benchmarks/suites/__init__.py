"""The benchmark suites, offline: what is asked, what was made of it, what that is worth, and the papers' tables."""
