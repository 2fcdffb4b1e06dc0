"""Rows of backends that decide in Python: records, and the pure steps between their states."""
