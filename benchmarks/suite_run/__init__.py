"""Running a suite: outputs are made, judged on one machine or many, and never paid for twice."""
