"""VIEScore of edits (arXiv 2312.14867), as GEdit-Bench uses it: semantic consistency, perceptual quality, overall."""
