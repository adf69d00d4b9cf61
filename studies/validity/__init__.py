"""The validity report: how far each installed metric can be trusted, measured where the truth is known."""
