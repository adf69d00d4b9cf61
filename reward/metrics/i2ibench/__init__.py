"""I2I-Bench: 15 dimensions of edits of one image, 15 of edits that make one image out of several.

`dimensions` describes each dimension; `single_source` and `multi_source` have a metric for each, by name; `overall` is
their mean. The other modules are the pipelines: `level_ratings`, `questions`, `similarity`, `text_content_style`,
`extraction`, `specialists`.
"""
