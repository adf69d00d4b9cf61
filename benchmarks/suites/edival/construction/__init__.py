"""EdiVal-Agent's construction of instruction chains."""
