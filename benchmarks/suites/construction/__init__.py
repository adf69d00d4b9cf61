"""Construction and download of benchmark data: what all suites share."""
