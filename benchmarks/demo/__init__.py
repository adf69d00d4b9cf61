"""A ranking of real edits that needs no download: eight instructions on photographs, eight candidate edits each.

`photographs` has the hand-drawn annotations, `retouch_operations` and `retouch` the edit operations, `candidate_edits`
the rows, their candidates, and `perturb`, the small damage that the ranking has to survive.
"""
