"""ImgEdit-Bench (arXiv 2505.20275): one question for an edit, by its type, and the one of its hard instructions (UGE).

`criteria` has the types and their criteria, `graded_edit` what both metrics share, `reply_reading` reads the replies,
`basic` and `uge` hold the metrics.
"""
