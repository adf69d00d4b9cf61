"""The commands `editcritic dev ...`, one module each."""
