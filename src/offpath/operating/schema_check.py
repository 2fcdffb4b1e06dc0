"""Opening an app on a store that somebody else looks after."""

from __future__ import annotations

from offpath.app import App
from offpath.errors import SchemaMissing, SchemaOutdated
from offpath.model.redact import redact_url
from offpath.store.protocol import Migration


async def require_current_schema(app: App) -> None:
    """Raise ``SchemaMissing`` or ``SchemaOutdated`` for a store that opening would change.

    Whoever looks migrates nothing, also where a backend would do so by itself: an older version
    may be at work on it.
    """
    steps = await _steps(app)
    if steps and all(step.applied_at is None for step in steps):
        raise _missing(app)
    left = [step for step in steps if step.applied_at is None]
    if left:
        names = ", ".join(f"{step.number:04}_{step.name}" for step in left)
        at = max(step.number for step in steps if step.applied_at is not None)
        raise SchemaOutdated(
            f"the schema is at step {at:04}, this version of offpath needs {left[-1].number:04}: "
            f"run `offpath migrate` ({names})"
        )


async def require_schema(app: App) -> None:
    """Raise ``SchemaMissing`` when the store was never migrated: a mistyped name of a database is
    not to become an empty one that looks fine.
    """
    steps = await _steps(app)
    if steps and all(step.applied_at is None for step in steps):
        raise _missing(app)


async def _steps(app: App) -> list[Migration]:
    store = app.store()
    try:
        return await store.migrations()
    finally:
        await app.close()


def _missing(app: App) -> SchemaMissing:
    return SchemaMissing(
        f"{redact_url(app.settings.url)} has no offpath tables: is this the right database? If it "
        "is, run `offpath migrate`"
    )
