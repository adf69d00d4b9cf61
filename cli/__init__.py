"""The command line `editcritic`."""
