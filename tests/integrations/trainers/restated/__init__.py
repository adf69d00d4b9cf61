"""The calling code of trainers, restated."""
