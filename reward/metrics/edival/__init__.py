"""EdiVal (EdiVal-Agent, ICLR 2026): instruction following, content consistency, visual quality, overall.

`task_parser` parses instructions, `pools` tracks the objects over the turns; `following`, `consistency`, `quality` and
`overall` hold the metrics.
"""
