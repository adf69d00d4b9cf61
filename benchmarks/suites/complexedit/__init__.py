"""Complex-Edit: compound instructions of eight levels."""
