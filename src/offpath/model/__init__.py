"""Values and pure rules: no I/O, no clock, no randomness.

Values are frozen ``msgspec.Struct``: built and decoded in C, as cheap on the hot path as a tuple.
"""
