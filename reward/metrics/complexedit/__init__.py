"""Complex-Edit (arXiv 2504.13143): instruction following, identity preservation, perceptual quality, overall.

`options` and `judge_sampling` query the judge, `alignment`, `quality` and `overall` hold the metrics, and
`measurement_variation` measures how much a score varies with the number of judge samples.
"""
