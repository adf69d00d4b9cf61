"""I2I-Bench: 15 dimensions of edits of one image, 15 of edits that make one image out of several.

`dimensions` describes each dimension; `overall` has a metric for each, by name, and their mean. The other modules are
the pipelines: `dimension` (a judge alone), `similarity` (regions), `specialists` (raters, and a reader).
"""
