"""DLEBench's construction of edits of small objects."""
