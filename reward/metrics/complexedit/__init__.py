"""Complex-Edit (arXiv 2504.13143): instruction following, identity preservation, perceptual quality, overall.

`options` and `measuring` hold how a judge is asked, `alignment`, `quality` and `overall` the metrics, `variance` how
much a score varies with the number of measurements.
"""
