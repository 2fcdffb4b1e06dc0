"""Opening an app on a store that somebody else looks after."""

from __future__ import annotations

from offpath.app import App
from offpath.errors import SchemaMissing
from offpath.model.redact import redact_url


async def require_schema(app: App) -> None:
    """Raise ``SchemaMissing`` when the store was never migrated: a mistyped name of a database is
    not to become an empty one that looks fine.
    """
    store = app.store()
    try:
        steps = await store.migrations()
    finally:
        await app.close()
    if steps and all(step.applied_at is None for step in steps):
        place = redact_url(app.settings.url)
        raise SchemaMissing(
            f"{place} has no offpath tables: is this the right database? If it is, "
            "run `offpath migrate`"
        )
