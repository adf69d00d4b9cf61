"""Does a planner read what people write? Labelled phrasings, and a planner's plans against them."""
