"""The Postgres backend."""
