"""Running a suite: outputs are generated and scored on one or many machines, cached and resumable."""
