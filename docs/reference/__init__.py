"""The reference pages of the documentation site, made from the code: see `reference_pages.py` beside this folder."""
