"""I2I-Bench: 15 dimensions of edits of one picture, 15 of edits that make one picture out of several.

`table` says of each dimension what it is; `single` and `multi` hold a metric for each, by its name; `overall` is their
mean. The other files are the pipelines: `levels`, `questions`, `similarity`, `text`, `extraction`, `specialists`.
"""
