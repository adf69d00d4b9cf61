"""DLEBench: small objects."""
