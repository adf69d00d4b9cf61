"""EdiVal (EdiVal-Agent, ICLR 2026): instruction following, content consistency, visual quality, overall.

`instructions` reads what an instruction asks for, `pools` keeps track of the objects over the turns; `following`,
`consistency`, `quality` and `overall` hold the metrics.
"""
