"""`any-edit` on sentences in open language: `python -m studies.open_language`."""
