"""Our schema as migrations of Django."""
