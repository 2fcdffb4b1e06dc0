"""Documents: what an operator reads of each noun, the same on a page, in JSON and by a command.

Each module has a struct and ``describe``, which makes it of what the store answered.
"""
