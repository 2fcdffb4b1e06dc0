"""The operation of our Django migrations: our own schema steps, on Django's connection."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.migrations.operations.base import Operation

from offpath.config import load_settings
from offpath.contrib.django.database import alias_of, dialect_of
from offpath.contrib.schema_steps import run_steps
from offpath.store.sql import DEFAULT_SCHEMA as DEFAULT

BACKENDS = frozenset(
    {
        "offpath.contrib.django.OffpathBackend",
        "offpath.contrib.django.backend.OffpathBackend",
    }
)
"""The names of our backend in ``TASKS``."""


class SchemaSteps(Operation):  # type: ignore[misc] # Django ships no types
    """Our schema steps up to a number, for each kind of database; all that there are without one.

    A step that ``offpath migrate`` ran already is not run again, and the other way round.
    """

    reversible = False
    reduces_to_sql = False
    atomic = True

    def __init__(self, postgres: int | None = None, sqlite: int | None = None) -> None:
        self.postgres = postgres
        self.sqlite = sqlite

    def state_forwards(self, app_label: str, state: Any) -> None:  # noqa: ANN401 - Django's
        """Change nothing: these tables have no models."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: Any,  # noqa: ANN401 - Django's
        from_state: Any,  # noqa: ANN401, ARG002 - as above
        to_state: Any,  # noqa: ANN401, ARG002 - as above
    ) -> None:
        """Run what is pending, where our jobs are."""
        from django.db import router

        connection = schema_editor.connection
        if not ours(connection.alias) or not router.allow_migrate(connection.alias, app_label):
            return
        dialect = dialect_of(connection.alias)
        to = self.postgres if dialect == "postgres" else self.sqlite
        for schema in schemas_of(connection.alias):
            run_steps(connection, dialect, to, schema=schema)

    def database_backwards(self, *_: object) -> None:
        """Refuse: what was done to jobs that exist cannot be undone."""
        raise NotImplementedError("the steps of offpath's schema have no way back")

    def describe(self) -> str:
        """A line for ``migrate --plan``."""
        numbers = f"{self.postgres or 'all'} on Postgres, {self.sqlite or 'all'} on SQLite"
        return f"the steps of offpath's schema: {numbers}"


def ours(alias: str) -> bool:
    """True if a backend of ``TASKS`` keeps its jobs in this database."""
    return bool(schemas_of(alias))


def schemas_of(alias: str) -> list[str]:
    """The schemas in which backends of ``TASKS`` keep their jobs in this database."""
    backends = getattr(settings, "TASKS", {}).values()
    mine = [one.get("OPTIONS") or {} for one in backends if one.get("BACKEND") in BACKENDS]
    there = [one for one in mine if "url" not in one and alias_of(one) == alias]
    return sorted({schema_of(options) for options in there})


def schema_of(options: dict[str, Any]) -> str:
    """The schema in which a backend with these options keeps its jobs."""
    return load_settings(schema=(options.get("settings") or {}).get("schema")).schema or DEFAULT
