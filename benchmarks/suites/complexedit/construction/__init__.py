"""Complex-Edit's construction of compound instructions."""
