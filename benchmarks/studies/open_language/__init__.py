"""`any-edit` on sentences in open language: `python -m editcritic.benchmarks.studies.open_language`."""
