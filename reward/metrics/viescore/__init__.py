"""VIEScore of edits (arXiv 2312.14867), as GEdit-Bench uses it: semantic consistency, perceptual quality, overall.

`grades` reads a judge's reply in both protocols, `questions` holds the two questions, and `overall` the root of their
product.
"""
