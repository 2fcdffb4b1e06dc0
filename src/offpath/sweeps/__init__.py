"""Sweeps: bounded passes over due rows, each row in its own error boundary."""
