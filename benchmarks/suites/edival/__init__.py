"""EdiVal: chains of three turns."""
