"""GEdit-Bench (arXiv 2504.17761): 606 requests of people for edits of 11 types, in English and in Chinese."""
