"""The commands `editcritic judge ...`, one module each."""
