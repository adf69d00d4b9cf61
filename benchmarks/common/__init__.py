"""What suites, reports and commands share: errors, inputs, optional imports, progress."""
