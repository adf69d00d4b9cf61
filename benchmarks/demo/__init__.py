"""A ranking of real edits that needs no download: eight instructions on photographs, eight candidate edits each.

`demo_scenes` has the rows, `photographs` the hand-drawn annotations, `retouch_operations` and `retouch` the edit
operations, `candidate_edits` the eight candidates, `perturb` the small damage that the ranking has to survive.
"""
