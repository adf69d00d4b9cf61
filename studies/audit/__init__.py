"""Study of the audit: good edits of photographs, in a set for development and one held back, and the audit of a set."""
