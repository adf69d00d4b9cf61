"""SceneEdit: a small world whose truth is known, to check rewards in. See `docs/sceneedit.md`."""
