"""offpath."""
