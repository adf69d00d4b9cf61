"""The commands `editcritic bench ...`, one module each."""
