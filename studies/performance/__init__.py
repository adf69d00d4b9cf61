"""Cost measurements: scripts that print ratios and figures. Timings are printed, never asserted."""
