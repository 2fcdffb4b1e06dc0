"""Other job libraries beside this one: each in an environment of its own, in one run, in turns."""
