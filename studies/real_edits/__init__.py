"""Study of real edits: does a reward agree with people on edits by real editors, and what does it pay for wreckage?"""
