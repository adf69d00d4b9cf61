"""A ranking of real edits that needs no download: eight instructions on photographs, eight candidate edits each.

Read `scenes` for the rows, `photographs` for what was drawn by hand, `operations` and `retouch` for how the edits are
made, `edits` for the eight candidates, `perturb` for the small damage the ranking has to survive.
"""
