"""Checks a data set of edits for a trainer before it is trained on."""

from .row_checker import KINDS, CheckOptions, Finding, RowsReport, check_rows
from .row_files import BrokenFile, RowFile, RowReader
from .trainer_layouts import TRAINER_LAYOUTS, TrainerLayout, layout_of

__all__ = [
    "KINDS",
    "TRAINER_LAYOUTS",
    "BrokenFile",
    "CheckOptions",
    "Finding",
    "RowFile",
    "RowReader",
    "RowsReport",
    "TrainerLayout",
    "check_rows",
    "layout_of",
]
