"""A grammar of everyday English requests to edit a picture: words, tokens, clauses, noun phrases, verb frames."""
