"""The operations of an economy: one file for each family of operations, all of it pure.

A family checks a request, names what it has to be looked up for it, and plans it: ids, needs and
the rule that decides it on a book. The ``steps_*`` are what sweeps do with single rows.
"""
