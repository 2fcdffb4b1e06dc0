"""Errors of the store, and conflicts with what it holds."""

from __future__ import annotations

from offpath.errors.refusals import OffpathError


class Conflict(OffpathError):
    """The store already holds something else under this identity."""

    code = "conflict"


class UniqueConflict(Conflict):
    """The unique key is taken: by a job with another payload, or the policy refuses to attach.

    ``key`` is the unique key, ``holder`` the id of the job that has it.
    """

    code = "unique_conflict"

    def __init__(self, message: str, *, key: str, holder: str) -> None:
        super().__init__(message)
        self.key = key
        self.holder = holder


class IdConflict(Conflict):
    """The job id is already used by a job with another task or input."""

    code = "id_conflict"


class Unconfirmed(Conflict):
    """More would be removed for good than was confirmed; the text says what confirms it."""

    code = "unconfirmed"


class StoreError(OffpathError):
    """The store could not do what was asked."""

    code = "store"


class StoreUnavailable(StoreError):
    """The store cannot be reached or the connection was cut.

    The outcome of a write is *unknown*; repeating it with the same ids changes nothing twice.
    """

    code = "store_unavailable"
    retryable = True
    told = False  # whether the store itself has logged that it is away


class StoreBusy(StoreError):
    """The store stayed locked by somebody else for too long. Nothing was written; retry later."""

    code = "store_busy"
    retryable = True


class StoreRejected(StoreError):
    """The store refused a value (a constraint or a type): repeating the same write cannot help."""

    code = "store_rejected"


class CapabilityMissing(StoreError):
    """This backend does not offer what was asked; the message names one that does."""

    code = "capability_missing"
    profile: str | None = None
    """The part of the store's contract that is missing, where it is a whole part."""


class SchemaError(StoreError):
    """The schema in the store does not fit this version of offpath."""

    code = "schema"


class SchemaMissing(SchemaError):
    """The store was never migrated: run ``offpath migrate`` or open with ``migrate=True``."""

    code = "schema_missing"


class SchemaOutdated(SchemaError):
    """The schema is older than this version needs: run ``offpath migrate``."""

    code = "schema_outdated"


class SchemaTooNew(SchemaError):
    """The schema is newer than this version knows: upgrade offpath."""

    code = "schema_too_new"


class SchemaChanged(SchemaError):
    """A migration recorded as applied has another checksum than the one shipped."""

    code = "schema_changed"


class LeaseLost(OffpathError):
    """The lease is no longer ours; nothing was written."""

    code = "lease_lost"
