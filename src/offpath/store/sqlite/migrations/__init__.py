"""The schema steps of the SQLite backend."""
