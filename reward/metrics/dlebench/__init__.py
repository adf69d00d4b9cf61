"""DLEBench: edits of small objects, judged by labels (instruction following, visual consistency)."""
