"""Benchmarks: ours beside the bare statements of the same database, in one run.

Speed is stated here and never asserted in a test.
"""
