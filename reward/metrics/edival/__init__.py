"""EdiVal (EdiVal-Agent, ICLR 2026): instruction following, content consistency, visual quality, overall."""
